"""A run: a folder that a person can read.

```
experiment.toml   what is asked, with every default written out; re-runs it exactly
run.json          what reading must know of the system, so that it needs no code
trainings/        blocks: policies of some sources, and their rows of the table
selection.jsonl   of a selection: every proposal with its reason, and every step
results.json      covers, curves and costs, with a hash of the table they are about
figures/          pictures, and the numbers behind them as JSON
```

A block is there whole or not at all. Its name has a key of what its numbers depend on:
system and trainer with all settings, seed, contexts and targets. What the experiment
asks for, minus what is stored, is what is computed. So resuming, mending, adding
contexts and going on with a selection are one thing.

The table of a built-in exact system that would be large is not stored but computed
from the policies as it is read, which is faster.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.files import (
    checksum,
    clean_leftovers,
    no_links_out,
    plain,
    read_sealed,
    write_atomically,
    write_sealed,
)
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.blocks import BlockFolder, Layout, StoredBlock
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study, StudyParts
from taskspace.performance.table import table_notes
from taskspace.performance.trainings import Trainings
from taskspace.performance.work import Task
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.objects import Code
from taskspace.runs.opening import (
    EXPERIMENT,
    RUN,
    TRAININGS,
    is_run,
    refuse_former,
    run_folder,
)
from taskspace.runs.recheck import check_plant, check_trainer
from taskspace.runs.results import Results
from taskspace.selection.log import LOG, Log
from taskspace.spaces import Points, Space, space_from_dict
from taskspace.systems import SYSTEMS
from taskspace.systems.base import ContextAxis, System

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None

RESULTS = "results.json"
FORMAT_VERSION = 5
OUR_NAMES = {EXPERIMENT, RUN, TRAININGS, RESULTS, LOG, "figures", ".lock"}
OUR_NAMES |= {"explore.html"}

# A block holds about this many cells of each variable (20 MB), plays about this many
# episodes of a simulated system (a minute or less), or calls a function of the user's
# so often.
BLOCK_CELLS = 2_500_000
BLOCK_EPISODES = 160_000
BLOCK_CALLS = 1_000
# The table of a built-in exact system is computed when read if it has more cells.
STORED_CELLS = 8_000_000

SAME = 1e-12
"""Contexts that differ by this share of an axis' range are one, rounded otherwise."""

FORGED = (LookupError, AttributeError, TypeError, ValueError)
"""What a file raises whose checksum fits and whose content does not."""

Number = float | Literal["inf", "-inf", "nan"]
"""JSON has no infinities: they are text."""


class SystemFacts(msgspec.Struct, frozen=True):
    """What reading must know of a system, so that it needs no code.

    Args:
        id: name of the system.
        axes: fields of its context axes, with their `label`.
        solved_return: J from which a task counts as solved, if that is agreed.
    """

    id: str
    axes: tuple[dict[str, str | float | bool], ...]
    solved_return: float | None = None

    def contexts(self, space: Space) -> NDArray[np.float64]:
        """Return full context rows, as `System.contexts` gives them, without code.

        Args:
            space: contexts.
        """
        columns = [
            space.points[:, space.names.index(axis["name"])]
            if axis["name"] in space.names
            else np.full(space.size, float(axis["default"]))
            for axis in self.axes
        ]
        return np.stack(columns, axis=1)

    @property
    def context_axes(self) -> tuple[ContextAxis, ...]:
        """The axes themselves; `label` follows from the other fields."""
        numbers = ("default", "low", "high")  # JSON has infinite numbers as text
        axes = []
        for each in self.axes:
            fields: dict[str, Any] = {n: float(each[n]) for n in numbers if n in each}
            fields = {k: v for k, v in (each | fields).items() if k != "label"}
            axes.append(ContextAxis(**fields))
        return tuple(axes)


class Reference(msgspec.Struct, frozen=True):
    """The reference of regret; it is written when the table is complete.

    Args:
        kind: where it comes from.
        best_known: at each target.
        n_lines: of a selection, the lines of its log when this was written.
    """

    kind: str
    best_known: tuple[Number, ...]
    n_lines: int = 0


class Info(msgspec.Struct, frozen=True):
    """What a run says of itself, in `run.json`.

    Args:
        data: what its blocks depend on: system, trainer, seed, contexts and targets.
        layout: how the table is cut into blocks.
        notes: attributes of the table.
        system: what reading must know of the system.
        modules: folders of the user's modules, seen from the run.
        experiment: checksum of `experiment.toml`.
        code: a hash of the user's code that it was made with.
        reference: the reference of regret, once the table is complete.
        version: version of the format.
        taskspace: version of taskspace.
    """

    data: dict[str, Any]
    layout: Layout
    notes: dict[str, Any]
    system: SystemFacts
    modules: tuple[str, ...] = ()
    experiment: str = ""
    code: str = ""
    reference: Reference | None = None
    version: int = FORMAT_VERSION
    taskspace: str = ""

    @classmethod
    def read(cls, path: Path) -> "Info":
        """Return what a run says of itself.

        Args:
            path: the run directory.
        """
        values = read_sealed(path / RUN, dict[str, Any])
        if values.get("version") != FORMAT_VERSION:
            raise RunStoreError(
                f"{path} has run format {values.get('version')}, this taskspace reads "
                f"{FORMAT_VERSION}. Run its experiment again into another directory."
            )
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise DamagedFileError(f"{path / RUN} is damaged: {error}.") from error

    @property
    def targets(self) -> Space:
        """The targets."""
        return space_from_dict(self.data["targets"])

    @property
    def made_by(self) -> str:
        """What stands for system, trainer and seed in the keys of blocks."""
        made = {key: self.data.get(key) for key in ("system", "trainer", "seed")}
        return sha256(msgspec.json.encode(made, order="deterministic")).hexdigest()


class RunFolder:
    """The folder of one run; see `create` and `open`.

    Args:
        path: the run directory.
        experiment: what it holds, resolved.
        info: what it says of itself.
        log: of a selection, what was proposed.
        damage: what is wrong, a clause each; `mended` is what `create` removed.
        origin: what a user calls it; a zip file, or the directory.
    """

    def __init__(
        self,
        path: Path,
        experiment: Experiment,
        info: Info,
        log: Log | None = None,
        damage: tuple[str, ...] = (),
        *,
        origin: Path | None = None,
    ):
        self.path, self.experiment, self.info = path, experiment, info
        self.origin = origin or path
        self.log, self.damage, self.mended = log, damage, ()
        rows = info.system.contexts(info.targets)
        self.blocks = BlockFolder(path / TRAININGS, info.layout, info.made_by, rows)

    # --- making and opening -------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path,
        experiment: Experiment,
        *,
        question: Question | None = None,
        layout: Layout | None = None,
    ) -> "RunFolder":
        """Open the run of an experiment: a new directory, or the one that is there.

        Whatever was asked of its table before, blocks that are there are kept, and
        damaged ones removed. A directory of another experiment is refused, unless this
        one only adds contexts.

        Args:
            path: the directory.
            experiment: what to run.
            question: of a selection, what shall be covered.
            layout: how the table is cut, where the experiment does not say it.
        """
        path, experiment = Path(path), experiment.resolved()
        check_ours(path)
        layout = layout or layout_of(experiment)
        info = new_info(path, experiment, question, layout)
        damage, log = [], None
        try:
            there = Info.read(path)
        except DamagedFileError as error:
            there = None
            if (path / RUN).exists():
                damage.append(str(error).rstrip("."))
            _check_beside(path, experiment, info)
        if question is not None:
            log, wrong = Log.read(path / LOG)
            damage += wrong if (path / LOG).exists() else []
        if there is not None:
            same = there.data == info.data
            if not same:
                _check_added(path, there, experiment, info)
            targets = there.data["targets"]
            before = cls(path, replace(experiment, targets=targets), there, log)
            check_plant(before)
            if there.code != info.code:
                check_trainer(before)
            if same and there.layout.serves(layout):
                info = msgspec.structs.replace(
                    info, layout=there.layout, reference=there.reference
                )
        (path / TRAININGS).mkdir(parents=True, exist_ok=True)
        clean_leftovers(path)
        run = cls(path, experiment, info, log)
        for name in sorted(run.blocks.names):
            if what := run._damaged(name):
                damage.append(what)
                run.blocks.remove([name])
        if log is not None:
            log.rewrite()
        run.mended = tuple(damage)
        if damage:
            run.info = msgspec.structs.replace(info, reference=None)
        run.save_info()
        write_atomically(path / EXPERIMENT, experiment.to_toml())
        return run

    def save_info(self) -> None:
        """Write `run.json`, unless it is there already."""
        file = self.path / RUN
        try:
            if read_sealed(file, Info) == self.info:
                return
        except DamagedFileError:
            pass
        write_sealed(file, self.info)

    def _damaged(self, name: str) -> str:
        """Return what is wrong with the file of a block, `""` if nothing is."""
        file = self.path / TRAININGS / name
        try:
            return StoredBlock(file, self.info.layout).damage()
        except DamagedFileError as error:
            return str(error)

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False) -> "RunFolder":
        """Open a run that is there; no code that it names is imported.

        Args:
            path: the directory, or a zip file of it.
            trust: code that it names may be imported later, where it is needed.
        """
        origin = Path(path)
        refuse_former(origin)
        if not is_run(origin):
            raise RunStoreError(
                f"{path} is not a run directory: it has no {EXPERIMENT} and {RUN}. "
                "Make one with: taskspace run msd"
            )
        path = run_folder(origin)
        home = origin.with_suffix("") if origin.is_file() else origin
        try:
            info, log, wrong = Info.read(path), None, []
            folders = tuple(home / folder for folder in info.modules)
            text = (path / EXPERIMENT).read_text(encoding="utf-8")
            if checksum(text.encode()) != info.experiment:
                raise DamagedFileError(f"{path / EXPERIMENT} is not what was written")
            experiment = Experiment.from_toml(
                text,
                origin=str(path / EXPERIMENT),
                code=Code(trust, (home, home.parent, *folders)),
            )
            if "select" in info.data:
                log, wrong = Log.read(path / LOG)
            run = cls(path, experiment, info, log, tuple(wrong), origin=origin)
            _ = run.trainings
            return run
        except (TaskspaceError, *FORGED, OSError) as error:
            if isinstance(error, RunStoreError):
                raise
            raise RunStoreError(
                f"{origin} is damaged: it cannot be read "
                f"({error}). Mend it with: taskspace run EXPERIMENT --out {home}"
            ) from error

    # --- what is there ------------------------------------------------------------

    @cached_property
    def trainings(self) -> Trainings:
        """What is planned, and what of it is in the folder."""
        found = Trainings(self.info.targets, computed=self._computed())
        if self.log is None:
            sources = space_from_dict(self.info.data["space"])
            found.plan(sources, seed=self.info.data["seed"])
            return self._entered(found)
        for number, line in enumerate(self.log.proposals):
            line.plan(found)
            prefix = self.blocks.prefix(number, line.key)
            self._enter(found, prefix, np.array([number]))
        return found

    def _computed(self) -> Task | None:
        """Return what computes rows as they are read, None where they are stored."""
        layout = self.info.layout
        return self.experiment.task(layout.variables) if layout.is_computed else None

    def _entered(self, trainings: Trainings) -> Trainings:
        """Count the blocks of planned sources that are in the folder."""
        rows = self.info.system.contexts(trainings.sources)
        for prefix, numbers in self.blocks.asked(rows):
            self._enter(trainings, prefix, numbers)
        return trainings

    def _enter(
        self, trainings: Trainings, prefix: str, numbers: NDArray[np.int64]
    ) -> None:
        try:
            if (block := self.blocks.find(prefix)) is not None:
                if block.facts.n != len(numbers):
                    raise DamagedFileError(f"{block.path.name} has other sources")
                trainings.enter(numbers, block)
        except DamagedFileError as error:
            self.damage += (str(error),)

    def ledger(self) -> Ledger:
        """Return the ledger that this folder keeps; needs the system itself."""
        ledger = Ledger(
            self.experiment.task(self.info.layout.stored),
            self.experiment.sources,
            self.experiment.target_space,
            folder=self.blocks,
            computed=self._computed(),
        )
        self.trainings = self._entered(ledger)
        self.damage = ()  # what is damaged is computed again
        return ledger

    @property
    def is_selection(self) -> bool:
        """Whether the sources were chosen one after the other."""
        return self.log is not None

    def trained_experiment(self) -> Experiment:
        """Return the experiment whose sources are those of the table."""
        numbers = np.flatnonzero(self.trainings.evaluated)
        if self.log is None and len(numbers) == self.trainings.n_sources:
            return self.experiment
        sources = self.trainings.sources
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
        numbers = np.flatnonzero(self.trainings.evaluated)
        try:
            return self.trainings.policies(numbers).trained.policies
        except DamagedFileError as error:
            raise self._sentence(str(error)) from error

    def table(self) -> xr.Dataset:
        """Return the performance table; large variables are read as they are needed.

        A run that is not finished gives the table of the sources that are evaluated,
        with the note `n_planned`.
        """
        self._check_whole()
        found, stored = self.trainings, self.info.reference
        if not found.evaluated.any() and not found.failures:
            raise RunStoreError(
                f"{self.origin} is not finished: no source is evaluated yet. Go on "
                f"with: {self.resume_command}"
            )
        try:
            if stored is None:
                reference = found.top(), "best of the table so far"
            else:
                best = np.array([float(value) for value in stored.best_known])
                reference = best, stored.kind
            table = found.table_of(
                self.info.layout.variables, reference, self.info.notes
            )
        except (DamagedFileError, *FORGED) as error:
            raise self._sentence(f"its parts do not fit ({error})") from error
        if self.is_selection:
            table.attrs.pop("n_planned", None)
        return table

    # --- what is missing or damaged -----------------------------------------------

    def _sentence(self, what: str) -> RunStoreError:
        return RunStoreError(
            f"{self.origin} is damaged: {what}. Mend it with: {self.resume_command}"
        )

    def _check_whole(self) -> None:
        """Refuse to answer from what is left of a damaged run."""
        if damage := self._damage():
            raise self._sentence(damage[0])

    def _damage(self) -> list[str]:
        """Return what is missing of what was there once, a clause each."""
        info, found, lost = self.info, self.trainings, list(self.damage)
        if info.reference is None:
            if (self.path / RESULTS).is_file() or info.layout.is_computed:
                lost.append(f"{RUN} has no reference of regret: it is not complete")
            return lost
        wanted = np.arange(found.n_sources)
        if self.log is not None:
            if len(self.log.lines) < info.reference.n_lines:
                lost.append(f"{self.path / LOG} is cut short")
            wanted = np.array(sorted(n for s in self.log.steps for n in s.done), int)
        wanted = wanted[wanted < found.n_sources]
        missing = wanted[found.pending[wanted]]
        if len(missing) and not lost:
            lost.append(f"the block of source {missing[0]} is missing in {TRAININGS}")
        return lost

    def damages(self) -> list[str]:
        """Everything that is missing or not what was written; reads every file."""
        found = [*self._damage(), *map(self._damaged, sorted(self.blocks.names))]
        if not any(found) and not self.is_complete():
            found.append("not every source is trained and evaluated")
        try:
            if self.results() is None:
                found.append(f"{self.path / RESULTS} is missing")
        except DamagedFileError as error:
            found.append(str(error))
        return [what for what in dict.fromkeys(found) if what]

    def is_complete(self) -> bool:
        """Whether everything is trained and evaluated, and the reference is there."""
        return self.info.reference is not None and not self.trainings.pending.any()

    # --- what was found -----------------------------------------------------------

    def write_reference(
        self, reference: tuple[NDArray[np.float64], str] | None
    ) -> None:
        """Write the reference of regret: the table is complete; None takes it back.

        Args:
            reference: best known J at each target, and where it comes from.
        """
        found = None
        if reference is not None:
            values = tuple(plain(reference[0], nonfinite="text"))
            lines = 0 if self.log is None else len(self.log.lines)
            found = Reference(reference[1], values, lines)
        self.info = msgspec.structs.replace(self.info, reference=found)
        self.save_info()

    def key(self, files: set[str]) -> str:
        """Return a hash of the table: of what is asked, of all numbers, of regret's.

        Args:
            files: names of the blocks; each holds a checksum of its content.
        """
        reference = self.info.reference
        best = None if reference is None else (reference.kind, reference.best_known)
        parts = [self.info.data, sorted(files), best]
        return sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()

    def results(self) -> Results | None:
        """Return what was found in this table, None where nothing is stored."""
        file = self.path / RESULTS
        if not file.is_file():
            return None
        results = Results.load(file)
        if results.table != self.key(self.trainings.files()):
            raise DamagedFileError(f"{file} is about another table than this run's.")
        return results

    def finish(self, results: Results, files: set[str]) -> Results:
        """Write what was found in this table, and remove blocks that it has not.

        Args:
            results: the answers.
            files: names of the blocks of the table.

        Returns:
            The same, with the hash of the table.
        """
        results = replace(results, table=self.key(files))
        results.save(self.path / RESULTS)
        self.blocks.remove(self.blocks.names - files)
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
                axes=lambda: self.info.system.context_axes,
                policies=self.table_policies,
                targets=lambda: self.experiment.target_space,
                experiment=self.trained_experiment,
                results=self.results,
            )
        )

    @property
    def resume_command(self) -> str:
        """What to type to finish or mend this run."""
        command, more = "run", ""
        if self.is_selection:
            command = "select"
            if "ask" in self.info.notes:
                more = f" --ask {shlex.quote(self.info.notes['ask'])}"
        elif self.experiment.names_code:
            more = " --trust"
        folder, unzip = self.path, ""
        if self.origin.is_file():
            folder, unzip = Path("RUN"), f"unzip {self.origin} -d RUN && "
        return f"{unzip}taskspace {command} {folder / EXPERIMENT} --out {folder}{more}"


# --- what a new run says of itself ---------------------------------------------------


def new_info(
    path: Path, experiment: Experiment, question: Question | None, layout: Layout
) -> Info:
    """Return what the directory of a run says of itself.

    Args:
        path: the run directory.
        experiment: what is run, resolved.
        question: of a selection, what shall be covered.
        layout: how the table is cut.
    """
    task = experiment.task(layout.variables)
    system = task.system
    notes = table_notes(system, **task.made_by)
    values = experiment.to_dict()
    data = {key: values.get(key) for key in DATA_KEYS}
    if question is not None:
        assert experiment.select is not None
        how = dict(values["select"])
        for name in ("budget", "environment_steps"):
            how.pop(name, None)  # what may be spent can be raised later
        data |= {"question": question.to_dict(), "select": how}
        notes["selector"] = experiment.select.selector
        notes["asked"] = question.statement
        notes["ask"] = str(question)
    axes = [asdict(axis) | {"label": axis.label} for axis in system.axes]
    folders = experiment.code.folders if experiment.names_code else ()
    return Info(
        data=plain(data, nonfinite="text"),
        layout=layout,
        notes=plain(notes, nonfinite="text"),
        system=SystemFacts(
            system.id, tuple(plain(axes, nonfinite="text")), system.solved_return
        ),
        # Where the user's modules are, seen from here.
        modules=tuple(os.path.relpath(folder, path) for folder in folders),
        experiment=checksum(experiment.to_toml().encode()),
        code=experiment.code_key,
        taskspace=version("taskspace"),
    )


def layout_of(experiment: Experiment) -> Layout:
    """Return the layout of a new run.

    Args:
        experiment: what will be run.
    """
    system, trainer = experiment.built_system, experiment.built_trainer
    n_sources, n_targets = experiment.sources.size, experiment.target_space.size
    task = experiment.task()
    task = task.keeping(n_sources, experiment.judges, experiment.measures)
    variables = task.keep
    cells, per_source = BLOCK_CELLS, n_targets
    if "performance" in variables:
        per_source *= trainer.n_policies
    if system.n_episodes:
        variables = system.measures
        cells, per_source = BLOCK_EPISODES, per_source * system.n_episodes
    elif system.provenance != "exact":
        cells = BLOCK_CALLS
    n_cells = (
        n_sources
        * n_targets
        * (trainer.n_policies if "performance" in variables else len(variables))
    )
    is_computed = (
        system.provenance == "exact"
        and system.id in SYSTEMS
        and not experiment.names_code
        and n_cells > STORED_CELLS
    )
    if is_computed and trainer.n_policies == 1:
        variables = ("performance", *experiment.measures)
    rows = min(trainer.sources_per_block, n_sources)
    if not is_computed:
        rows = min(rows, max(1, cells // per_source))
    return Layout(
        n_policies=trainer.n_policies,
        n_targets=n_targets,
        n_episodes=system.n_episodes,
        rows=rows,
        variables=variables,
        is_computed=is_computed,
    )


def selection_layout(task: Task) -> Layout:
    """Return the layout of a selection: one source per block, in the order of proposal.

    Args:
        task: what is trained and where it is tried.
    """
    sizes = task.trainer.n_policies, len(task.targets), task.system.n_episodes
    return Layout(*sizes, rows=1, variables=task.keep)


# --- who may write a run into a directory --------------------------------------------


def check_ours(path: Path) -> None:
    """Refuse to write into a directory with anything else in it, or with links out.

    Args:
        path: where a run shall be written.
    """
    if path.exists() and not path.is_dir():
        raise RunStoreError(f"{path} must be a directory, but is a file.")
    if not path.is_dir():
        return
    refuse_former(path)
    for item in path.iterdir():
        if item.name not in OUR_NAMES and not item.name.startswith(".partial-"):
            raise RunStoreError(
                f"{path} is not a run directory and not empty (it holds "
                f"{item.name!r}). Nothing was changed. Choose another directory with "
                "--out."
            )
    no_links_out(path)


def _difference(there: Any, here: Any, path: str = "") -> str:
    """Return the first value in which two plain structures differ, as a clause."""
    pairs: list[tuple[Any, Any, Any]] = []
    if isinstance(there, dict) and isinstance(here, dict):
        pairs = [(key, there.get(key), here.get(key)) for key in there | here]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = list(zip(range(len(there)), there, here, strict=True))
    elif there != here:
        return f"{path.lstrip('.')} is {there!r} there and {here!r} here"
    found = (_difference(a, b, f"{path}.{key}") for key, a, b in pairs)
    return next(filter(None, found), "")


def _check_beside(path: Path, experiment: Experiment, info: Info) -> None:
    """Refuse a directory without a whole `run.json` if it is of another experiment."""
    file = path / EXPERIMENT
    try:
        text = file.read_text(encoding="utf-8")
        values = Experiment.from_toml(text, code=experiment.code).to_dict()
    except (TaskspaceError, TypeError, ValueError, OSError):
        if (path / LOG).exists():
            raise RunStoreError(
                f"{path} holds a selection, but neither {RUN} nor {file.name} "
                "says which one. Nothing was changed. Choose another directory with "
                "--out."
            ) from None
        return
    there = plain({key: values.get(key) for key in DATA_KEYS}, nonfinite="text")
    if what := _difference(there, {key: info.data[key] for key in DATA_KEYS}):
        raise RunStoreError(
            f"{path} has no whole {RUN}, and its experiment is another one: {what}. "
            "Nothing was changed. Choose another directory with --out."
        )


def _check_added(path: Path, there: Info, experiment: Experiment, info: Info) -> None:
    """Refuse a directory of another experiment; one with fewer contexts is none."""
    old, new = there.data, info.data
    what, go_on = _difference(old, new), ""
    if "select" in old:
        kind = "another selection: " + what
        if "select" not in new:
            kind, file = "a selection", path / EXPERIMENT
            go_on = f"Go on with it by: taskspace select {file} --out {path}, or "
    elif "select" in new:
        kind = "a run that is not a selection"
    else:
        if all(old[key] == new[key] for key in new if key not in ("space", "targets")):
            lost = _taken_away(old, experiment)
            if not lost:
                return
            what = f"{what}; {lost}"
        kind = f"another experiment: {what}"
        go_on = "Contexts can be added to it, but none taken away. "
    choose = "choose" if go_on.endswith("or ") else "Choose"
    raise RunStoreError(
        f"{path} holds {kind}. Nothing was changed. {go_on}{choose} another directory "
        "with --out."
    )


def _taken_away(old: dict[str, Any], experiment: Experiment) -> str:
    """Return which contexts an experiment drops, as a clause; `""` if none."""
    from scipy.spatial import KDTree

    system = experiment.built_system
    for key, what, now in (
        ("space", "sources", experiment.sources),
        ("targets", "targets", experiment.target_space),
    ):
        before, after = system.contexts(space_from_dict(old[key])), system.contexts(now)
        extent = np.ptp(np.concatenate([before, after]), axis=0)
        scale = np.where(extent > 0, extent, 1.0)
        far = KDTree(after / scale).query(before / scale, p=np.inf)[0] > SAME
        if far.any():
            return f"{int(far.sum())} of its {len(before)} {what} are not in this one"
    return ""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run directory; another process that holds it is an error.

    The operating system lets go of the lock when its holder ends, however it ends, so
    there are no stale ones.

    Args:
        path: the run directory; made if it is not there.
    """
    path.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    file = _take(path)
    try:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
    finally:
        (path / ".lock").unlink(missing_ok=True)
        file.close()


def _no_link(name: str, flags: int) -> int:
    """Open a file, but not what a link in its place points to."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)


def _take(path: Path) -> IO[str]:
    """Hold the lock file that is there, not one just removed."""
    assert fcntl is not None
    while True:
        file = open(path / ".lock", "a+", opener=_no_link)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise RunStoreError(
                f"{path} is being written by another process (number {holder}). Wait "
                "until it has ended, or choose another directory with --out."
            ) from None
        try:
            if os.stat(path / ".lock").st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except FileNotFoundError:
            pass
        file.close()
