#include "${name}.h"

#include <math.h>
#include <stdint.h>

${tables}

/* The breakpoint below x, and how far x is from it to the next one. */
static int_fast32_t place(int axis, double x, double *share)
{
    const double *at = BREAKPOINT + AXIS_FIRST[axis];
    const double *scaled = SCALED + AXIS_FIRST[axis];
    int_fast32_t first = 0, last = (int_fast32_t)AXIS_SIZE[axis] - 1;

    *share = 0.0;
    if (last == 0 || x <= at[0]) {
        return 0;
    }
    if (x > at[last]) {
        x = at[last];
    }
    while (last - first > 1) {
        int_fast32_t middle = (first + last) / 2;
        if (at[middle] <= x) {
            first = middle;
        } else {
            last = middle;
        }
    }
    *share = ((AXIS_LOG[axis] ? log(x) : x) - scaled[first])
        / (scaled[first + 1] - scaled[first]);
    return first;
}

int ${name}_look_up(const double context[${upper}_N_AXES],
                    double numbers[${upper}_N_NUMBERS])
{
    double share[${upper}_N_AXES], corner[${n_corners}];
    int_fast32_t base[${n_corners}];
    int axis, i, k, n = 1, status = ${upper}_${known};

    for (k = 0; k < ${upper}_N_NUMBERS; k++) {
        numbers[k] = 0.0;
    }
    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        if (!isfinite(context[axis])) {
            return ${upper}_REFUSED;
        }
    }
    base[0] = 0;
    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        double x = context[axis];
        int_fast32_t first, next;
        if (x < RANGE_LOW[axis] || x > RANGE_HIGH[axis]) {
            status = ${upper}_OUTSIDE;
            x = x < RANGE_LOW[axis] ? RANGE_LOW[axis] : RANGE_HIGH[axis];
        }
        first = place(axis, x, &share[axis]);
        next = first + 1 < AXIS_SIZE[axis] ? first + 1 : first;
        for (i = n - 1; i >= 0; i--) {
            base[2 * i + 1] = base[i] * AXIS_SIZE[axis] + next;
            base[2 * i] = base[i] * AXIS_SIZE[axis] + first;
        }
        n *= 2;
    }
    ${refused}
    for (k = 0; k < ${upper}_N_NUMBERS; k++) {
        for (i = 0; i < ${n_corners}; i++) {
            corner[i] = TABLE[base[i] * ${upper}_N_NUMBERS + k];
        }
        for (axis = ${upper}_N_AXES - 1, n = ${n_corners} / 2; axis >= 0; axis--, n /= 2) {
            const double t = share[axis];
            for (i = 0; i < n; i++) {
                corner[i] = (1.0 - t) * corner[2 * i] + t * corner[2 * i + 1];
            }
        }
        numbers[k] = corner[0];
    }
    return status;
}
${act}
