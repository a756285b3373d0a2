/* An interpolated gain schedule written by taskspace; contract.json says more.
 *
 * Question: ${question}
 * ${statement}
 *
 * ${drift}
 *
${contexts} *
 * Numbers are interpolated multilinearly between breakpoints, the last axis first, and
 * constant beyond the first and the last breakpoint. On an axis marked log they are
 * linear in the logarithm.
 * Outside the range: ${outside}.
 * Not finite: ${not_finite}.
 *
 * ${rounding}
 * The rounding of an action is part of no guarantee.
 */
#ifndef ${upper}_H
#define ${upper}_H

#ifdef __cplusplus
extern "C" {
#endif

#define ${upper}_N_AXES ${n_axes}
#define ${upper}_N_NUMBERS ${n_numbers}

enum {
    ${upper}_GUARANTEED = ${GUARANTEED}, /* ${guaranteed} */
    ${upper}_INSIDE = ${INSIDE},     /* in the range, nothing known */
    ${upper}_OUTSIDE = ${OUTSIDE},    /* out of range, numbers of the nearest context inside */
    ${upper}_REFUSED = ${REFUSED}     /* no numbers */
};

/* The numbers at a context: ${numbers}.
 * Returns the status. A refused context gives zeros: look at the status. */
int ${name}_look_up(const double context[${upper}_N_AXES],
                    double numbers[${upper}_N_NUMBERS]);
${act}
#ifdef __cplusplus
}
#endif

#endif
