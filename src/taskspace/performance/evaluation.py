"""Evaluation in memory: J of every policy at every target."""

from collections.abc import Sequence

import xarray as xr

from taskspace.performance.ledger import Ledger, Task, kept_variables
from taskspace.progress import Progress
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.trainers.base import Trainer

__all__ = ["evaluate", "new_ledger"]


def evaluate(
    system: System,
    trainer: Trainer,
    space: Space,
    *,
    seed: int,
    targets: Space | None = None,
    judges: Sequence[str] = ("worst", "best"),
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
        progress: told how many blocks are trained and evaluated.

    Returns:
        A performance table, see `taskspace.performance.table`.
    """
    ledger = new_ledger(
        system, trainer, space, seed=seed, targets=targets, judges=judges
    )
    ledger.work_off(progress)
    return ledger.table()


def new_ledger(
    system: System,
    trainer: Trainer,
    space: Space,
    *,
    seed: int,
    targets: Space | None = None,
    judges: Sequence[str] = ("worst", "best"),
) -> Ledger:
    """An empty ledger in memory, with everything still to be done.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        space: the sources.
        seed: seed of the trainer.
        targets: where policies are tried; the sources if left out.
        judges: which reductions over a family to keep, where J does not fit.
    """
    tried = space if targets is None else targets
    contexts = system.contexts(tried)
    keep = kept_variables(system, space.size, trainer.n_policies, len(contexts), judges)
    return Ledger(Task(system, trainer, contexts, seed, keep), space, tried)
