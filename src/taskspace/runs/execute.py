"""Running an experiment: train, evaluate, cover; in one process or in many."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from taskspace.cover import METHODS
from taskspace.errors import DamagedFileError, InvalidInputError, RunStoreError
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study
from taskspace.performance.work import Block, Task, Work
from taskspace.progress import Progress, silent
from taskspace.runs.engines import Engine, engine
from taskspace.runs.experiment import Experiment, load_experiment
from taskspace.runs.folder import RunFolder, check_ours, locked
from taskspace.runs.objects import Code
from taskspace.runs.opening import open_study
from taskspace.runs.results import (
    Results,
    Scores,
    answer,
    cover_settings,
    find_schedules,
)
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
    _check_schedules(experiment)
    check_ours(out)
    with locked(out):
        run = RunFolder.create(out, experiment)
        experiment, mended = run.experiment, run.mended
        system = experiment.built_system
        if workers is None:
            workers = 0 if system.fills_processors else os.cpu_count() or 1
        ledger = run.ledger()
        if ledger.missing():
            run.write_reference(None)
            with engine(workers, scheduler, say) as crew:
                _work_off(ledger, experiment, crew, report)
        if run.info.reference is None:
            run.write_reference(ledger.best_known())
        known = None
        try:
            known = run.results()
        except DamagedFileError as error:
            mended = (*mended, str(error).rstrip("."))
        if known is not None and (mended or ledger.failures or known.failures):
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
                schedules=find_schedules(run.study(), experiment, report, known),
                scores=_beside_ignorance(results.scores, ledger),
            )
        results = run.finish(results, ledger.files())
    seconds = time.perf_counter() - began
    kept = ledger.earlier
    n_kept, n_cells = (kept.n_policies, kept.n_cells) if kept else (0, 0)
    return RunResult(run.path, seconds, results, reused, mended, n_kept, n_cells)


def _check_schedules(experiment: Experiment) -> None:
    """Refuse `[schedule]` where no schedule can be, before anything is trained."""
    if experiment.schedule is None or not experiment.schedule.candidates:
        return
    from taskspace.schedules.schedule import check_plan  # compiled kernels

    n_policies = experiment.built_trainer.n_policies
    for question in experiment.questions:
        try:
            check_plan(
                experiment.sources, experiment.target_space, n_policies, question
            )
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{error} Or leave out [schedule] (--set schedule.candidates=0)."
            ) from None


def do_work(text: str, code: Code, keep: tuple[str, ...], work: Work) -> Block:
    """Do a piece of work; callable in any process, with no file in common.

    Args:
        text: the experiment as TOML.
        code: what it may import, and from where.
        keep: variables of the table.
        work: what to do.
    """
    return replace(task_of(text, code), keep=keep).do(work, record_failures=True)


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


def _work_off(
    ledger: Ledger, experiment: Experiment, crew: Engine, report: Progress
) -> None:
    """Hand out whatever is left to do until nothing is.

    What is done is written at once, by this process alone, so workers need no file in
    common with it.
    """
    text, code, keep = experiment.work_text, experiment.pinned_code, ledger.task.keep
    running: dict[Future[Any], tuple[str, Work]] = {}
    queue, earlier = ledger.missing(), ledger.earlier

    def say() -> None:
        in_hand = [work for _, work in running.values()][: crew.n_workers]
        done = int(ledger.evaluated.sum())
        report("train", done, ledger.n_sources, _in_words(in_hand))

    try:
        while queue or running:
            while queue and len(running) < crew.at_once:
                prefix, work = queue.pop(0)
                before = earlier.of(work) if earlier else None
                whole = replace(work, before=before)
                report(
                    "train",
                    int(ledger.evaluated.sum()),
                    ledger.n_sources,
                    _in_words([work]),
                )
                future = crew.executor.submit(do_work, text, code, keep, whole)
                running[future] = prefix, work
            say()
            done, _ = wait(running, timeout=CHECKED, return_when=FIRST_COMPLETED)
            # What is finished first: an error must not take it along.
            for future in sorted(done, key=_failed):
                prefix, work = running.pop(future)
                ledger.tell(work, future.result(), prefix)
            if not done:
                crew.check()
        say()
    finally:
        for future in running:
            future.cancel()


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _in_words(pieces: Sequence[Work]) -> str:
    """Return what the workers do, the sources of each."""
    return ", ".join(
        f"sources {work.numbers[0]:,}–{work.numbers[-1]:,}"
        if len(work.numbers) > 1
        else f"source {work.numbers[0]:,}"
        for work in pieces
    )


def _failures(ledger: Ledger) -> tuple[dict[str, Any], ...]:
    """Trainings that failed: number of the source, context, seed and reason."""
    return tuple(
        {
            "source": number,
            "context": ledger.sources.context(number),
            "seed": ledger.seeds[number],
            "reason": reason,
        }
        for number, reason in sorted(ledger.failures.items())
    )


def _beside_ignorance(scores: Scores, ledger: Ledger) -> Scores:
    """Put scores of learned policies beside those of policies that know nothing."""
    system, targets = ledger.task.system, ledger.task.targets
    if not system.n_episodes:
        return scores
    from taskspace.systems.episodic import zero_performance

    if (tried := zero_performance(system, targets)) is None:
        return scores
    rows, ignorant = tried
    best = ledger.top()[rows]
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
    return [(a.question, a.method) for a in known.covers] == asked


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
