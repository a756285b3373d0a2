/* PI and PID controllers in steps of ${dt}, written by taskspace. */
#ifndef ${upper}_PID_H
#define ${upper}_PID_H

#include "${name}.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    double x[${n}]; /* the integral first */
    double u;    /* last output */
    int policy;  /* last controller, -1 for none */
} ${name}_pid;

void ${name}_pid_start(${name}_pid *state);

/* One step: u = output within [low, high] for the measurement y and the set point r.
 * A refused context, and a y or r that is not finite, keep the last output and move
 * nothing: look at the status. A switch sets the integral so that u goes on from the
 * last output; a controller without integral (ki = 0) cannot, and u may jump. */
${name}_selection ${name}_pid_step(${name}_pid *state,
                                 const ${name}_real context[${upper}_N_AXES],
                                 double y, double r, double low, double high,
                                 double *u);

#ifdef __cplusplus
}
#endif

#endif
