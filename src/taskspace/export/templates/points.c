
static int_fast32_t locate(const real context[${d}])
{
    double best = HUGE_VAL, clamped[${d}];
    int_fast32_t point, nearest = 0;
    int axis;

    for (axis = 0; axis < ${d}; axis++) {
        double x = (double)context[axis];
        clamped[axis] = x < POINT_LOW[axis] ? POINT_LOW[axis]
            : x > POINT_HIGH[axis] ? POINT_HIGH[axis] : x;
    }
    for (point = 0; point < ${n}; point++) {
        double distance = 0;
        for (axis = 0; axis < ${d}; axis++) {
            double step = (clamped[axis] - POINT[point * ${d} + axis])
                * POINT_SCALE[axis];
            distance += step * step;
        }
        if (distance < best) {
            best = distance;
            nearest = point;
        }
    }
    return nearest;
}

/* Only the points themselves are known. */
static int knows(const real context[${d}], int_fast32_t region)
{
    int axis;

    for (axis = 0; axis < ${d}; axis++) {
        if (context[axis] != NODE[region * ${d} + axis]) {
            return 0;
        }
    }
    return 1;
}
