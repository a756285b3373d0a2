    for (i = 0; i < ${m}; i++) {
        const real *row = GAIN + (policy * ${m} + i) * ${n};
        real sum = -row[0] * observation[0];
        int j;
        for (j = 1; j < ${n}; j++) {
            sum = sum + -row[j] * observation[j];
        }
        action[i] = sum;
    }
