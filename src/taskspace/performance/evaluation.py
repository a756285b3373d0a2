"""Evaluation in memory: J of every policy at every target."""

from collections.abc import Sequence

from taskspace.performance.computed import computed_study
from taskspace.performance.ledger import Ledger, Task, kept_variables
from taskspace.performance.study import Study
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
    measures: Sequence[str] = (),
    computed: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Train at every source, evaluate at every target, and keep all of it.

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
        computed: keep the policies alone: rows of the table are evaluated when they
            are read. For systems that know their optimum and evaluate faster than a
            table of this size is read.
        progress: told how many blocks are trained and evaluated.

    Returns:
        The study: its table, the system, and the policies that were trained.
    """
    if computed:
        return computed_study(
            system,
            trainer,
            space,
            space if targets is None else targets,
            seed=seed,
            judges=judges,
            measures=measures,
            progress=progress,
        )
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
    return ledger.study()


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
