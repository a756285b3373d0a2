"""Tolerance sets straight from the physics: losses become runs, no table exists.

A table of 10⁶ × 10⁶ numbers takes 8 TB; its tolerance sets, as runs, a few GB. Sources
are trained and tried a block at a time, and only the runs of a block are kept.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import Task, Work, best_known
from taskspace.performance.table import BLOCK_CELLS, REDUCTIONS, reduced_name
from taskspace.performance.work import TrainedBlock
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import PackedSets, RunSets
from taskspace.spaces import Space
from taskspace.systems import System
from taskspace.trainers import Trainer

__all__ = ["direct_sets"]

BLOCK_BYTES = 2**25
"""Bits of a block of sources, where a system gives bits."""


def direct_sets(
    system: System,
    trainer: Trainer,
    sources: Space,
    question: Question,
    *,
    targets: Space | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> RunSets:
    """The targets that each source serves, never holding more losses than a block.

    The reference of regret and ratio is the system's optimum, which it must know: the
    best of a table would need the table. The sets are those of the table as long as no
    loss lies within rounding of epsilon.

    Args:
        system: the tasks.
        trainer: gives the policies.
        sources: where policies are trained.
        question: what it means to serve.
        targets: where they are tried; the sources if left out.
        seed: of the trainings.
        progress: told how many sources are done.

    Returns:
        The sets as runs of consecutive targets.

    Examples:
        >>> import taskspace as ts
        >>> space = ts.Grid(k=(1.0, 2.0, 5), c=(1.0, 2.0, 5))
        >>> trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
        >>> question = ts.Question("regret", epsilon=0.01)
        >>> direct_sets(ts.systems.MassSpringDamper(), trainer, space, question)
        RunSets(25 sources, 25 targets, 56 runs)
    """
    question.check_exact("A set without a table")
    question.check_single("A set without a table")
    contexts = system.contexts(sources)
    at = system.contexts(sources if targets is None else targets)
    names = REDUCTIONS[question.judge]
    if question.rule.measure != "performance":
        names = (reduced_name(question.rule.measure, question.judge),)
    task = Task(system, trainer, at, seed, names)
    reference = _reference(task, question)

    def parts() -> Iterator[RunSets]:
        done, step = 0, _step(task)
        while done < len(contexts):
            rows = slice(done, min(done + step, len(contexts)))
            trained = task.do(Work("train", 0, rows, contexts[rows]))
            assert isinstance(trained, TrainedBlock)
            yield _served(task, trained, question, reference)
            done = rows.stop
            if progress is not None:
                progress("sets", done, len(contexts))

    def row(source: int) -> NDArray[np.float64]:
        rows = slice(source, source + 1)
        trained = task.do(Work("train", 0, rows, contexts[rows]))
        assert isinstance(trained, TrainedBlock)
        return _losses(task, trained, question, reference)[0]

    return replace(RunSets.concatenate(parts(), len(at)), losses=row)


def _reference(task: Task, question: Question) -> NDArray[np.float64]:
    rule = question.rule
    if rule.reference != "best known":
        return np.zeros(1)
    nothing = np.full(len(task.targets), np.nan)
    reference, _ = best_known(task.system, task.targets, nothing)
    if np.isnan(reference).any():
        raise InvalidInputError(
            f"{question.criterion} without a table needs a system that knows its "
            f"optimum at every target, but {task.system.id} does not. Use the "
            "criterion floor or signed, or evaluate a table."
        )
    rule.check_reference(reference)
    return reference


def _step(task: Task) -> int:
    """Sources a block: as many as one training takes and memory allows."""
    fits = 8 * BLOCK_BYTES // max(1, len(task.targets))
    return max(1, min(fits, task.trainer.sources_per_block))


def _served(
    task: Task, trained: TrainedBlock, question: Question, reference: NDArray
) -> RunSets:
    """The sets of a block: by the system's own short way, or by its losses."""
    n_targets = len(task.targets)
    if question.criterion == "regret" and task.trainer.n_policies == 1:
        policies = trained.trained.policies
        words = task.system.within_regret(
            policies, task.targets, reference, question.epsilon
        )
        if words is not None:
            words[trained.failed] = 0
            return PackedSets(words, n_targets).to_runs()
    step = max(1, BLOCK_CELLS // max(1, n_targets))
    blocks = (
        _losses(task, trained[first : first + step], question, reference)
        for first in range(0, len(trained.home), step)
    )
    return RunSets.from_blocks((b <= question.epsilon for b in blocks), n_targets)


def _losses(
    task: Task, trained: TrainedBlock, question: Question, reference: NDArray
) -> NDArray[np.float64]:
    _, gap = REDUCTIONS[question.judge]
    at_target = reduced_name(question.rule.measure, question.judge)
    rows = task.rows(trained).variables
    if question.rule.reference == "home":
        return rows[gap]
    return question.rule.loss(rows[at_target], reference)
