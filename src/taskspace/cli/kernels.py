"""The first use of compiled kernels, as a step of its own with a bar.

Numba compiles a kernel when it is first called and keeps it on the disk. In a fresh
installation that takes up to a minute, which is nobody's search and nobody's loading:
commands call the kernels they need with tiny inputs first, where none are kept yet.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from taskspace.cover import METHODS
from taskspace.progress import Progress
from taskspace.systems.base import System

__all__ = [
    "KERNELS",
    "box_kernels",
    "cold",
    "compile_kernels",
    "method_kernels",
    "system_kernels",
]


@dataclass(frozen=True)
class Kernels:
    """Some kernels that are used together.

    Args:
        entry: module and name of one that is called first.
        warm: calls them all with tiny inputs.
    """

    entry: tuple[str, str]
    warm: Callable[[], Any]

    @property
    def is_cold(self) -> bool:
        """Whether they have to be compiled."""
        module, name = self.entry
        return cold(getattr(import_module(module), name))


def cold(kernel: Any) -> bool:
    """Whether a kernel is neither loaded nor kept on the disk.

    Args:
        kernel: a function compiled by Numba.
    """
    if getattr(kernel, "signatures", None):
        return False
    try:
        return not kernel._cache._cache_file._load_index()
    except (AttributeError, OSError):
        return False  # nothing is kept, or kept otherwise: there is nothing to say


def compile_kernels(report: Progress, names: Sequence[str]) -> bool:
    """Compile what is needed and not there; reported as the stage `compile`.

    Args:
        report: told about progress.
        names: some of `KERNELS`.

    Returns:
        Whether there was anything to compile.
    """
    missing = [name for name in names if KERNELS[name].is_cold]
    for done, name in enumerate(missing):
        report("compile", done, len(missing), f"{name}, once after an installation")
        KERNELS[name].warm()
    if missing:
        report("compile", len(missing), len(missing))
    return bool(missing)


def method_kernels(methods: Iterable[str]) -> list[str]:
    """Names of the kernels that cover methods need.

    Args:
        methods: names of cover methods.
    """
    searches = any("time_limit" in METHODS[m].takes for m in methods if m in METHODS)
    return ["greedy", "search"] if searches else ["greedy"]


def system_kernels(system: System) -> list[str]:
    """Names of the kernels that the table of a system needs.

    Args:
        system: the tasks.
    """
    from taskspace.systems.linear import LinearSystem

    if not isinstance(system, LinearSystem):
        return []
    own = type(system).reduce_family is not System.reduce_family
    has_own = own and np.isinf(system.horizon)
    return [] if has_own else ["loops"]


def box_kernels(system: System | None) -> list[str]:
    """Names of the kernels that bounds over boxes of a system need.

    Args:
        system: the tasks; None where there is only a table.
    """
    from taskspace.systems.linear.msd import MassSpringDamper

    return ["boxes"] if isinstance(system, MassSpringDamper) else []


def _problem(n: int) -> np.ndarray:
    """A covering problem that no reduction solves: three in a row, and some more."""
    near = np.abs(np.arange(n)[:, None] - np.arange(n)) % (n - 1) <= 1
    return near | (np.random.default_rng(0).random((n, n)) < 2 / n)


def _warm_greedy() -> None:
    from taskspace.cover import greedy_cover
    from taskspace.sets import pack

    greedy_cover(pack(_problem(12), encoding="bits"))
    greedy_cover(pack(_problem(12), encoding="runs"))


def _warm_search() -> None:
    from taskspace.cover import local_cover, minimum_cover
    from taskspace.sets import pack

    sets = pack(_problem(40))
    local_cover(sets, time_limit=0.1)
    minimum_cover(sets, time_limit=0.5)


def _warm_loops() -> None:
    from taskspace.performance import evaluate
    from taskspace.spaces import Grid
    from taskspace.systems.linear.kernels.twofold import twofold_gramian
    from taskspace.systems.linear.msd import MassSpringDamper
    from taskspace.trainers import Lqr

    space, trainer = Grid(k=(1.0, 2.0, 2), c=(1.0, 2.0, 2)), Lqr(n_policies=2)
    evaluate(MassSpringDamper(horizon=2.0), trainer, space, seed=0)
    one = np.ones((1, 1))
    twofold_gramian(-one, one, one, one, one, one, True)


def _warm_boxes() -> None:
    from taskspace.certificates import certify
    from taskspace.performance import evaluate
    from taskspace.questions import Question
    from taskspace.spaces import Grid
    from taskspace.systems.linear.msd import MassSpringDamper
    from taskspace.trainers import Lqr

    system, space = MassSpringDamper(), Grid(k=(1.0, 1.5, 2), c=(1.0, 1.5, 2))
    trainer = Lqr(n_policies=1, noise=0.0)
    study = evaluate(system, trainer, space, seed=0)
    certify(study, Question(epsilon=0.5), time_limit=2.0)


KERNELS: dict[str, Kernels] = {
    "greedy": Kernels(("taskspace.cover.methods.greedy", "_greedy_bits"), _warm_greedy),
    "search": Kernels(("taskspace.cover.methods.local", "_search"), _warm_search),
    "loops": Kernels(
        ("taskspace.systems.linear.kernels.doubling", "some_policies"), _warm_loops
    ),
    "boxes": Kernels(
        ("taskspace.certificates.boxes.enclosures.msd", "_bound_pairs"), _warm_boxes
    ),
}
"""What commands need: covers by greedy, searches with proofs, costs of linear loops,
bounds over boxes."""
