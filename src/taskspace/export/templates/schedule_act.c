
int ${name}_control(const double context[${upper}_N_AXES],
                    const double observation[${upper}_N_OBSERVATIONS],
                    double action[${upper}_N_ACTIONS])
{
    double gain[${upper}_N_NUMBERS];
    int i, j, status = ${name}_look_up(context, gain);

    for (i = 0; i < ${upper}_N_ACTIONS; i++) {
        const double *row = gain + i * ${upper}_N_OBSERVATIONS;
        double sum = -row[0] * observation[0];
        for (j = 1; j < ${upper}_N_OBSERVATIONS; j++) {
            sum = sum + -row[j] * observation[j];
        }
        action[i] = status == ${upper}_REFUSED ? 0.0 : sum;
    }
    return status;
}
