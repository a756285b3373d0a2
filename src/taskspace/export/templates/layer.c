
/* out = in W + b, W by rows of inputs. */
static void layer(const real *weight, const real *bias, int n_in, int n_out,
                  const real *in, real *out)
{
    int i, j;

    for (j = 0; j < n_out; j++) {
        out[j] = bias[j];
    }
    for (i = 0; i < n_in; i++) {
        const real x = in[i];
        for (j = 0; j < n_out; j++) {
            out[j] += x * weight[i * n_out + j];
        }
    }
}
