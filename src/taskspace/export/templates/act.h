
#define ${upper}_N_OBSERVATIONS ${n_seen}
#define ${upper}_N_ACTIONS ${n_actions}

/* The action of a policy by its number; zeros for a number that there is not. */
void ${name}_act(int policy, const ${name}_real observation[${upper}_N_OBSERVATIONS],
                ${name}_real action[${upper}_N_ACTIONS]);

/* Select and act. A refused context gives zeros: look at the status. */
${name}_selection ${name}_control(const ${name}_real context[${upper}_N_AXES],
                                const ${name}_real observation[${upper}_N_OBSERVATIONS],
                                ${name}_real action[${upper}_N_ACTIONS]);
