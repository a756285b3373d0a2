"""Costs and best gains of many linear loops at once."""
