        {
            int best = 0;
            for (i = 1; i < ${n_out}; i++) {
                if (${out}[i] > ${out}[best]) {
                    best = i;
                }
            }
            action[0] = (real)best;
        }
