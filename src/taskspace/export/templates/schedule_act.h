
#define ${upper}_N_OBSERVATIONS ${n_seen}
#define ${upper}_N_ACTIONS ${n_actions}

/* Look up and act, u = -K x. A refused context gives zeros: look at the status. */
int ${name}_control(const double context[${upper}_N_AXES],
                    const double observation[${upper}_N_OBSERVATIONS],
                    double action[${upper}_N_ACTIONS]);
