        for (i = 0; i < ${n_out}; i++) {
            action[i] = ${low} + (${tanh}(out[i]) + 1) / 2 * ${width};
        }
