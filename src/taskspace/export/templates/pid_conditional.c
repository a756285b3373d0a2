    push = -PID_C[p * ${n}] * (moved[0] - state->x[0]);
    if (!((v > high && push > 0.0) || (v < low && push < 0.0))) {
        state->x[0] = moved[0];
    }
