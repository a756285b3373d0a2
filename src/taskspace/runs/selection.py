"""Running a selection into a directory: train what the answer needs, or go on."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import xarray as xr

from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import Block, Work
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.runs.engines import engine
from taskspace.runs.execute import do_work
from taskspace.runs.experiment import Experiment
from taskspace.runs.folder import RunFolder, check_ours, locked, selection_layout
from taskspace.runs.results import answer
from taskspace.runs.specs import SelectSpec
from taskspace.selection import SelectionLoop, SelectResult
from taskspace.selection.candidates import BOX, candidate_space
from taskspace.selection.compare import check_full_table
from taskspace.selection.selecting import (
    conclude,
    default_selector,
    make_selector,
    new_selection_ledger,
)
from taskspace.trainers.base import check_stored


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
    say: Callable[[str], None] | None = None,
) -> SelectionRun:
    """Train what the answer needs into a directory, or go on with one that is there.

    Args:
        experiment: what may be trained, what is asked, and in `[select]` how.
        out: the run directory.
        question: what shall be covered; the experiment's first question if left out.
        workers: processes; 0 works in this one. By default as many as trainings are
            under way at a time, where one does not use all processors by itself.
        scheduler: address of a Dask scheduler, or `"local"` to start one here.
        full_table: the table of all candidates, where it is known, for the bound.
        progress: told after each training how many targets are covered.
        say: told, once, what a person may want to know: where a dashboard is.
    """
    if workers is not None and workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    began = time.perf_counter()
    out = Path(out)
    spec = experiment.select or SelectSpec()
    anywhere = spec.candidates == BOX
    if spec.selector is None:
        name = default_selector(experiment.built_trainer, anywhere)
        spec = replace(spec, selector=name)
    experiment = replace(experiment, select=spec).resolved()
    question = experiment.questions[0] if question is None else question
    system, trainer = experiment.built_system, experiment.built_trainer
    targets = experiment.target_space
    space = candidate_space(experiment.sources, spec.candidates)
    if full_table is not None:
        check_full_table(full_table, space, targets)
    assert spec.selector is not None
    selector = make_selector(spec.selector, space, experiment.seed, anywhere)
    check_stored(experiment.built_trainer)
    check_ours(out)
    with locked(out):
        ledger = new_selection_ledger(
            system,
            trainer,
            space,
            targets,
            question,
            seed=experiment.seed,
            reference=spec.reference,
        )
        layout = selection_layout(ledger.task)
        run = RunFolder.create(out, experiment, question=question, layout=layout)
        ledger.folder, run.trainings = run.blocks, ledger
        text, keep = experiment.work_text, ledger.task.keep
        code = experiment.pinned_code
        if workers is None:
            n_parallel = 1 if system.fills_processors else spec.n_parallel
            workers = 0 if n_parallel == 1 else min(n_parallel, os.cpu_count() or 1)

        def note(*said: Any) -> None:
            # What is done is part of a run that can be read.
            run.write_reference(ledger.best_known())
            if progress is not None:
                progress(*said)

        with engine(workers, scheduler, say) as crew:

            def submit(work: Work) -> Future[Block]:
                return crew.executor.submit(do_work, text, code, keep, work)

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
        limit = experiment.cover.time_limit
        result = conclude(selection, reason, full_table, limit)
        _finish(run, ledger, result)
    return SelectionRun(out, time.perf_counter() - began, result)


def _finish(run: RunFolder, ledger: Ledger, result: SelectResult) -> None:
    """Everything that a finished run has."""
    if result.study is None:
        return
    notes = {**run.info.notes, "notes": [result.statement]}
    run.info = msgspec.structs.replace(run.info, notes=notes)
    run.write_reference(ledger.best_known())
    results = answer(
        run.table(),
        run.trained_experiment(),
        solved_return=ledger.task.system.solved_return,
    )
    run.finish(results, ledger.files())
