"""Evaluation in memory: J of every policy at every target."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.ledger import Ledger, Task, kept_variables
from taskspace.performance.table import (
    DIMS,
    reduced_name,
    row_blocks,
    target_space,
)
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.spaces import Space
from taskspace.systems.base import MEASURES, System
from taskspace.trainers.base import Trainer

__all__ = ["add_scores", "evaluate", "new_ledger"]


def evaluate(
    system: System,
    trainer: Trainer,
    space: Space,
    *,
    seed: int,
    targets: Space | None = None,
    judges: Sequence[str] = ("worst", "best"),
    measures: Sequence[str] = (),
    progress: Progress | None = None,
) -> xr.Dataset:
    """Train at every source, evaluate at every target, and return the table.

    For tables that outlive the process, or do not fit in memory, use a run
    (`taskspace run`), which stores blocks as they are finished.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        space: the sources.
        seed: seed of the trainer.
        targets: where policies are tried; the sources if left out.
        judges: which reductions over a family to keep, where J itself would be too
            large to keep.
        measures: scores beside J that a criterion reads, e.g. `["every_start"]`.
        progress: told how many blocks are trained and evaluated.

    Returns:
        A performance table, see `taskspace.performance.table`.
    """
    ledger = new_ledger(
        system,
        trainer,
        space,
        seed=seed,
        targets=targets,
        judges=judges,
        measures=measures,
    )
    ledger.work_off(progress)
    return ledger.table()


def add_scores(
    table: xr.Dataset,
    measure: str,
    system: System,
    policies: Policy,
    *,
    targets: Space | None = None,
) -> xr.Dataset:
    """A table with one more score, for a criterion that reads another than J.

    Args:
        table: a performance table.
        measure: the score, e.g. `"every_start"`.
        system: the tasks.
        policies: the stack that the table was made with.
        targets: contexts of its targets; from the table if left out.
    """
    if measure not in MEASURES:
        raise UnknownNameError("measure", measure, MEASURES)
    space = target_space(table) if targets is None else targets
    if space is None:
        raise InvalidInputError(
            f"The score {measure!r} is computed at contexts, but the targets of this "
            "table have none. Give targets."
        )
    contexts = system.contexts(space)
    found: dict[str, list[NDArray[np.float64]]] = {}
    for rows in row_blocks(table):
        scores = system.scores(measure, policies[rows], contexts)
        if "performance" in table:
            found.setdefault(measure, []).append(scores)
            continue
        for judge, reduced in (("worst", scores.min(1)), ("best", scores.max(1))):
            found.setdefault(reduced_name(measure, judge), []).append(reduced)
    said = {"provenance": system.provenance}
    return table.assign(
        {name: (DIMS[name], np.concatenate(x), said) for name, x in found.items()}
    )


def new_ledger(
    system: System,
    trainer: Trainer,
    space: Space,
    *,
    seed: int,
    targets: Space | None = None,
    judges: Sequence[str] = ("worst", "best"),
    measures: Sequence[str] = (),
) -> Ledger:
    """An empty ledger in memory, with everything still to be done.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        space: the sources.
        seed: seed of the trainer.
        targets: where policies are tried; the sources if left out.
        judges: which reductions over a family to keep, where J does not fit.
        measures: scores beside J that a criterion reads.
    """
    tried = space if targets is None else targets
    contexts = system.contexts(tried)
    keep = kept_variables(
        system, space.size, trainer.n_policies, len(contexts), judges, measures
    )
    return Ledger(Task(system, trainer, contexts, seed, keep), space, tried)
