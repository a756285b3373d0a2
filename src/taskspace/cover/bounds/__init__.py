"""Lower bounds on covers, each with the prices that prove it."""
