"""A run: a store of what is trained and tried, and an experiment that asks for it.

```
experiment.toml   what is asked, with every default written out; re-runs it exactly
trainings/        the store: manifest.jsonl, policies/, table/
selection.jsonl   of a selection: every proposal with its reason, and every step
results.json      covers, curves and costs; the same bytes however often it was killed
figures/          pictures, and the numbers behind them as JSON
```

What the experiment asks for, minus what the store holds, is what is computed. So
resuming, mending, asking for another tolerance and going on with a selection are one
thing. Where the contexts have changed, the store is set aside as `earlier-…`, a new one
takes over what it is asked for, and the earlier one is removed when the run is done.

Reading needs no code of the user's: what the system would have to say is in the
manifest. The table of a built-in exact system that would be large is not stored but
computed from the policies as it is read, which is faster.
"""

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xarray as xr

from taskspace._util.files import checksum, clean_leftovers, write_atomically
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.ledger import Ledger
from taskspace.performance.store import MANIFEST
from taskspace.performance.store.disk import DiskStore, read_manifest
from taskspace.performance.store.records import Layout, SystemFacts
from taskspace.performance.study import Study, StudyParts
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.runs.objects import Code
from taskspace.runs.opening import TRAININGS, is_run, refuse_former, run_folder
from taskspace.runs.recheck import check_plant, check_trainer
from taskspace.runs.results import Results
from taskspace.runs.stored import Stored, layout_of, new_header
from taskspace.runs.takeover import check_added, check_ours, is_of, set_aside
from taskspace.selection.log import LOG, Log
from taskspace.spaces import Points, Space
from taskspace.systems.base import System

RESULTS = "results.json"

FORGED = (LookupError, AttributeError, TypeError, ValueError)
"""What a manifest raises whose checksums fit and whose content does not."""


class RunStore:
    """The directory of one run.

    Args:
        path: the run directory; see `create` and `open`.
        origin: what a user calls it; a zip file, or the directory.
        experiment: what it holds, resolved.
        trainings: what is trained and tried.
        log: of a selection, what was proposed.
        damage: what was damaged and is computed again, a clause each.
    """

    def __init__(
        self,
        path: Path,
        experiment: Experiment,
        trainings: DiskStore,
        log: Log | None = None,
        damage: tuple[str, ...] = (),
        *,
        origin: Path | None = None,
    ):
        self.path, self.experiment, self.trainings = path, experiment, trainings
        self.origin = origin or path
        self.log, self.damage = log, damage
        trainings.mend = self.resume_command
        layout = trainings.header.layout
        if layout.is_computed:
            trainings.task = experiment.task(layout.variables)

    # --- making and opening -------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path,
        experiment: Experiment,
        *,
        question: Question | None = None,
        layout: Layout | None = None,
    ) -> "RunStore":
        """Open the run of an experiment: a new directory, or the one that is there.

        A directory whose policies and table are those of the experiment is taken
        over, whatever was asked of it before; what is damaged in it is computed anew.
        Its sources are planned by a ledger.

        Args:
            path: the directory.
            experiment: what to run; a directory with other data is refused, unless
                this one only adds contexts: then what it holds is kept.
            question: of a selection, what shall be covered.
            layout: how the work is cut, where the experiment does not say it.
        """
        path = Path(path)
        experiment = experiment.resolved()
        check_ours(path)
        layout = layout or layout_of(experiment)
        header = new_header(path, experiment, question, layout)
        folder = path / TRAININGS
        there, records, damage = Stored.read(path), [], []
        if there is None:
            if is_of(path, experiment, header):  # the header was lost
                records, damage = read_manifest(folder)
        else:
            same = there.header.data == header.data
            if not same:
                check_added(there, experiment, header)
            before = cls._as_it_is(there, experiment)
            check_plant(before)
            if there.header.code != header.code:
                check_trainer(before)
            if same and there.header.layout.serves(layout) and there.folder == folder:
                header = msgspec.structs.replace(header, layout=there.header.layout)
                records, damage = there.records, there.damage
            elif not same or there.folder == folder:
                set_aside(path)
        folder.mkdir(parents=True, exist_ok=True)
        clean_leftovers(path)
        store = DiskStore(folder, header, records, damage)
        log = None
        if question is not None:
            log = there.log if there is not None and there.log else Log(path / LOG)
            log.rewrite()
        write_atomically(path / "experiment.toml", experiment.to_toml())
        mended = store.forget_damaged()
        store.compact()
        return cls(path, experiment, store, log, tuple(mended))

    @classmethod
    def _as_it_is(cls, there: Stored, experiment: Experiment) -> "RunStore":
        """Return the run that is there, to be compared with its code."""
        targets = there.header.data["targets"]
        return cls(there.path, replace(experiment, targets=targets), there.store())

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False) -> "RunStore":
        """Open a run that is there; no code that it names is imported.

        Args:
            path: the directory, or a zip file of it.
            trust: code that it names may be imported later, where it is needed.
        """
        origin = Path(path)
        refuse_former(origin)
        if not is_run(origin):
            raise RunStoreError(
                f"{path} is not a run directory: it has no experiment.toml and "
                f"{TRAININGS}/{MANIFEST}. Make one with: taskspace run msd"
            )
        path = run_folder(origin)
        home = origin.with_suffix("") if origin.is_file() else origin
        try:
            there = Stored.read(path)
            if there is None:
                raise DamagedFileError(f"{path / TRAININGS / MANIFEST} has no header")
            header = there.header
            folders = tuple(home / folder for folder in header.modules)
            text = (path / "experiment.toml").read_text(encoding="utf-8")
            if checksum(text.encode()) != header.experiment:
                raise DamagedFileError(
                    f"{path / 'experiment.toml'} is not what was written"
                )
            experiment = Experiment.from_toml(
                text,
                origin=str(path / "experiment.toml"),
                code=Code(trust, (home, home.parent, *folders)),
            )
            return cls(path, experiment, there.store(), there.log, origin=origin)
        except (TaskspaceError, *FORGED, OSError) as error:
            if isinstance(error, RunStoreError):
                raise
            raise RunStoreError(
                f"{origin} is damaged: its manifest or experiment cannot be read "
                f"({error}). Mend it with: taskspace run EXPERIMENT --out {home}"
            ) from error

    def ledger(self) -> Ledger:
        """Return the ledger that this directory keeps; needs the system itself."""
        layout = self.trainings.header.layout
        return Ledger(
            self.experiment.task(layout.variables),
            self.experiment.sources,
            self.experiment.target_space,
            store=self.trainings,
            rows=(layout.train_rows, layout.table_rows),
        )

    # --- what was there before ----------------------------------------------------

    def earlier(self) -> list[DiskStore]:
        """Return the stores that were set aside, the last one first."""
        folders = sorted(self.path.glob("earlier-*"), reverse=True)
        found = [Stored.read(self.path, folder) for folder in folders]
        return [one.store() for one in found if one is not None]

    def finish(self) -> None:
        """Put the manifest in order, and remove what was set aside."""
        self.trainings.compact()
        for folder in self.path.glob("earlier-*"):
            shutil.rmtree(folder)

    # --- what is there ------------------------------------------------------------

    @property
    def is_selection(self) -> bool:
        """Whether the sources were chosen one after the other."""
        return self.log is not None

    @property
    def notes(self) -> dict[str, Any]:
        """Attributes of the table."""
        return self.trainings.header.notes

    @property
    def system(self) -> SystemFacts:
        """What reading must know of the system: its axes, what counts as solved."""
        return self.trainings.header.system

    @property
    def sources(self) -> Space:
        """The contexts of all sources that are planned."""
        if self.log is None:
            return self.experiment.sources
        names = self.experiment.target_space.names
        axes = [axis["name"] for axis in self.system.axes]
        columns = [axes.index(name) for name in names]
        rows = np.array([source.contexts[0] for source in self.trainings.sources])
        return Points(names, rows.reshape(-1, len(axes))[:, columns])

    def trained_experiment(self) -> Experiment:
        """Return the experiment whose sources are those of the table."""
        sources = self.sources
        numbers = np.flatnonzero(self.trainings.evaluated)
        if self.log is None and len(numbers) == sources.size:
            return self.experiment
        points = Points(sources.names, sources.points[numbers])
        return replace(
            self.experiment,
            space=points.to_dict(),
            targets=self.experiment.target_space.to_dict(),
            select=None,
        )

    def table_policies(self) -> Policy:
        """Return the policies of the sources that the table has, in its order."""
        self._check_whole()
        store = self.trainings
        numbers = np.flatnonzero(store.evaluated)
        return store.read([store.sources[n] for n in numbers]).trained.policies

    def table(self) -> xr.Dataset:
        """Return the performance table; large variables are read as they are needed.

        A run that is not finished gives the table of the sources that are evaluated,
        with the note `n_planned`.
        """
        store = self.trainings
        self._check_whole()
        if not store.evaluated.any() and not store.failures:
            raise RunStoreError(
                f"{self.origin} is not finished: no source is evaluated yet. Go on "
                f"with: {self.resume_command}"
            )
        reference = store.top(), "best of the table so far"
        if store.reference is not None:
            reference = store.reference.values, store.reference.kind
        try:
            table = store.table(
                store.header.layout.variables,
                self.sources,
                self.experiment.target_space,
                reference,
                self.notes,
                target_rows=store.header.target_rows,
            )
        except FORGED as error:
            raise store.damaged(f"its parts do not fit ({error})") from error
        if self.is_selection:
            table.attrs.pop("n_planned", None)
        return table

    def _check_whole(self) -> None:
        """Refuse to answer from what is left of a damaged run."""
        if damage := self._damage():
            raise self.trainings.damaged(damage[0])

    def _damage(self) -> list[str]:
        """Return what is missing of what was there once, a clause each."""
        store, is_done = self.trainings, (self.path / RESULTS).is_file()
        found = list(store.damage)
        if store.reference is None and (is_done or store.header.layout.is_computed):
            found.append("its manifest has no reference of regret")
        if self.log is not None:
            done = {number for step in self.log.steps for number in step.done}
            found += store.lost(done)
        elif store.reference is not None:
            found += store.unfinished()
        return found

    def results(self) -> Results | None:
        """Return what was found in this table, None where nothing is stored."""
        file = self.path / RESULTS
        if not file.is_file():
            return None
        results = Results.load(file)
        if results.table != self.trainings.key:
            raise DamagedFileError(f"{file} is about another table than this run's.")
        return results

    def save_results(self, results: Results) -> Results:
        """Write what was found in this table.

        Args:
            results: the answers.

        Returns:
            The same, with the key of the table.
        """
        results = replace(results, table=self.trainings.key)
        results.save(self.path / RESULTS)
        return results

    def study(self) -> Study:
        """Return the study of the run; its parts are read when they are used."""

        def system() -> System:
            built = self.experiment.built_system
            check_plant(self)
            return built

        return Study(
            StudyParts(
                origin=str(self.origin),
                table=self.table,
                system=system,
                axes=lambda: self.system.context_axes,
                solved_return=lambda: self.system.solved_return,
                policies=self.table_policies,
                targets=lambda: self.experiment.target_space,
                experiment=self.trained_experiment,
                results=self.results,
            )
        )

    def is_complete(self) -> bool:
        """Whether everything is trained and evaluated, and the reference is there."""
        store = self.trainings
        return store.reference is not None and not store.unfinished()

    def damages(self) -> list[str]:
        """Everything that is missing or not what was written; reads every file."""
        found = [*self._damage(), *self.trainings.damages()]
        if not self.is_complete():
            found += self.trainings.unfinished()
        try:
            if self.results() is None:
                found.append(f"{self.path / RESULTS} is missing")
        except DamagedFileError as error:
            found.append(str(error))
        return list(dict.fromkeys(found))

    @property
    def resume_command(self) -> str:
        """What to type to finish or mend this run."""
        command, more = "run", ""
        if self.is_selection:
            command = "select"
            if "ask" in self.notes:
                more = f" --ask {shlex.quote(self.notes['ask'])}"
        elif self.experiment.names_code:
            more = " --trust"
        folder, unzip = self.path, ""
        if self.origin.is_file():
            folder, unzip = Path("RUN"), f"unzip {self.origin} -d RUN && "
        file = folder / "experiment.toml"
        return f"{unzip}taskspace {command} {file} --out {folder}{more}"
