    push = PID_BACK[p] * (v - *u);
    state->x[0] = moved[0] + push;
