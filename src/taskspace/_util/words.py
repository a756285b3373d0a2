"""Numbers as people read them."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def data_size(n_bytes: float) -> str:
    """Bytes in the unit that suits them.

    Args:
        n_bytes: a number of bytes, `>= 0`.
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"


def round_to_side(value: float, *, up: bool, digits: int = 3) -> str:
    """Return a bound with few digits that still holds.

    Args:
        value: a number; one that is not finite stays as it is.
        up: whether the true number may be below what is said (an upper bound), or
            above it.
        digits: how many are kept.

    Examples:
        >>> round_to_side(0.31165, up=False), round_to_side(0.31165, up=True)
        ('0.311', '0.312')
    """
    side = ROUND_CEILING if up else ROUND_FLOOR
    exact = Context(prec=digits, rounding=side).create_decimal_from_float(value)
    return f"{float(exact):.{digits}g}"
