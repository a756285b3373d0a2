"""Numbers as people read them."""


def time_span(seconds: float) -> str:
    """Seconds in the unit that suits them.

    Args:
        seconds: a time, `>= 0`.
    """
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size * 1.5:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def data_size(n_bytes: float) -> str:
    """Bytes in the unit that suits them.

    Args:
        n_bytes: a number of bytes, `>= 0`.
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"
