
/* The first box that holds the context; -1 where there is none. */
static int_fast32_t locate(const real context[${d}])
{
    int_fast32_t box;
    int axis;

    for (box = 0; box < ${n}; box++) {
        const real *low = BOX_LOW + box * ${d}, *high = BOX_HIGH + box * ${d};
        for (axis = 0; axis < ${d}; axis++) {
            if (!(context[axis] > low[axis] && context[axis] <= high[axis])) {
                break;
            }
        }
        if (axis == ${d}) {
            return box;
        }
    }
    return -1;
}
