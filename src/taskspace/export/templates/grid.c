
/* Number of borders below x: those that x is above of. */
static int_fast32_t place(int axis, real x)
{
    int_fast32_t first = 0, last = (int_fast32_t)AXIS_SIZE[axis] - 1;

    while (first < last) {
        int_fast32_t middle = (first + last) / 2;
        if (BORDER[AXIS_FIRST[axis] + middle] < x) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

static int_fast32_t locate(const real context[${d}])
{
    int axis;
    int_fast32_t region = 0;

    for (axis = 0; axis < ${d}; axis++) {
        region = region * AXIS_SIZE[axis] + place(axis, context[axis]);
    }
    return region;
}

/* Only the nodes themselves are known. */
static int knows(const real context[${d}], int_fast32_t region)
{
    int axis;

    for (axis = ${d} - 1; axis >= 0; axis--) {
        if (context[axis] != NODE[AXIS_FIRST[axis] + region % AXIS_SIZE[axis]]) {
            return 0;
        }
        region /= AXIS_SIZE[axis];
    }
    return 1;
}
