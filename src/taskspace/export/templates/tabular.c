    {
        int state = 0;
        if (observation[0] >= ${n_states}) {
            state = ${last};
        } else if (observation[0] > 0) {
            state = (int)observation[0];
        }
        action[0] = (real)BEST_ACTION[policy * ${n_states} + state];
    }
