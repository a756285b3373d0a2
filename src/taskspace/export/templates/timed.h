
/* The same, with the time since the last call: no switch comes sooner after another
 * than the dwell time that stability was proven for (${dwell_time}). */
${name}_selection ${name}_select_timed(${name}_hold *hold,
                                     const ${name}_real context[${upper}_N_AXES],
                                     ${name}_real elapsed);
