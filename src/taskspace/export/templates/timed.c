
${name}_selection ${name}_select_timed(${name}_hold *hold,
                                     const real context[${upper}_N_AXES],
                                     real elapsed)
{
    if (elapsed > 0) {
        hold->age += elapsed;
    }
    return hold_on(hold, context, hold->age < DWELL_TIME[0]);
}
