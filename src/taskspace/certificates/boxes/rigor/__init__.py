"""Rigorous bounds on the costs of linear closed loops over boxes of contexts."""
