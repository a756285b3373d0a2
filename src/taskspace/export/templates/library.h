/* A policy library written by taskspace; contract.json says more.
 *
 * ${statement}
 *
${cost}${axes}${fixed} *
 * A context outside the range ${outside}; one that is not finite is
 * refused.
 */
#ifndef ${upper}_H
#define ${upper}_H

#ifdef __cplusplus
extern "C" {
#endif

typedef ${real} ${name}_real;

#define ${upper}_N_AXES ${n_axes}
#define ${upper}_N_POLICIES ${n_policies}

enum {
    ${upper}_GUARANTEED = ${GUARANTEED}, /* ${guaranteed} */
    ${upper}_INSIDE = ${INSIDE},     /* in the range, nothing known */
    ${upper}_OUTSIDE = ${OUTSIDE},    /* out of range, nearest policy used */
    ${upper}_REFUSED = ${REFUSED},    /* no policy */
    ${upper}_ESTIMATED = ${ESTIMATED}   /* ${estimated} */
};

typedef struct {
    int policy; /* -1 where refused */
    int status;
} ${name}_selection;

/* Which policy to use in a context. */
${name}_selection ${name}_select(const ${name}_real context[${upper}_N_AXES]);
${act}
/* For a context that drifts: keeps a policy a little beyond its region. */
typedef struct {
    int policy;
    ${name}_real age; /* time since the last switch */
    ${name}_real anchor[${upper}_N_AXES];
} ${name}_hold;

void ${name}_hold_start(${name}_hold *hold);
${name}_selection ${name}_select_held(${name}_hold *hold,
                                    const ${name}_real context[${upper}_N_AXES]);

/* The same, with the time since the last call: no switch comes sooner after another
 * than the dwell time that stability was proven for (${dwell_time}). */
${name}_selection ${name}_select_timed(${name}_hold *hold,
                                     const ${name}_real context[${upper}_N_AXES],
                                     ${name}_real elapsed);

#ifdef __cplusplus
}
#endif

#endif
