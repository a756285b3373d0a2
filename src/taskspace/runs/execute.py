"""Running an experiment: train, evaluate, cover; in one process or in many."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from taskspace.cover import METHODS
from taskspace.errors import (
    NOT_OF_A_TRAINING,
    DamagedFileError,
    InvalidInputError,
    RunStoreError,
)
from taskspace.performance.ledger import Ledger, Rows, Task, TrainedBlock, Work
from taskspace.progress import Progress, silent
from taskspace.runs.answers import answer, cover_settings
from taskspace.runs.engines import Engine, engine
from taskspace.runs.experiment import Experiment
from taskspace.runs.grow import Cells, Partly, evaluate_parts, forget_kept
from taskspace.runs.kept import Kept
from taskspace.runs.lock import locked
from taskspace.runs.manifest import check_ours
from taskspace.runs.objects import Code
from taskspace.runs.results import Results, Scores
from taskspace.runs.store import RunStore

__all__ = ["RunResult", "run_experiment", "task_of"]

CHECKED = 5.0
"""Seconds without a result after which workers are looked for."""


@dataclass(frozen=True)
class RunResult:
    """What a run found.

    Args:
        path: the run directory.
        seconds: wall-clock time of this call.
        results: what is in `results.json`.
        reused: nothing had to be computed.
        mended: what was damaged and computed again, a clause each.
        n_kept: trainings taken over from the smaller space that the run had before.
        n_cells_kept: evaluations taken over likewise.
    """

    path: Path
    seconds: float
    results: Results
    reused: bool
    mended: tuple[str, ...] = ()
    n_kept: int = 0
    n_cells_kept: int = 0


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    report: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> RunResult:
    """Run an experiment into a directory, or finish or mend one that is there.

    Args:
        experiment: what to run.
        out: the run directory.
        workers: processes; 0 works in this one. By default as many as there are
            processors for simulated systems, 0 for exact ones (whose kernels use
            all processors by themselves).
        scheduler: address of a Dask scheduler, or `"local"` to start one here.
        report: told about progress, and what each worker does.
        say: told, once, what a person may want to know: where a dashboard is.

    Returns:
        The results, which are also in `results.json`.
    """
    if workers is not None and workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    began = time.perf_counter()
    report = report or silent
    out = Path(out)
    check_ours(out)
    with locked(out):
        store = RunStore.create(out, experiment)
        system = store.experiment.built_system
        if workers is None:
            workers = 0 if system.fills_processors else os.cpu_count() or 1
        store.trainings.forget_failures()
        mended = store.forget_damaged()
        ledger = store.ledger()
        kept = Kept.load(store.path)
        mended += [kept.damage] if kept.damage else []
        cells = Cells.load(store.path, ledger.task)
        n_kept, n_cells = _fill(ledger, kept), 0
        if ledger.ask():
            with engine(workers, scheduler, say) as crew:
                n_cells = _work_off(ledger, store.experiment, crew, report, kept, cells)
        if not store.has_best_known():
            store.write_best_known(*ledger.best_known())
        stored = store.path / "results.json"
        known = _known(stored)
        if known is not None and not mended and _answers(known, store.experiment):
            seconds = time.perf_counter() - began
            return RunResult(store.path, seconds, known, True)
        failures = tuple(store.trainings.failures())
        if not failures:
            forget_kept(store.path)
        results = answer(
            store.table(),
            store.experiment,
            report,
            solved_return=system.solved_return,
            known=None if mended or failures else known,
        )
        results = replace(
            results,
            failures=failures,
            scores=_beside_ignorance(results.scores, ledger),
        )
        results.save(stored)
    seconds = time.perf_counter() - began
    return RunResult(
        store.path, seconds, results, False, tuple(mended), n_kept, n_cells
    )


def do_work(
    text: str, code: Code, keep: tuple[str, ...], parts: Any, work: Work
) -> Any:
    """Do a piece of work; callable in any process, with no file in common.

    Args:
        text: the experiment as TOML.
        code: what it may import, and from where.
        keep: variables of the table.
        parts: of an evaluation what is left to do, None for all of it.
        work: what to do.

    Returns:
        Its result, or the exception that ended a training.
    """
    task = replace(task_of(text, code), keep=keep)
    try:
        if parts is not None:
            return evaluate_parts(task, work, parts)
        return task.do(work)
    except NOT_OF_A_TRAINING:
        raise
    except Exception as error:
        if work.stage == "train":
            return _one_by_one(task, work, error)
        raise


@lru_cache(maxsize=4)
def task_of(text: str, code: Code) -> Task:
    """The task of an experiment, built once a process.

    Args:
        text: the experiment as TOML.
        code: what it may import, and from where.
    """
    experiment = Experiment.from_toml(text, code=code)
    system = experiment.built_system
    targets = system.contexts(experiment.target_space)
    return Task(system, experiment.built_trainer, targets, experiment.seed, ())


def _one_by_one(task: Task, work: Work, error: Exception) -> Any:
    """A block whose training failed, source by source: those that do not fail."""
    reasons: dict[int, str] = {}
    parts: list[TrainedBlock | None] = []
    for place in range(len(work.contexts)):
        one = replace(work, contexts=work.contexts[place : place + 1])
        try:
            done = task.do(one) if len(work.contexts) > 1 else _fail(error)
            assert isinstance(done, TrainedBlock)
            parts.append(done)
        except NOT_OF_A_TRAINING:
            raise
        except Exception as reason:
            parts.append(None)
            reasons[place] = f"{type(reason).__name__}: {reason}"
    return Failed(parts, reasons)


def _fail(error: Exception) -> TrainedBlock:
    raise error


@dataclass(frozen=True)
class Failed:
    """A block of which some trainings ended with an exception.

    Args:
        parts: what the others gave, None where one failed.
        reasons: why, by place in the block.
    """

    parts: list[TrainedBlock | None]
    reasons: dict[int, str]


def _fill(ledger: Ledger, kept: Kept) -> int:
    """Take over what was kept; how many trainings that saves."""
    n_sources = 0
    for work in ledger.ask():
        if work.stage == "train" and kept.block is not None:
            here = kept.has(work.contexts)
            n_sources += int(here.sum())
            if here.all():
                ledger.tell(work, kept.of(work.contexts))
    return n_sources * ledger.task.trainer.n_policies


def _work_off(
    ledger: Ledger,
    experiment: Experiment,
    crew: Engine,
    report: Progress,
    kept: Kept,
    cells: Cells | None,
) -> int:
    """Hand out whatever can be done until nothing is left.

    Training and evaluation overlap; what is done is written at once, by this process
    alone, so workers need no file in common with it.

    Returns:
        How many evaluations were known before.
    """
    text, code, keep = experiment.to_toml(), experiment.code, ledger.task.keep
    n_policies = ledger.task.trainer.n_policies
    running: dict[Future[Any], tuple[Work, Partly | None]] = {}
    n_cells = 0
    begun: set[tuple[str, int]] = set()

    def waiting() -> list[Work]:
        # Evaluations first: the table grows with the policies, and can be read.
        asked = sorted(ledger.ask(), key=lambda work: work.stage == "train")
        return [work for work in asked if (work.stage, work.block) not in begun]

    def tell_all() -> None:
        in_hand = [work for work, _ in running.values()][: crew.n_workers]
        for stage in ("train", "evaluate"):
            report(stage, *ledger.done(stage), _in_words(in_hand, stage))

    try:
        while (queue := waiting()) or running:
            for work in queue[: max(0, crew.at_once - len(running))]:
                begun.add((work.stage, work.block))
                report(work.stage, *ledger.done(work.stage), _in_words([work]))
                given = kept.rest(ledger.give(work))
                known = None if cells is None else cells.of(work)
                parts = None if known is None else known.parts
                future = crew.executor.submit(do_work, text, code, keep, parts, given)
                running[future] = work, known
            tell_all()
            done, _ = wait(running, timeout=CHECKED, return_when=FIRST_COMPLETED)
            # What is finished first: an error must not take it along.
            for future in sorted(done, key=_failed):
                (work, known), done_now = running.pop(future), future.result()
                if known is not None:
                    n_cells += known.n_cells * n_policies
                    shape = len(work.contexts), len(ledger.task.targets)
                    done_now = known.join(*shape, done_now)
                _tell(ledger, work, done_now, kept)
            if not done:
                crew.check()
        tell_all()
    except BaseException as error:
        if why := crew.why(error):
            raise RunStoreError(why) from error
        raise
    finally:
        for future in running:
            future.cancel()
    return n_cells


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _in_words(pieces: Sequence[Work], stage: str | None = None) -> str:
    """What the workers do, the sources of each."""
    return ", ".join(
        f"sources {work.rows.start:,}–{work.rows.stop - 1:,}"
        if work.rows.stop - work.rows.start > 1
        else f"source {work.rows.start:,}"
        for work in pieces
        if stage in (None, work.stage)
    )


def _tell(
    ledger: Ledger, work: Work, done: "TrainedBlock | Rows | Failed", kept: Kept
) -> None:
    if isinstance(done, TrainedBlock):
        ledger.tell(work, kept.whole(work, done))
    elif isinstance(done, Rows):
        ledger.tell(work, done)
    else:
        storage = ledger.storage
        assert isinstance(storage, RunStore)
        rest = np.flatnonzero(~kept.has(work.contexts))
        reasons = {int(rest[place]): why for place, why in done.reasons.items()}
        storage.trainings.write_failures(work, kept.join(work, done.parts), reasons)


def _beside_ignorance(scores: Scores, ledger: Ledger) -> Scores:
    """The scores beside those of policies that know nothing, for learned ones."""
    system, targets = ledger.task.system, ledger.task.targets
    if not system.n_episodes:
        return scores
    from taskspace.systems.baselines import baseline_performance  # loads JAX

    found = baseline_performance(system, targets)
    if found is None:
        return scores
    ignorant = np.maximum(found.random, found.zero)
    best = ledger.storage.top()[found.rows]
    return replace(
        scores,
        ignorant=(float(ignorant.min()), float(ignorant.max())),
        n_no_better=int((best <= ignorant).sum()),
        n_tried=len(ignorant),
    )


def _known(path: Path) -> Results | None:
    """Stored results that hold for the table as it is now."""
    try:
        known = Results.load(path)
    except DamagedFileError:
        return None
    return None if known.failures else known


def _answers(known: Results, experiment: Experiment) -> bool:
    """Whether stored results answer all that an experiment asks, as it asks it."""
    if known.settings != cover_settings(experiment):
        return False
    grid = hasattr(experiment.sources, "shape")
    methods = [m for m in experiment.cover.methods if grid or not METHODS[m].needs_grid]
    asked = [(q, m) for q in experiment.questions for m in methods]
    return [(a.question, a.cover.method) for a in known.covers] == asked
