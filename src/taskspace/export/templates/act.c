${before}
void ${name}_act(int policy, const real observation[${upper}_N_OBSERVATIONS],
                real action[${upper}_N_ACTIONS])
{
    int i;

    for (i = 0; i < ${upper}_N_ACTIONS; i++) {
        action[i] = 0;
    }
    if (policy < 0 || policy >= ${upper}_N_POLICIES) {
        return;
    }
${body}}

${name}_selection ${name}_control(const real context[${upper}_N_AXES],
                                const real observation[${upper}_N_OBSERVATIONS],
                                real action[${upper}_N_ACTIONS])
{
    ${name}_selection found = ${name}_select(context);

    ${name}_act(found.policy, observation, action);
    return found;
}
