
void ${name}_hold_start(${name}_hold *hold)
{
    int axis;

    hold->policy = -1;
    hold->age = 0;
    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        hold->anchor[axis] = 0;
    }
}

${name}_selection ${name}_select_held(${name}_hold *hold,
                                    const real context[${upper}_N_AXES])
{
    return ${name}_select_timed(hold, context, DWELL_TIME[0]);
}

${name}_selection ${name}_select_timed(${name}_hold *hold,
                                     const real context[${upper}_N_AXES],
                                     real elapsed)
{
    ${name}_selection found = ${name}_select(context);
    int axis, near = hold->policy >= 0;

    hold->age += elapsed;
    if (found.policy >= 0 && found.policy != hold->policy) {
        for (axis = 0; axis < ${upper}_N_AXES; axis++) {
            near = near
                && ${fabs}(context[axis] - hold->anchor[axis])
                    <= HOLD_BAND[axis];
        }
        if (near || (hold->policy >= 0 && hold->age < DWELL_TIME[0])) {
            found.policy = hold->policy;
            if (found.status == ${upper}_GUARANTEED
                || found.status == ${upper}_ESTIMATED) {
                found.status = ${upper}_INSIDE;
            }
            return found;
        }
    }
    if (found.policy != hold->policy) {
        hold->age = 0;
    }
    hold->policy = found.policy;
    for (axis = 0; axis < ${upper}_N_AXES; axis++) {
        hold->anchor[axis] = context[axis];
    }
    return found;
}
