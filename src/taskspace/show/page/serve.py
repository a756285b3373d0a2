"""Serve."""


def run_server(*args, **kwargs):
    """Serve."""
    raise NotImplementedError
