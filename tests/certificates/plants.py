"""Linear families to attack: each is hard in its own way, each plain arithmetic."""

import numpy as np

from taskspace.systems import ContextAxis, LinearFamily


def axes(*names: str) -> list[ContextAxis]:
    return [ContextAxis(name, 1.0, low=0.0, low_open=True) for name in names]


# name -> (family, lowest context, highest context)
PLANTS: dict[str, tuple[LinearFamily, list[float], list[float]]] = {
    "spring": (
        LinearFamily(
            axes("k", "c"),
            A=lambda k, c: [[0, 1], [-k, -c]],
            B=lambda k, c: [[0], [1]],
            Q=np.diag([10.0, 4.0]),
            R=[[1.0]],
        ),
        [0.1, 0.1],
        [8.0, 8.0],
    ),
    "rational, R and Q of the context": (
        LinearFamily(
            axes("v", "m"),
            A=lambda v, m: [[-3 / (m * v), -v + 1 / v], [2, -4 / v]],
            B=lambda v, m: [[1 / m, 0.2], [0.3 * v, 1]],
            Q=lambda v, m: [[1 + v, m / 8], [m / 8, 1 / v]],
            R=lambda v, m: [[1 + m * m, 0.1], [0.1, v]],
            x0_covariance=[[2.0, 0.5], [0.5, 1.0]],
        ),
        [0.5, 0.5],
        [3.0, 2.0],
    ),
    "unstable": (
        LinearFamily(
            axes("k", "c"),
            A=lambda k, c: [[c - 2, 1], [k, -0.3]],
            B=lambda k, c: [[0], [1.0]],
            Q=np.eye(2),
            R=[[1.0]],
        ),
        [0.5, 0.2],
        [9.0, 8.0],
    ),
    "semidefinite Q": (
        LinearFamily(
            axes("k", "c"),
            A=lambda k, c: [[0, 1, 0], [-k, -c, k], [0.2, 0, -c]],
            B=lambda k, c: [[0], [1], [0]],
            Q=np.diag([1.0, 0.0, 0.0]),
            R=[[1.0]],
        ),
        [0.5, 0.3],
        [3.0, 2.0],
    ),
    "discrete": (
        LinearFamily(
            axes("k", "c"),
            A=lambda k, c: [[1, 0.1], [-0.1 * k, 1 - 0.1 * c]],
            B=lambda k, c: [[0], [0.1]],
            Q=np.eye(2),
            R=[[0.1]],
            time="discrete",
        ),
        [0.3, 0.2],
        [5.0, 4.0],
    ),
    "discrete, unstable, rational": (
        LinearFamily(
            axes("k", "c"),
            A=lambda k, c: [[1.1, 0.1 * k], [0.1, 0.9 / c]],
            B=lambda k, c: [[k, 0], [0.1, c]],
            Q=np.eye(2),
            R=lambda k, c: [[c, 0], [0, 1 / k]],
            time="discrete",
        ),
        [0.5, 0.5],
        [3.0, 2.0],
    ),
    "discrete, semidefinite Q": (
        LinearFamily(
            axes("k", "c"),
            A=lambda k, c: [[1, 0.1, 0], [-0.1 * k, 1 - 0.1 * c, 0.1], [0, 0.1, 0.6]],
            B=lambda k, c: [[0], [0.1], [1 / c]],
            Q=np.diag([1.0, 0.0, 0.0]),
            R=[[0.1]],
            time="discrete",
        ),
        [0.5, 0.4],
        [3.0, 2.0],
    ),
}
