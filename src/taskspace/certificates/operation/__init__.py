"""What survives operation: switching between gains, and contexts that drift."""
