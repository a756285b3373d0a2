"""Sources chosen against what targets then cost: shares, budgets, means."""
