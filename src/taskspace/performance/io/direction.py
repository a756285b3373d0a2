"""Whether numbers that nobody calls costs or scores look like costs.

Covers of costs that are taken for scores are upside down, and nothing in them shows it.
Names say it best. Signs alone do not: most scores are positive too.
"""

import re
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

__all__ = ["sounds_like_cost", "why_costs"]

COSTS = {
    "cost", "costs", "cputime", "delay", "delays", "err", "error", "errors",
    "latencies", "latency", "loss", "losses", "mae", "makespan", "mse", "par2",
    "par10", "penalties", "penalty", "regret", "regrets", "rmse", "runtime",
    "runtimes", "seconds", "time", "times", "walltime",
}  # fmt: skip
OTHERS = {
    "accuracy", "alive", "flight", "gain", "gains", "life", "lifetime", "profit",
    "return", "returns", "reward", "rewards", "score", "scores", "standard", "step",
    "steps", "success", "survival", "up", "utility",
}  # fmt: skip
"""Words beside which those words mean something else: `survival time`."""


def sounds_like_cost(name: str) -> bool:
    """Whether a name has a word for a cost, and none that changes its meaning.

    Args:
        name: name of a file or a target.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = set(re.findall(r"[a-z]+[0-9]*", spaced.lower()))
    return bool(words & COSTS) and not words & OTHERS


def why_costs(
    origin: str,
    targets: Sequence[str] | None,
    cells: NDArray[np.float64],
    home: NDArray[np.float64] | None,
) -> str:
    """Why numbers are costs rather than scores, empty where nothing says so.

    Args:
        origin: what the matrix is called: its file.
        targets: names of the targets.
        cells: the numbers, dims `(source, policy, target)`; NaN where empty.
        home: the numbers at home, dims `(source, policy)`.
    """
    if (cells < 0).any():
        return ""
    if sounds_like_cost(PurePath(origin).stem):
        return f"its name ({PurePath(origin).name}) says so"
    called = [name for name in targets or () if sounds_like_cost(name)]
    if 2 * len(called) > len(targets or ()):
        return f"names of targets ({called[0]!r}) say so"
    n_sources, _, n_targets = cells.shape
    if home is not None and n_sources == n_targets >= 3:
        own = np.diagonal(cells, axis1=0, axis2=2).T
        others = np.where(np.eye(n_sources, dtype=bool)[:, None], np.inf, cells)
        if np.array_equal(home, own) and (own.max(1) < others.min((0, 1))).all():
            return "every policy has the least number of all at its own source"
    return ""
