        k = 0;
        for (i = 1; i < ${n_out}; i++) {
            if (out[i] > out[k]) {
                k = i;
            }
        }
        action[0] = (real)k;
