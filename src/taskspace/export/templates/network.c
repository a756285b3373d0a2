    {
        static const int size[] = {${sizes}};
        const real *weight = WEIGHT + (long)policy * ${n_weights};
        const real *bias = BIAS + (long)policy * ${n_biases};
        const real *in = observation;
        real even[${widest}], odd[${widest}], *out = even;
        int k;

        for (k = 0; k < ${n_layers}; k++) {
            out = k % 2 == 0 ? even : odd;
            layer(weight, bias, size[k], size[k + 1], in, out);
            for (i = 0; k < ${n_layers} - 1 && i < size[k + 1]; i++) {
                out[i] = ${activation};
            }
            weight += size[k] * size[k + 1];
            bias += size[k + 1];
            in = out;
        }
${head}    }
