        for (i = 0; i < ${n_out}; i++) {
            action[i] = out[i] < ${low} ? ${low} : out[i] > ${high} ? ${high} : out[i];
        }
