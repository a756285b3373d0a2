
        ${name}_control(CONTEXT + i * ${upper}_N_AXES,
                       OBSERVATION + i * ${n_seen}, action);
        for (j = 0; j < ${n_actions}; j++) {
            real difference = action[j] - ACTION[i * ${n_actions} + j];
            if (!(difference <= ${tolerance}
                  && -difference <= ${tolerance})) {
                failures++;
            }
        }