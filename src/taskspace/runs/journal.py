"""The journal of a selection on disk: an ordinary run that grows source by source.

Beside what every run has, the directory holds `selection.toml`, the experiment as it
was asked, and `selection.json`: every source in the order of its proposal, with its
seed, its kind and whether it is done, and the history. Both are enough to go on after
a kill with the same sequence. Should `selection.json` be damaged, the selection is made
again with what is trained already: each block's record says of what source it is.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskspace._util.files import (
    clean_leftovers,
    plain,
    write_atomically,
    write_sealed,
)
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.ledger import (
    STATED,
    TRAINED,
    Ledger,
    Rows,
    Task,
    TrainedBlock,
    Work,
    best_known,
)
from taskspace.questions import Question
from taskspace.runs import chunks
from taskspace.runs.answers import answer
from taskspace.runs.experiment import Experiment
from taskspace.runs.layout import Layout
from taskspace.runs.manifest import about, difference, usable_manifest
from taskspace.runs.recheck import check_plant
from taskspace.runs.selected import read_selection
from taskspace.runs.store import RunStore
from taskspace.selection import Candidates, SelectResult
from taskspace.selection.loop import Done, Past, do_source
from taskspace.selection.selectors.interpolated import blend
from taskspace.spaces import Points, Space
from taskspace.trainers import Trained

__all__ = ["SelectionJournal"]


class SelectionJournal:
    """A run directory that grows source by source.

    Args:
        path: the directory.
        experiment: what is selected, with its `[select]`.
        question: what shall be covered.
        ledger: what is known so far, in memory.
        candidates: the contexts that are chosen from.
    """

    def __init__(
        self,
        path: Path,
        experiment: Experiment,
        question: Question,
        ledger: Ledger,
        candidates: Space,
    ):
        self.path, self.experiment, self.question = path, experiment, question
        self.ledger, self._candidates = ledger, candidates
        self._sources: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []
        self._hours = 0.0
        self._orphans: dict[str, Done] = {}
        task = ledger.task
        notes, system = about(task)
        assert experiment.select is not None
        notes["selector"] = experiment.select.selector
        notes["asked"] = question.statement
        notes["epsilon"] = question.epsilon
        layout = Layout(
            n_sources=0,
            n_policies=task.trainer.n_policies,
            n_targets=len(task.targets),
            n_episodes=task.system.n_episodes,
            train_rows=1,
            table_rows=1,
            variables=task.keep,
        )
        self._notes, self._system = notes, system
        self._store = RunStore(path, experiment, layout, notes, system)
        for folder in ("policies", "blocks"):
            (path / folder).mkdir(parents=True, exist_ok=True)
        clean_leftovers(path)

    def _asked(self, experiment: Experiment) -> dict[str, Any]:
        """What must stay the same for a selection to be gone on with."""
        values = experiment.to_dict()
        keys = ("seed", "system", "space", "targets", "trainer")
        how = dict(values.get("select", {}))
        for name in ("budget", "environment_steps", "hours"):
            how.pop(name, None)  # what may be spent can be raised later
        asked = {key: values.get(key) for key in keys}
        asked |= {"question": self.question.to_dict(), "select": how}
        return plain(asked, nonfinite="text")

    # --- what was there -----------------------------------------------------------

    def past(self) -> tuple[list[Past], list[dict[str, Any]], float]:
        """Sources of earlier sessions, their history, and the hours they took."""
        record = self._record()
        if record is not None:
            self._check(record["asked"])
            self._sources, self._history = record["sources"], record["history"]
            self._hours = record["hours"]
        places = sum("place" in entry for entry in self._sources)
        self._grow(places)
        self._check_plant()
        write_atomically(self.path / "selection.toml", self.experiment.to_toml())
        self._find_orphans(places)
        self._grow(places)
        found: list[Past] = []
        for entry in self._sources:
            found.append(self._past(entry, found))
        if record is None:
            self._save()
        else:
            self._write_run()
        return found, list(self._history), self._hours

    def _check_plant(self) -> None:
        """Refuse to go on with a system that was edited since."""
        stored = sorted(
            (e for e in self._sources if "place" in e), key=lambda e: e["place"]
        )
        if stored:
            names = self.ledger.target_space.names
            space = Points(names, [entry["context"] for entry in stored])
            check_plant(self._store, self.ledger.task.system.contexts(space))

    def _record(self) -> dict[str, Any] | None:
        """The journal; None for a new selection, and one whose journal was lost."""
        try:
            return read_selection(self.path)
        except DamagedFileError as damage:
            toml = self.path / "selection.toml"
            if not toml.exists() and (self.path / "manifest.json").exists():
                raise RunStoreError(
                    f"{self.path} holds a run that is not a selection. Nothing was "
                    "changed. Choose another directory with --out."
                ) from None
            if any((self.path / "blocks").glob("train-*.json")):
                self._check_lost(toml, damage)
                (self.path / "results.json").unlink(missing_ok=True)
            return None

    def _check_lost(self, toml: Path, damage: DamagedFileError) -> None:
        """Refuse a directory without a journal, if another selection is in it."""
        try:
            text = toml.read_text(encoding="utf-8")
            there = Experiment.from_toml(text, code=self.experiment.code)
        except (TaskspaceError, TypeError, ValueError, OSError) as error:
            raise RunStoreError(
                f"{damage} Neither does {toml.name} say what was selected: choose "
                "another directory with --out."
            ) from error
        self._check(self._asked(there))
        known = (usable_manifest(self.path) or {}).get("notes", {}).get("asked")
        if known not in (None, self.question.statement):
            raise RunStoreError(
                f"{self.path} holds another selection: it was asked for {known}. "
                "Nothing was changed. Choose another directory with --out."
            ) from None

    def _check(self, asked: dict[str, Any]) -> None:
        """Refuse a directory of another selection."""
        if what := difference(asked, self._asked(self.experiment)):
            raise RunStoreError(
                f"{self.path} holds another selection: {what}. Nothing was changed. "
                "Choose another directory with --out."
            )

    def _find_orphans(self, first: int) -> None:
        """Trained sources that the journal does not know: it, or its end, was lost."""
        n_blocks = len(list((self.path / "blocks").glob("train-*.json")))
        self._grow(n_blocks)
        for place in range(first, n_blocks):
            try:
                source = self._store.trainings.source(place)
                if source is not None:
                    self._orphans[source] = self._read(place)
            except (RunStoreError, DamagedFileError):
                continue

    def orphan(self, work: Work) -> Done | None:
        """What a training gave that was done before, though the journal was lost.

        Args:
            work: the training.
        """
        return self._orphans.pop(_source(work.contexts, work.seed, work.columns), None)

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
            self._write(place, replace(past, done=done))
        return replace(past, done=done)

    def _read(self, place: int) -> tuple[TrainedBlock, Rows]:
        store = self._store
        block = store.read_policies(slice(place, place + 1))
        variables = {n: store.read_chunk(n, place) for n in store.layout.variables}
        return block, Rows(variables, store.block_top(place))

    def _again(self, entry: dict[str, Any], past: Past, before: list[Past]) -> Done:
        """A damaged source: trained, or made, as it was the first time."""
        task: Task = self.ledger.task
        contexts, rows = self._contexts(past), slice(0, 1)
        if past.kind == TRAINED:
            work = Work("train", 0, rows, contexts, None, past.seed, past.columns)
            return do_source(task, work)
        parents = [before[number] for number in entry["made_from"]]
        stack = TrainedBlock.concatenate(
            [p.done[0] for p in parents if isinstance(p.done, tuple)]
        )
        units = Candidates(self._candidates)
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
        """Sources are planned.

        Args:
            past: the sources, none of them done.
        """
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
        """A planned source is done.

        Args:
            number: which one.
            past: the source, with what it gave.
            made_from: the sources whose policies were blended for it.
        """
        entry = self._sources[number]
        if isinstance(past.done, str):
            entry["failure"] = past.done
        else:
            assert past.done is not None
            place = sum("place" in other for other in self._sources)
            self._grow(place + 1)
            self._write(place, past)
            entry["place"] = place
            if made_from is not None:
                entry["made_from"] = list(made_from)

    def noted(self, history: list[dict[str, Any]], hours: float) -> None:
        """The history has grown: what is done becomes part of the run.

        Args:
            history: all of it.
            hours: what it took so far.
        """
        self._history, self._hours = history, hours
        self._save()
        self._write_run()

    def _save(self) -> None:
        record = {
            "asked": self._asked(self.experiment),
            "sources": self._sources,
            "history": self._history,
            "hours": self._hours,
        }
        write_sealed(self.path / "selection.json", record)

    def _grow(self, n_sources: int, experiment: Experiment | None = None) -> None:
        """The same directory with room for so many sources."""
        layout = replace(self._store.layout, n_sources=n_sources)
        experiment = experiment or self._store.experiment
        self._store = RunStore(self.path, experiment, layout, self._notes, self._system)

    def _write(self, place: int, past: Past) -> None:
        assert isinstance(past.done, tuple)
        block, rows = past.done
        source = None
        if past.kind == TRAINED:
            source = _source(self._contexts(past), past.seed, past.columns)
        self._store.trainings.write(place, block, source=source)
        self._store.write_rows(place, rows)

    def _contexts(self, past: Past) -> np.ndarray:
        names = self.ledger.target_space.names
        return self.ledger.task.system.contexts(Points(names, past.context[None]))

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
        # Nothing is restored yet: targets without a known optimum wait for it.
        system, top = self.ledger.task.system, self._store.top()
        if self.ledger.reference is not None:
            return np.fmax(self.ledger.reference, top), STATED
        reference, kind = best_known(system, self.ledger.task.targets, top)
        return np.where(self.ledger.without_reference, np.nan, reference), kind

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


def _source(contexts: np.ndarray, seed: int | None, columns: np.ndarray | None) -> str:
    """What tells a training and its evaluation from all others of a selection."""
    where = None if columns is None else _stretches(columns)
    return json.dumps([contexts.tolist(), seed, where])


def _stretches(columns: np.ndarray) -> list[list[int]]:
    """Ascending numbers as `[first, stop)` pairs."""
    if not len(columns):
        return []
    parts = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    return [[int(part[0]), int(part[-1]) + 1] for part in parts]


def _from_stretches(pairs: list[list[int]]) -> np.ndarray:
    parts = [np.arange(first, stop, dtype=np.int64) for first, stop in pairs]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
