
/* Only the node of a box is known. */
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
