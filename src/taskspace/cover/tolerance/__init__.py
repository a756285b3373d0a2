"""Covers over many tolerances: profiles, budgets, curves."""
