#include "${name}_pid.h"

typedef double real;

${tables}

static double output(const ${name}_pid *state, int policy, double y, double r)
{
    const double *c = PID_C + policy * ${n};
    double total = c[0] * state->x[0];
    int j;

    for (j = 1; j < ${n}; j++) {
        total = total + c[j] * state->x[j];
    }
    return -(total + PID_D[policy] * y + PID_D_R[policy] * r);
}

void ${name}_pid_start(${name}_pid *state)
{
    int j;

    for (j = 0; j < ${n}; j++) {
        state->x[j] = 0;
    }
    state->u = 0;
    state->policy = -1;
}

${name}_selection ${name}_pid_step(${name}_pid *state,
                                 const ${name}_real context[${upper}_N_AXES],
                                 double y, double r, double low, double high,
                                 double *u)
{
    ${name}_selection found = ${name}_select(context);
    const int p = found.policy;
    double v, push, moved[${n}];
    int i, j;

    *u = state->u < low ? low : state->u > high ? high : state->u;
    if (p < 0 || y - y != 0.0 || r - r != 0.0) {
        return found;
    }
    v = output(state, p, y, r);
    if (state->policy >= 0 && state->policy != p && PID_C[p * ${n}] != 0.0) {
        state->x[0] = state->x[0] + (v - state->u) / PID_C[p * ${n}];
        v = output(state, p, y, r);
    }
    *u = v < low ? low : v > high ? high : v;
    for (i = 0; i < ${n}; i++) {
        const double *row = PID_A + (p * ${n} + i) * ${n};
        double total = row[0] * state->x[0];
        for (j = 1; j < ${n}; j++) {
            total = total + row[j] * state->x[j];
        }
        moved[i] = total + PID_B[p * ${n} + i] * y + PID_B_R[p * ${n} + i] * r;
    }
    push = -PID_C[p * ${n}] * (moved[0] - state->x[0]);
    if (!((v > high && push > 0.0) || (v < low && push < 0.0))) {
        state->x[0] = moved[0];
    }
    for (i = 1; i < ${n}; i++) {
        state->x[i] = moved[i];
    }
    state->u = *u;
    state->policy = p;
    return found;
}
