"""Rules of thumb for PI and PID gains, as starting points of a search.

Both are for one input and one output. They say nothing where they do not apply: SIMC
(Skogestad 2003) needs a stable plant with a gain at rest, Ziegler and Nichols (1942) a
frequency at which the plant turns the sign.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["simc", "ziegler_nichols"]

Array = NDArray[np.float64]
Gains = tuple[float, float, float]
N_FREQUENCIES = 400


def simc(A: Array, B: Array, C: Array) -> list[Gains]:
    """Return PI gains by SIMC, with the plant's small time constants as its delay.

    Args:
        A: of the plant, in continuous time.
        B: with one column.
        C: with one row.

    Returns:
        (kp, ki, kd), or nothing where the rule does not apply.
    """
    roots = np.linalg.eigvals(A)
    if roots.real.max() >= 0:
        return []
    gain = (C @ np.linalg.solve(-A, B)).item()
    times = np.sort(1 / np.abs(roots))[::-1]
    if gain == 0 or not np.isfinite(gain):
        return []
    # The half rule: half of the second time constant counts as delay.
    delay = times[1] / 2 + times[2:].sum() if len(times) > 1 else times[0] / 10
    largest = times[0] + (times[1] / 2 if len(times) > 1 else 0.0)
    kp = largest / (gain * 2 * delay)
    integral = min(largest, 8 * delay)
    return [(float(kp), float(kp / integral), 0.0)]


def ziegler_nichols(A: Array, B: Array, C: Array) -> list[Gains]:
    """Return PI and PID gains from the plant's ultimate gain and frequency.

    Args:
        A: of the plant, in continuous time.
        B: with one column.
        C: with one row.

    Returns:
        (kp, ki, kd) of the PI and the PID rule, or nothing where the phase does not
        cross −180° at a frequency of the plant's range.
    """
    size = np.abs(np.linalg.eigvals(A))
    size = size[size > 0]
    if not len(size):
        return []
    grid = np.geomspace(size.min() / 100, size.max() * 100, N_FREQUENCIES)
    eye = np.eye(len(A))
    responses = [(C @ np.linalg.solve(1j * w * eye - A, B)).item() for w in grid]
    response = np.array(responses, np.complex128)
    crosses = (response.imag[:-1] * response.imag[1:] <= 0) & (response.real[:-1] < 0)
    places = np.flatnonzero(crosses)
    if not len(places) or response[places[0]] == 0:
        return []
    ultimate = 1 / abs(response[places[0]])
    period = 2 * np.pi / grid[places[0]]
    pi = 0.45 * ultimate, 0.45 * ultimate * 1.2 / period, 0.0
    pid = 0.6 * ultimate, 1.2 * ultimate / period, 0.075 * ultimate * period
    return [tuple(map(float, gains)) for gains in (pi, pid)]  # pyright: ignore
