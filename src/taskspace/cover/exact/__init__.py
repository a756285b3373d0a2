"""Exact search: reductions, branch and bound, solvers."""
