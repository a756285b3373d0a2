
void ${name}_hold_start(${name}_hold *hold)
{
    int axis;

    hold->policy = -1;
    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        hold->anchor[axis] = 0;
    }${start}
}

/* A refused reading gives no policy and leaves what is held as it was. */
static ${name}_selection hold_on(${name}_hold *hold,
                                 const real context[${upper}_N_AXES], int early)
{
    ${name}_selection found = ${name}_select(context);
    int axis, near = hold->policy >= 0;

    if (found.policy < 0) {
        return found;
    }
    if (found.policy != hold->policy) {
        for (axis = 0; axis < ${upper}_N_AXES; axis++) {
            near = near
                && ${fabs}(context[axis] - hold->anchor[axis])
                    <= HOLD_BAND[axis];
        }
        if (near || (hold->policy >= 0 && early)) {
            found.policy = hold->policy;
            if (found.status != ${upper}_OUTSIDE) {
                found.status = ${upper}_INSIDE;
            }
            return found;
        }${switched}
    }
    hold->policy = found.policy;
    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        hold->anchor[axis] = context[axis];
    }
    return found;
}

${name}_selection ${name}_select_held(${name}_hold *hold,
                                    const real context[${upper}_N_AXES])
{
    return hold_on(hold, context, 0);
}
