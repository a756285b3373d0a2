"""Studies whose table is computed as it is read, and never held.

A table of 10⁶ × 10⁶ numbers takes 8 TB; its tolerance sets, as runs, a few GB. Where
a system evaluates faster than a disk reads, only the policies are kept, and the rows
of the table are evaluated when they are asked for.
"""

from collections.abc import Sequence

import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.performance.assembling import table_notes
from taskspace.performance.store.chunks import computed_rows
from taskspace.performance.study import Study
from taskspace.performance.table import REDUCTIONS, make_table, reduced_name
from taskspace.performance.work import Task, TrainedBlock
from taskspace.progress import Progress
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.trainers.base import Trainer

__all__ = ["computed_study"]


def computed_study(
    system: System,
    trainer: Trainer,
    sources: Space,
    targets: Space,
    *,
    seed: int,
    judges: Sequence[str],
    measures: Sequence[str] = (),
    progress: Progress | None = None,
) -> Study:
    """Train at every source, and evaluate rows of the table when they are read.

    Args:
        system: the tasks; it must know its optimum, because the best of the table
            would need the table.
        trainer: makes the policies of each source.
        sources: where policies are trained.
        targets: where they are tried.
        seed: seed of the trainer.
        judges: which reductions over a family the table has.
        measures: scores beside J that a criterion reads.
        progress: told how many sources are trained.
    """
    contexts, at = system.contexts(sources), system.contexts(targets)
    optimum = system.optimum(at)
    if optimum is None or np.isnan(optimum).any():
        raise InvalidInputError(
            "A table that is computed as it is read needs a system that knows its "
            f"optimum at every target, but {system.id} does not. Leave computed out."
        )
    names = [name for judge in judges for name in REDUCTIONS[judge]]
    names += [reduced_name(m, judge) for m in measures for judge in judges]
    task = Task(system, trainer, at, seed, tuple(names))
    step, parts = trainer.sources_per_block, []
    for first in range(0, len(contexts), step):
        parts.append(task.train(contexts[first : first + step]))
        if progress is not None:
            progress("train", min(first + step, len(contexts)), len(contexts))
    block = TrainedBlock.concatenate(parts)
    table = make_table(
        {
            **computed_rows(task, block, names),
            "home_performance": block.home,
            "environment_steps": block.trained.environment_steps,
            "best_known": optimum,
        },
        sources,
        targets,
        table_notes(task, system.optimum_kind),
    )
    policies = block.trained.policies
    return Study.of(
        table,
        system=system,
        policies=policies,
        targets=targets,
        origin="evaluate",
        is_computed=True,
    )
