"""Ways to cover: greedy, local search, minimum with proof, baselines."""
