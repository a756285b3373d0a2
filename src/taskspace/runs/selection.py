"""A selection on disk: an ordinary run whose sources are those that were trained.

Beside what every run has, the directory holds `selection.toml`, the experiment as it
was asked, and `selection.json`: every source in the order of its proposal, with its
seed, its kind and whether it is done, and the history. Both are enough to go on after
a kill with the same sequence.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from taskspace._files import (
    clean_leftovers,
    read_sealed,
    write_atomically,
    write_sealed,
)
from taskspace.errors import DamagedFileError, InvalidInputError, RunStoreError
from taskspace.performance.ledger import (
    TRAINED,
    Ledger,
    Rows,
    Task,
    TrainedBlock,
    Work,
    best_known,
    table_notes,
)
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.runs import chunks
from taskspace.runs.answers import answer
from taskspace.runs.engines import engine
from taskspace.runs.execute import task_of
from taskspace.runs.experiment import Experiment
from taskspace.runs.layout import Layout
from taskspace.runs.lock import locked
from taskspace.runs.manifest import as_text, check_ours, difference
from taskspace.runs.objects import Code
from taskspace.runs.select_spec import SelectSpec
from taskspace.runs.store import RunStore
from taskspace.select import Budget, Candidates, Options, Selection, SelectResult
from taskspace.select.candidates import BOX, CandidatesOption, candidate_space
from taskspace.select.interpolated import blend
from taskspace.select.loop import Done, Past, do_source
from taskspace.select.saved import check_full_table
from taskspace.select.selecting import conclude, make_selector, new_selection_ledger
from taskspace.spaces import Points, Space
from taskspace.trainers import Trained

__all__ = ["SelectionRun", "do_selected", "run_selection"]


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
    workers: int = 0,
    scheduler: str | None = None,
    full_table: xr.Dataset | None = None,
    progress: Progress | None = None,
) -> SelectionRun:
    """Train what the answer needs into a directory, or go on with one that is there.

    Args:
        experiment: what may be trained, what is asked, and in `[select]` how.
        out: the run directory.
        question: what shall be covered; the experiment's first question if left out.
        workers: processes; 0 works in this one.
        scheduler: address of a Dask scheduler, or `"local"` to start one here.
        full_table: the table of all candidates, where it is known, for the bound.
        progress: told after each training how many targets are covered.
    """
    if workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    began = time.perf_counter()
    out = Path(out)
    spec = experiment.select or SelectSpec()
    experiment = replace(experiment, select=spec).resolved()
    question = experiment.questions[0] if question is None else question
    system, trainer = experiment.built_system, experiment.built_trainer
    targets = experiment.target_space
    space = experiment_candidates(experiment)
    if full_table is not None:
        check_full_table(full_table, space, targets)
    check_ours(out)
    with locked(out):
        ledger = new_selection_ledger(
            system,
            trainer,
            space,
            targets,
            question,
            seed=experiment.seed,
            limit=spec.limit,
        )
        journal = _Directory(out, experiment, question, ledger)
        options = Options(
            budget=Budget(spec.budget, spec.environment_steps, spec.hours),
            n_at_once=spec.n_at_once,
            deterministic=spec.deterministic,
            retries=spec.retries,
            patience=spec.patience or 2 * len(space.names) + 1,
            sparing=spec.sparing,
        )
        anywhere = spec.candidates == BOX
        selector = make_selector(spec.selector, space, experiment.seed, anywhere)
        text, keep = experiment.to_toml(), ledger.task.keep
        with engine(workers, scheduler) as crew:

            def submit(work: Work) -> "Future[Done]":
                return crew.executor.submit(
                    do_selected, text, experiment.code, keep, work
                )

            selection = Selection(
                ledger,
                selector,
                question,
                options,
                submit=submit,
                journal=journal,
                progress=progress,
                check=crew.check,
            )
            try:
                reason = selection.run()
            except Exception as error:
                if why := crew.why(error):
                    raise RunStoreError(why) from error
                raise
        limit = experiment.cover.time_limit
        result = conclude(selection, reason, full_table, limit)
        journal.finish(result)
    return SelectionRun(out, time.perf_counter() - began, result)


def experiment_candidates(experiment: Experiment) -> Space:
    """The contexts that an experiment's selection chooses from.

    Args:
        experiment: with or without `[select]`.
    """
    spec = experiment.select or SelectSpec()
    option = cast("CandidatesOption", spec.candidates)
    return candidate_space(experiment.sources, option, experiment.seed)


def do_selected(text: str, code: Code, keep: tuple[str, ...], work: Work) -> Done:
    """Train and evaluate one source; callable in any process.

    Args:
        text: the experiment as TOML.
        code: what it may import, and from where.
        keep: variables of the table.
        work: what to do.
    """
    return do_source(replace(task_of(text, code), keep=keep), work)


class _Directory:
    """The journal of a selection: a run directory that grows source by source."""

    def __init__(
        self, path: Path, experiment: Experiment, question: Question, ledger: Ledger
    ):
        self.path, self.experiment, self.question = path, experiment, question
        self.ledger = ledger
        self._sources: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []
        self._hours = 0.0
        task = ledger.task
        notes = table_notes(task, "")
        del notes["best_known_kind"]
        assert experiment.select is not None
        notes["selector"] = experiment.select.selector
        about = {
            "id": task.system.id,
            "axes": [{**vars(axis), "label": axis.label} for axis in task.system.axes],
            "solved_return": task.system.solved_return,
        }
        layout = Layout(
            n_sources=0,
            n_policies=task.trainer.n_policies,
            n_targets=len(task.targets),
            n_episodes=task.system.n_episodes,
            train_rows=1,
            table_rows=1,
            variables=task.keep,
        )
        self._notes, self._about = notes, about
        self._store = RunStore(path, experiment, layout, notes, about)
        for folder in ("policies", "blocks"):
            (path / folder).mkdir(parents=True, exist_ok=True)
        clean_leftovers(path)

    @property
    def _asked(self) -> dict[str, Any]:
        values = self.experiment.to_dict()
        keys = ("seed", "system", "space", "targets", "trainer")
        how = dict(values.get("select", {}))
        for name in ("budget", "environment_steps", "hours"):
            how.pop(name, None)  # what may be spent can be raised later
        return as_text(
            {key: values.get(key) for key in keys}
            | {"question": self.question.to_dict(), "select": how}
        )

    # --- what was there -----------------------------------------------------------

    def past(self) -> tuple[list[Past], list[dict[str, Any]], float]:
        """Sources of earlier sessions, their history, and the hours they took."""
        file = self.path / "selection.json"
        if not file.exists():
            if (self.path / "manifest.json").exists():
                raise RunStoreError(
                    f"{self.path} holds a run that is not a selection. Nothing was "
                    "changed. Choose another directory with --out."
                )
            write_atomically(self.path / "selection.toml", self.experiment.to_toml())
            self._save()
            return [], [], 0.0
        try:
            record = read_sealed(file)
        except DamagedFileError as error:
            raise RunStoreError(
                f"{error} It cannot be gone on with; choose another directory with "
                "--out."
            ) from error
        if record["asked"] != self._asked:
            what = difference(record["asked"], self._asked)
            raise RunStoreError(
                f"{self.path} holds another selection: {what}. Nothing was changed. "
                "Choose another directory with --out."
            )
        write_atomically(self.path / "selection.toml", self.experiment.to_toml())
        self._sources, self._history = record["sources"], record["history"]
        self._hours = record["hours"]
        places = sum("place" in entry for entry in self._sources)
        self._grow(places)
        found: list[Past] = []
        for entry in self._sources:
            found.append(self._past(entry, found))
        self._write_run()
        return found, list(self._history), self._hours

    def _past(self, entry: dict[str, Any], before: list[Past]) -> Past:
        columns = entry.get("columns")
        past = Past(
            np.array(entry["context"], np.float64),
            entry["seed"],
            entry["kind"],
            None,
            None if columns is None else _from_stretches(columns),
        )
        if "failure" in entry:
            return replace(past, done=entry["failure"])
        if "place" not in entry:
            return past
        place = entry["place"]
        try:
            done: Done = self._read(place)
        except (RunStoreError, DamagedFileError):
            done = self._again(entry, past, before)
            if isinstance(done, str):
                raise RunStoreError(
                    f"{self.path} is damaged, and source {place} could not be trained "
                    f"again: {done}."
                ) from None
            self._write(place, done)
        return replace(past, done=done)

    def _read(self, place: int) -> tuple[TrainedBlock, Rows]:
        store = self._store
        block = store.read_policies(slice(place, place + 1))
        variables = {n: store.read_chunk(n, place) for n in store.layout.variables}
        return block, Rows(variables, store.block_top(place))

    def _again(self, entry: dict[str, Any], past: Past, before: list[Past]) -> Done:
        """A damaged source: trained, or made, as it was the first time."""
        task: Task = self.ledger.task
        names = self.ledger.target_space.names
        contexts = task.system.contexts(Points(names, past.context[None]))
        rows = slice(0, 1)
        if past.kind == TRAINED:
            work = Work("train", 0, rows, contexts, None, past.seed, past.columns)
            return do_source(task, work)
        parents = [before[number] for number in entry["made_from"]]
        stack = TrainedBlock.concatenate(
            [p.done[0] for p in parents if isinstance(p.done, tuple)]
        )
        units = Candidates(experiment_candidates(self.experiment))
        policies = blend(
            stack.trained.policies,
            units.units_of(np.stack([p.context for p in parents])),
            units.units_of(past.context[None]),
        )
        like = stack[rows].trained
        trained = Trained(
            policies,
            np.zeros_like(like.environment_steps),
            {name: np.zeros_like(values) for name, values in like.log.items()},
        )
        home = task.system.home_performance(policies, contexts)
        block = TrainedBlock(trained, home, np.zeros(1, bool))
        return block, task.rows(block, past.columns)

    # --- what happens -------------------------------------------------------------

    def began(self, past: Sequence[Past]) -> None:
        """Sources are planned."""
        for each in past:
            entry: dict[str, Any] = {
                "context": each.context.tolist(),
                "seed": each.seed,
                "kind": each.kind,
            }
            if each.columns is not None:
                entry["columns"] = _stretches(each.columns)
            self._sources.append(entry)
        self._save()

    def ended(
        self, number: int, past: Past, made_from: Sequence[int] | None = None
    ) -> None:
        """A planned source is done."""
        entry = self._sources[number]
        if isinstance(past.done, str):
            entry["failure"] = past.done
        else:
            assert past.done is not None
            place = sum("place" in other for other in self._sources)
            self._grow(place + 1)
            self._write(place, past.done)
            entry["place"] = place
            if made_from is not None:
                entry["made_from"] = list(made_from)

    def noted(self, history: list[dict[str, Any]], hours: float) -> None:
        """The history has grown: what is done becomes part of the run."""
        self._history, self._hours = history, hours
        self._save()
        self._write_run()

    def _save(self) -> None:
        record = {
            "asked": self._asked,
            "sources": self._sources,
            "history": self._history,
            "hours": self._hours,
        }
        write_sealed(self.path / "selection.json", record)

    def _grow(self, n_sources: int, experiment: Experiment | None = None) -> None:
        """The same directory with room for so many sources."""
        layout = replace(self._store.layout, n_sources=n_sources)
        experiment = experiment or self._store.experiment
        self._store = RunStore(self.path, experiment, layout, self._notes, self._about)

    def _write(self, place: int, done: tuple[TrainedBlock, Rows]) -> None:
        self._store.write_policies(place, done[0])
        self._store.write_rows(place, done[1])

    def _write_run(self) -> None:
        """The directory as a run of the sources that are done."""
        stored = sorted(
            (e for e in self._sources if "place" in e), key=lambda e: e["place"]
        )
        if not stored:
            return
        space = Points(
            self.ledger.target_space.names, [entry["context"] for entry in stored]
        )
        trained = replace(
            self.experiment,
            space=space.to_dict(),
            targets=self.experiment.target_space.to_dict(),
            select=None,
        )
        self._grow(len(stored), trained.resolved())
        reference, kind = self._reference()
        self._store.write_best_known(reference, kind)
        write_atomically(
            self.path / "experiment.toml", self._store.experiment.to_toml()
        )
        write_sealed(self.path / "manifest.json", self._store.manifest())

    def _reference(self) -> tuple[np.ndarray, str]:
        if self.ledger.n_sources and self.ledger.evaluated.any():
            return self.ledger.best_known()
        system, top = self.ledger.task.system, self._store.top()
        if self.ledger.limit is not None:
            return np.fmax(self.ledger.limit, top), "stated limit"
        return best_known(system, self.ledger.task.targets, top)

    def finish(self, result: SelectResult) -> None:
        """Everything that a finished run has.

        Args:
            result: what was found.
        """
        if result.table is None:
            return
        self._notes["notes"] = [result.statement]
        self._write_run()
        chunks.create_arrays(self.path / "table.zarr", self._store)
        results = answer(
            self._store.table(),
            self._store.experiment,
            solved_return=self.ledger.task.system.solved_return,
        )
        results.save(self.path / "results.json")


def _stretches(columns: np.ndarray) -> list[list[int]]:
    """Ascending numbers as `[first, stop)` pairs."""
    if not len(columns):
        return []
    parts = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    return [[int(part[0]), int(part[-1]) + 1] for part in parts]


def _from_stretches(pairs: list[list[int]]) -> np.ndarray:
    parts = [np.arange(first, stop, dtype=np.int64) for first, stop in pairs]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
