"""How the matrices of a family depend on the context, found from its own code."""
