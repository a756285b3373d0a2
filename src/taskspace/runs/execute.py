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
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study
from taskspace.performance.work import Task, TrainedBlock, Work
from taskspace.progress import Progress, silent
from taskspace.runs.engines import Engine, engine
from taskspace.runs.experiment import Experiment, load_experiment
from taskspace.runs.objects import Code
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results, Scores, answer, cover_settings
from taskspace.runs.store import RunStore
from taskspace.runs.takeover import Before, check_ours, locked
from taskspace.trainers.base import check_stored

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
    check_stored(experiment.built_trainer)
    check_ours(out)
    with locked(out):
        run = RunStore.create(out, experiment)
        experiment, store = run.experiment, run.trainings
        system, mended = experiment.built_system, run.damage
        if workers is None:
            workers = 0 if system.fills_processors else os.cpu_count() or 1
        tried = bool(store.failures)  # they are tried again
        store.failures.clear()
        ledger = run.ledger()
        before = Before(ledger, run.earlier())
        n_kept = before.policies()
        if ledger.ask():
            store.write_reference(np.empty(0), "")
            with engine(workers, scheduler, say) as crew:
                _work_off(ledger, experiment, crew, report, before)
        if store.reference is None or tried:
            store.write_reference(*ledger.best_known())
        known = None
        try:
            known = run.results()
        except DamagedFileError as error:
            mended = (*mended, str(error).rstrip("."))
        if known is not None and (mended or store.failures or known.failures):
            known = None
        reused = known is not None and _answers(known, experiment)
        if known is not None and reused:
            results = known
        else:
            results = answer(
                run.table(),
                experiment,
                report,
                solved_return=system.solved_return,
                known=known,
            )
            results = replace(
                results,
                failures=_failures(ledger),
                scores=_beside_ignorance(results.scores, ledger),
            )
            results = run.save_results(results)
        if not store.failures:
            run.finish()
    seconds = time.perf_counter() - began
    return RunResult(run.path, seconds, results, reused, mended, n_kept, before.n_cells)


def do_work(text: str, code: Code, keep: tuple[str, ...], work: Work) -> Any:
    """Do a piece of work; callable in any process, with no file in common.

    Args:
        text: the experiment as TOML.
        code: what it may import, and from where.
        keep: variables of the table.
        work: what to do.

    Returns:
        Its result; where a training failed, one part per source.
    """
    task = replace(task_of(text, code), keep=keep)
    try:
        return task.do(work)
    except NOT_OF_A_TRAINING:
        raise
    except Exception as error:
        if work.stage == "train":
            return _one_by_one(task, work, error)
        raise


@lru_cache(maxsize=4)
def task_of(text: str, code: Code) -> Task:
    """Return the task of an experiment, built once per process.

    Args:
        text: the experiment as TOML.
        code: what it may import, and from where.
    """
    experiment = Experiment.from_toml(text, code=code)
    task = experiment.task()
    if code.key and experiment.code_key != code.key:
        raise RunStoreError(
            f"A worker has another version of {experiment.own_code} than the process "
            "that planned the work. Everything finished is kept. Bring the same files "
            "to all workers, start the workers again, and run the same command."
        )
    return task


def _one_by_one(task: Task, work: Work, error: Exception) -> list[TrainedBlock | str]:
    """Train a failed block source by source, and keep those that do not fail."""
    if len(work.contexts) == 1:
        return [f"{type(error).__name__}: {error}"]
    parts: list[TrainedBlock | str] = []
    for place in range(len(work.contexts)):
        one = replace(work, contexts=work.contexts[place : place + 1])
        try:
            done = task.do(one)
            assert isinstance(done, TrainedBlock)
            parts.append(done)
        except NOT_OF_A_TRAINING:
            raise
        except Exception as reason:
            parts.append(f"{type(reason).__name__}: {reason}")
    return parts


def _work_off(
    ledger: Ledger,
    experiment: Experiment,
    crew: Engine,
    report: Progress,
    before: Before,
) -> None:
    """Hand out whatever can be done until nothing is left.

    Training and evaluation overlap; what is done is written at once, by this process
    alone, so workers need no file in common with it.
    """
    text, code, keep = experiment.to_toml(), experiment.pinned_code, ledger.task.keep
    running: dict[Future[Any], Work] = {}
    # Evaluations first: the table grows with the policies, and can be read.
    queue = ledger.ask()

    def tell_all() -> None:
        in_hand = list(running.values())[: crew.n_workers]
        for stage in ("train", "evaluate"):
            report(stage, *ledger.done(stage), _in_words(in_hand, stage))

    try:
        while queue or running:
            while queue and len(running) < crew.at_once:
                work = queue.pop(0)
                report(work.stage, *ledger.done(work.stage), _in_words([work]))
                whole = before.cells(ledger.give(work))
                running[crew.executor.submit(do_work, text, code, keep, whole)] = work
            tell_all()
            done, _ = wait(running, timeout=CHECKED, return_when=FIRST_COMPLETED)
            # What is finished first: an error must not take it along.
            for future in sorted(done, key=_failed):
                work = running.pop(future)
                ledger.tell(work, future.result())
                if work.stage == "train":
                    more = ledger.ask(work.numbers)
                    queue = [w for w in more if w.stage == "evaluate"] + queue
            if not done:
                crew.check()
        tell_all()
    finally:
        for future in running:
            future.cancel()


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _in_words(pieces: Sequence[Work], stage: str | None = None) -> str:
    """Return what the workers do, the sources of each."""
    return ", ".join(
        f"sources {work.numbers[0]:,}–{work.numbers[-1]:,}"
        if len(work.numbers) > 1
        else f"source {work.numbers[0]:,}"
        for work in pieces
        if stage in (None, work.stage)
    )


def _failures(ledger: Ledger) -> tuple[dict[str, Any], ...]:
    """Trainings that failed: number of the source, context, seed and reason."""
    store = ledger.store
    return tuple(
        {
            "source": number,
            "context": ledger.sources.context(number),
            "seed": source.seed,
            "reason": store.failures[source],
        }
        for number, source in enumerate(store.sources)
        if source in store.failures
    )


def _beside_ignorance(scores: Scores, ledger: Ledger) -> Scores:
    """Put scores of learned policies beside those of policies that know nothing."""
    system, targets = ledger.task.system, ledger.task.targets
    if not system.n_episodes:
        return scores
    from taskspace.systems.baselines import zero_performance

    if (tried := zero_performance(system, targets)) is None:
        return scores
    rows, ignorant = tried
    best = ledger.store.top()[rows]
    return replace(
        scores,
        ignorant=(float(ignorant.min()), float(ignorant.max())),
        n_no_better=int((best <= ignorant).sum()),
        n_tried=len(ignorant),
    )


def _answers(known: Results, experiment: Experiment) -> bool:
    """Whether stored results answer all that an experiment asks, as it asks it."""
    if known.settings != cover_settings(experiment):
        return False
    grid = hasattr(experiment.sources, "shape")
    methods = [m for m in experiment.cover.methods if grid or not METHODS[m].needs_grid]
    asked = [(q, m) for q in experiment.questions for m in methods]
    return [(a.question, a.cover.method) for a in known.covers] == asked


def run(
    experiment: Experiment | str | Path,
    out: str | Path,
    *,
    overrides: Sequence[str] = (),
    workers: int | None = None,
    scheduler: str | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Run an experiment into a directory: train, evaluate everywhere, cover.

    What is there already is kept, so the same call resumes a run.

    Args:
        experiment: a built-in name, the path of a TOML file, or the experiment itself.
        out: the run directory.
        overrides: `a.b=value` each, of a name or a file; see `load_experiment`.
        workers: processes; 0 works in this one.
        scheduler: address of a Dask scheduler, or `"local"` to start one here.
        trust: import what an experiment in a run directory names.
        progress: told about progress.

    Returns:
        The study of the run; its covers are in `study.results`.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(str(experiment), overrides, trust=trust)
    run_experiment(
        experiment, out, workers=workers, scheduler=scheduler, report=progress
    )
    return open_study(out, trust=True)
