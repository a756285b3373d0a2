/* A policy library written by taskspace; contract.json says more.
 *
 * ${statement}
 *
${cost}${contexts} *
 * Outside the range: ${outside}.
 * Not finite: ${not_finite}.
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
    ${upper}_ESTIMATED = ${ESTIMATED},  /* ${estimated} */
    ${upper}_FAILING = ${FAILING}     /* known not to be served; the best policy is used */
};

typedef struct {
    int policy; /* -1 where refused */
    int status;
} ${name}_selection;

/* Which policy to use in a context. */
${name}_selection ${name}_select(const ${name}_real context[${upper}_N_AXES]);
${act}
/* For a context that moves: keeps a policy a little beyond its region. A refused
 * reading gives no policy and leaves what is held as it was. */
typedef struct {
    int policy;${age}
    ${name}_real anchor[${upper}_N_AXES];
} ${name}_hold;

void ${name}_hold_start(${name}_hold *hold);
${name}_selection ${name}_select_held(${name}_hold *hold,
                                    const ${name}_real context[${upper}_N_AXES]);
${timed}
#ifdef __cplusplus
}
#endif

#endif
