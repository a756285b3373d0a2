"""Running an experiment, or a selection, into a directory.

Both resume what is there. Work is done in this process, in others, or by Dask.
"""

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import xarray as xr

from taskspace.errors import DamagedFileError, InvalidInputError, RunStoreError
from taskspace.performance.blocks import Layout
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study
from taskspace.performance.work import Block, Task, Work
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.runs.code import Code, is_reference
from taskspace.runs.engines import Engine, engine
from taskspace.runs.experiment import Experiment, SelectSpec, load_experiment
from taskspace.runs.folder import RunFolder
from taskspace.runs.info import check_ours, locked
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results, answer, score_range, settings_of
from taskspace.selection import SelectionLoop, SelectResult
from taskspace.selection.selecting import (
    BOX,
    check_full_table,
    conclude,
    default_selector,
    make_selector,
    new_selection_ledger,
)
from taskspace.trainers.base import check_stored

CHECKED = 5.0
"""Seconds between checks that the workers are alive."""


@dataclass(frozen=True)
class RunResult:
    """What a run found.

    Args:
        path: the run directory.
        seconds: wall-clock time of this call.
        results: what is in `results.json`.
        reused: nothing had to be computed.
        mended: what was damaged and computed again, a clause each.
    """

    path: Path
    seconds: float
    results: Results
    reused: bool
    mended: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `taskspace run --format json` prints them."""
        found = self.results.to_dict()
        return {
            "run": str(self.path),
            "seconds": self.seconds,
            "covers": found["covers"],
            "mended": list(self.mended),
            "failures": found["failures"],
        }

    def __str__(self) -> str:
        """Return what was found, for people."""
        mended = [f"Mended: {what}" for what in self.mended]
        done = "read from" if self.reused else "in"
        ending = f"Run {done} {self.path} ({self.seconds:.1f} s)"
        return "\n".join([*mended, str(self.results), ending])

    @property
    def next_command(self) -> str:
        """What to do next with the run."""
        asked = shlex.quote(str(self.results.covers[-1].question))
        return f"Next: taskspace certify {self.path} --ask {asked}"


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    report: Progress | None = None,
) -> RunResult:
    """Run an experiment into a directory, or finish or mend one that is there.

    Args:
        experiment: what to run.
        out: the run directory.
        workers: processes; 0 works in this one. By default as many as there are
            processors for simulated systems, 0 for exact ones (whose kernels use
            all processors by themselves).
        scheduler: address of a Dask scheduler.
        report: told about progress, and what each worker does.

    Returns:
        The results, which are also in `results.json`.
    """
    began, report = time.perf_counter(), report or silent
    with _writing(experiment, out, workers):
        run = RunFolder.create(out, experiment)
        experiment, mended = run.experiment, run.mended
        system = experiment.built_system
        if workers is None:
            workers = 0 if system.fills_processors else os.cpu_count() or 1
        ledger = run.ledger()
        if ledger.missing():
            run.write_reference(None)
            with engine(workers, scheduler) as crew:
                _work_off(ledger, experiment, crew, report)
        if not run.info.reference:
            run.write_reference(ledger.best_known())
        known = None
        try:
            known = run.results()
        except DamagedFileError as error:
            mended = (*mended, str(error).rstrip("."))
        reused = (
            known is not None
            and not (mended or ledger.failures or known.failures)
            and known.settings == settings_of(experiment)
        )
        if known is None or not reused:
            failures = tuple(
                {
                    "source": number,
                    "context": ledger.sources.context(number),
                    "seed": ledger.seeds[number],
                    "reason": reason,
                }
                for number, reason in sorted(ledger.failures.items())
            )
            notes = _doing_nothing(ledger)
            known = answer(
                run.table(), experiment, report, notes=notes, failures=failures
            )
        results = run.finish(known)
    return RunResult(run.path, time.perf_counter() - began, results, reused, mended)


@contextmanager
def _writing(
    experiment: Experiment, out: str | Path, workers: int | None
) -> Iterator[None]:
    """Hold the directory of a run; what cannot be run is refused before any work."""
    if workers is not None and workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    check_stored(experiment.built_trainer)
    check_ours(Path(out))
    with locked(Path(out)):
        yield


def _doing_nothing(ledger: Ledger) -> list[str]:
    """Say how the policy that does nothing scores, for simulated systems."""
    if not ledger.task.system.n_episodes:
        return []
    from taskspace.systems.episodic import zero_performance

    tried = zero_performance(ledger.task.system, ledger.task.targets)
    if tried is None:
        return []
    rows, scores = tried
    notes = [f"Doing nothing scores {score_range(scores)}."]
    if n_no_better := int((ledger.top()[rows] <= scores).sum()):
        notes.append(
            f"! At {n_no_better} of the targets tried no policy is better than doing "
            "nothing: the trainer may have learned nothing."
        )
    return notes


# --- what workers do --------------------------------------------------------------


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
        names = [experiment.system["id"], experiment.trainer["id"]]
        own = " and ".join(filter(is_reference, names))
        raise RunStoreError(
            f"A worker has another version of {own} than the process that planned the "
            "work. Everything finished is kept. Bring the same files to all workers, "
            "start the workers again, and run the same command."
        )
    return task


def _work_off(
    ledger: Ledger, experiment: Experiment, crew: Engine, report: Progress
) -> None:
    """Hand out whatever is left to do until nothing is.

    What is done is written at once, by this process alone, so workers need no file in
    common with it.
    """
    given = *experiment.for_workers, ledger.task.keep
    running: dict[Future[Any], tuple[str, Work]] = {}
    queue = ledger.missing()
    try:
        while queue or running:
            while queue and len(running) < crew.at_once:
                prefix, work = queue.pop(0)
                whole = replace(work, before=ledger.before(work))
                _tell(ledger, [*running.values(), (prefix, work)], crew, report)
                future = crew.executor.submit(do_work, *given, whole)
                running[future] = prefix, work
            done, _ = wait(running, timeout=CHECKED, return_when=FIRST_COMPLETED)
            # What is finished first: an error must not take it along.
            for future in sorted(done, key=_failed):
                prefix, work = running.pop(future)
                ledger.tell(work, future.result(), prefix)
            if not done:
                crew.check()
            _tell(ledger, list(running.values()), crew, report)
    finally:
        for future in running:
            future.cancel()


def _tell(
    ledger: Ledger, pieces: list[tuple[str, Work]], crew: Engine, report: Progress
) -> None:
    """Report how many sources are done, and which the workers have in hand."""
    numbers = [work.numbers for _, work in pieces[: crew.n_workers]]
    note = ", ".join(f"sources {n[0]:,}–{n[-1]:,}" for n in numbers)
    report("train", int(ledger.evaluated.sum()), ledger.n_sources, note)


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


# --- selections -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SelectionRun:
    """A selection in its directory.

    Args:
        path: the run directory.
        seconds: wall-clock time of this call.
        result: what was found.
    """

    path: Path
    seconds: float
    result: SelectResult


def run_selection(
    experiment: Experiment,
    out: str | Path,
    *,
    question: Question | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    full_table: xr.Dataset | None = None,
    progress: Progress | None = None,
) -> SelectionRun:
    """Train what the answer needs into a directory, or go on with one that is there.

    Args:
        experiment: what may be trained, what is asked, and in `[select]` how.
        out: the run directory.
        question: what shall be covered; the experiment's first question if left out.
        workers: processes; 0 works in this one. By default as many as trainings are
            under way at a time, where one does not use all processors by itself.
        scheduler: address of a Dask scheduler.
        full_table: the table of all candidates, where it is known, for the bound.
        progress: told after each training how many targets are covered.
    """
    began, out = time.perf_counter(), Path(out)
    spec = experiment.select or SelectSpec()
    anywhere = spec.candidates == BOX
    name = spec.selector or default_selector(experiment.built_trainer, anywhere)
    experiment = replace(experiment, select=replace(spec, selector=name)).resolved()
    experiment.checked()
    question = experiment.ask[0] if question is None else question
    system, targets, seed = (
        experiment.built_system,
        experiment.target_space,
        experiment.seed,
    )
    space = experiment.sources
    if full_table is not None:
        check_full_table(full_table, space, targets)
    selector = make_selector(name, space, seed, anywhere)
    with _writing(experiment, out, workers):
        trainer, reference = experiment.built_trainer, spec.reference
        ledger = new_selection_ledger(
            system, trainer, space, targets, question, seed=seed, reference=reference
        )
        keep = ledger.task.keep
        sizes = trainer.n_policies, targets.size, system.n_episodes
        layout = Layout(*sizes, rows=1, variables=keep)
        run = RunFolder.create(out, experiment, question=question, layout=layout)
        ledger.folder, run.trainings = run.blocks, ledger
        if workers is None:
            n_parallel = 1 if system.fills_processors else spec.n_parallel
            workers = 0 if n_parallel == 1 else min(n_parallel, os.cpu_count() or 1)

        def note(*said: Any) -> None:
            # What is done is part of a run that can be read.
            run.write_reference(ledger.best_known())
            if progress is not None:
                progress(*said)

        given = *experiment.for_workers, keep
        with engine(workers, scheduler) as crew:

            def submit(work: Work) -> Future[Block]:
                return crew.executor.submit(do_work, *given, work)

            selection = SelectionLoop(
                ledger,
                selector,
                question,
                spec,
                submit=submit if workers or scheduler else None,
                log=run.log,
                progress=note,
                check=crew.check,
            )
            reason = selection.run()
        result = conclude(selection, reason, full_table, experiment.cover.time_limit)
        if result.study is not None:
            notes = {**run.info.notes, "notes": [result.statement]}
            run.info = msgspec.structs.replace(run.info, notes=notes)
            run.write_reference(ledger.best_known())
            run.finish(answer(run.table(), experiment))
    return SelectionRun(out, time.perf_counter() - began, result)


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
        scheduler: address of a Dask scheduler.
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
