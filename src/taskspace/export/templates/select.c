
${name}_selection ${name}_select(const real context[${upper}_N_AXES])
{
    ${name}_selection found = {-1, ${upper}_REFUSED};
    int axis, inside = 1;
    int_fast32_t region;

    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        if (!isfinite(context[axis])) {
            return found;
        }
        if (context[axis] < RANGE_LOW[axis] || context[axis] > RANGE_HIGH[axis]) {
            inside = 0;
        }
    }
    ${refused}
    region = locate(context);
    if (region < 0 || REGION_POLICY[region] < 0) {
        return found;
    }
    found.policy = (int)REGION_POLICY[region];
    found.status = inside ? ${upper}_INSIDE : ${upper}_OUTSIDE;
    if (inside && knows(context, region)) {
        found.status = (int)REGION_STATUS[region];
    }
    return found;
}
