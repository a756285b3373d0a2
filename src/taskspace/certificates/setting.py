"""What there is to certify with: a table, and perhaps a system and constants."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates.constants import RateCheck, refute_rates
from taskspace.certificates.enclosures import (
    Boxes,
    Enclosure,
    find_enclosure,
)
from taskspace.certificates.enclosures.lipschitz import check_rates
from taskspace.certificates.enclosures.search import serves_cells
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.performance.table import provenance_of, source_space, target_space
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.spaces import Grid, Points
from taskspace.systems.base import Provenance, System

__all__ = ["Setting", "compile_bounds", "make_setting", "refute_given", "target_rates"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What there is to certify with.

    Args:
        table: a performance table.
        question: what is asked.
        provenance: where the table's numbers come from.
        system: the tasks, if they are known.
        policies: the stack that the table was made with, if there is one.
        sources: contexts of the sources, if they have some.
        targets: contexts of the targets, if they have some.
        rates: Lipschitz constants that the user knows, if any.
        enclosure: bounds over boxes, if there are some.
        clock: of the whole command.
        seed: of the cover engine and of samples.
    """

    table: xr.Dataset
    question: Question
    provenance: Provenance
    system: System | None
    policies: Policy | None
    sources: Grid | Points | None
    targets: Grid | Points | None
    rates: NDArray[np.float64] | None
    enclosure: Enclosure | None
    clock: Clock
    seed: int


def make_setting(
    table: xr.Dataset,
    question: Question,
    system: System | None,
    policies: Policy | None,
    sources: Grid | Points | None,
    targets: Grid | Points | None,
    rates: ArrayLike | None,
    enclosure: Enclosure | None,
    seed: int,
) -> Setting:
    """A setting, with what the table and the system can add to it.

    Args:
        table: a performance table.
        question: what is asked.
        system: the tasks.
        policies: the stack that the table was made with.
        sources: contexts of its sources; from the table if left out.
        targets: contexts of its targets; from the table if left out.
        rates: Lipschitz constants that the user knows.
        enclosure: bounds over boxes of the user's own.
        seed: of the cover engine.
    """
    of_table = _spaces(table)
    sources = sources or of_table[0]
    targets = targets or of_table[1]
    constants = None
    if rates is not None:
        names = _names(system, targets)
        constants = check_rates(rates, names) if names else None
    if enclosure is not None and (enclosure.criterion, enclosure.judge) != (
        question.criterion,
        question.judge,
    ):
        raise InvalidInputError(
            f"The enclosure must be for {question.criterion!r} and the "
            f"{question.judge} policy, but is for {enclosure.criterion!r} and the "
            f"{enclosure.judge} policy."
        )
    if enclosure is not None and enclosure.n_sources != table.sizes["source"]:
        raise InvalidInputError(
            f"The enclosure must be for the {table.sizes['source']} sources of the "
            f"table, in their order, but has {enclosure.n_sources}."
        )
    if enclosure is None and system is not None and sources is not None:
        contexts = system.contexts(sources)
        enclosure, _ = find_enclosure(
            system, policies, contexts, question.criterion, question.judge
        )
    return Setting(
        table,
        question,
        provenance_of(table),
        system,
        policies,
        sources,
        targets,
        constants,
        enclosure,
        Clock(),
        seed,
    )


def _names(
    system: System | None, targets: Grid | Points | None
) -> tuple[str, ...] | None:
    """Axes that given constants are for: the system's, else the targets'."""
    if system is not None:
        return tuple(axis.name for axis in system.axes)
    return None if targets is None else tuple(targets.names)


def _spaces(
    table: xr.Dataset,
) -> tuple[Grid | Points | None, Grid | Points | None]:
    """Contexts of sources, where they are on the targets' axes, and of targets."""
    sources, targets = source_space(table), target_space(table)
    if sources and targets and sources.names == targets.names:
        return sources, targets
    return None, targets


def target_rates(setting: Setting) -> NDArray[np.float64]:
    """Given constants, of the axes of the targets alone.

    Args:
        setting: with `rates` and `targets`.
    """
    assert setting.rates is not None
    assert setting.targets is not None
    if setting.rates.ndim == 0 or setting.system is None:
        return setting.rates
    names = [axis.name for axis in setting.system.axes]
    return setting.rates[[names.index(name) for name in setting.targets.names]]


def refute_given(setting: Setting) -> RateCheck:
    """Refuse constants that the table contradicts.

    Args:
        setting: with `rates` and `targets`.
    """
    assert setting.targets is not None
    return refute_rates(
        setting.table,
        setting.question,
        setting.targets,
        target_rates(setting),
        clock=Clock(0.2 * setting.clock.left),
    )


def compile_bounds(setting: Setting) -> None:
    """Have the kernels of an enclosure compiled, on one source and one context.

    Args:
        setting: whose enclosure, if it has one.
    """
    enclosure, system, sources = setting.enclosure, setting.system, setting.sources
    if enclosure is None or system is None or sources is None:
        return
    first = system.contexts(sources)[:1]
    enclosure.bounds(Boxes.points(first), [0])
    edges = [np.array([x]) for x in first[0]]
    list(serves_cells(enclosure.subset([0]), edges, setting.question.epsilon))
