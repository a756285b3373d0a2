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

import shlex
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.files import (
    checksum,
    clean_leftovers,
    plain,
    write_atomically,
    write_sealed,
)
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.blocks import BlockFolder, Layout, StoredBlock
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study
from taskspace.performance.work import Task
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.runs.code import Code, check_code
from taskspace.runs.experiment import Experiment
from taskspace.runs.info import Info, asked_before, check_ours, check_same, new_info
from taskspace.runs.opening import (
    EXPERIMENT,
    RUN,
    TRAININGS,
    is_run,
    run_folder,
)
from taskspace.runs.results import Results
from taskspace.selection.log import LOG, Log
from taskspace.spaces import space_from_dict
from taskspace.systems import SYSTEMS
from taskspace.systems.base import System

RESULTS = "results.json"

# A block holds about this many cells of each variable (20 MB), plays about this many
# episodes of a simulated system (a minute or less), or calls a function of the user's
# so often.
BLOCK_CELLS = 2_500_000
BLOCK_EPISODES = 160_000
BLOCK_CALLS = 1_000
# The table of a built-in exact system is computed when read if it has more cells.
STORED_CELLS = 8_000_000

FORGED = (LookupError, AttributeError, TypeError, ValueError)
"""What a file raises whose checksum fits and whose content does not."""


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
        self.targets = space_from_dict(info.data["targets"])
        rows = info.contexts(self.targets)
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
        damage, log, there = [], None, None
        if question is not None:
            log, wrong = Log.read(path / LOG)
            damage += wrong if (path / LOG).exists() else []
        try:
            there = Info.read(path)
        except DamagedFileError as error:
            if (path / RUN).exists():
                damage.append(str(error).rstrip("."))
        data = asked_before(path, experiment) if there is None else there.data
        check_same(path, data, experiment, info)
        if there is not None:
            before = cls(path, experiment, there, log)
            check_code(before, is_edited=there.code != info.code)
            if there.data == info.data and there.layout.serves(layout):
                info = msgspec.structs.replace(
                    info,
                    layout=there.layout,
                    reference=there.reference,
                    best_known=there.best_known,
                    n_lines=there.n_lines,
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
            run.info = msgspec.structs.replace(info, reference="", best_known=())
        run.save_info()
        write_atomically(path / EXPERIMENT, experiment.to_toml())
        return run

    def save_info(self) -> None:
        """Write `run.json`."""
        write_sealed(self.path / RUN, self.info)

    def _damaged(self, name: str) -> str:
        """Return what is wrong with the file of a block, `""` if nothing is."""
        try:
            return StoredBlock(self.blocks.path / name, self.info.layout).damage()
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
            code = Code(trust, (home, home.parent, *folders))
            file = str(path / EXPERIMENT)
            experiment = Experiment.from_toml(text, origin=file, code=code)
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
    def trainings(self) -> Ledger:
        """What is planned, and what of it is in the folder."""
        return self._ledger(None)

    def ledger(self) -> Ledger:
        """Return the ledger that this folder keeps; needs the system itself."""
        task = self.experiment.task(self.info.layout.stored)
        self.trainings = self._ledger(task)
        self.damage = ()  # what is damaged is computed again
        return self.trainings

    def _ledger(self, task: Task | None) -> Ledger:
        layout, computed = self.info.layout, None
        if layout.is_computed:
            computed = self.experiment.task(layout.variables)
        folder = self.blocks
        found = Ledger(task, None, self.targets, folder=folder, computed=computed)
        if self.log is None:
            sources = space_from_dict(self.info.data["space"])
            found.plan(sources, seed=self.info.data["seed"])
            asked = list(folder.asked(self.info.contexts(sources)))
        else:
            lines = self.log.proposals
            for line in lines:
                line.plan(found)
            asked = [
                (folder.prefix(number, line.key), np.array([number]))
                for number, line in enumerate(lines)
            ]
        for prefix, numbers in asked:
            try:
                if (block := folder.find(prefix)) is not None:
                    if block.facts.n != len(numbers):
                        raise DamagedFileError(f"{block.path.name} has other sources")
                    found.enter(numbers, block)
            except DamagedFileError as error:
                self.damage += (str(error),)
        return found

    @property
    def is_selection(self) -> bool:
        """Whether the sources were chosen one after the other."""
        return self.log is not None

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
        found, info = self.trainings, self.info
        if not found.evaluated.any() and not found.failures:
            raise RunStoreError(
                f"{self.origin} is not finished: no source is evaluated yet. Go on "
                f"with: {self.resume_command}"
            )
        try:
            reference = np.array([*map(float, info.best_known)]), info.reference
            if not info.reference:
                reference = found.top(), "best of the table so far"
            table = found.table_of(info.layout.variables, reference, info.notes)
        except (DamagedFileError, *FORGED) as error:
            raise self._sentence(f"its parts do not fit ({error})") from error
        if self.is_selection:
            table.attrs.pop("n_planned", None)
        return table

    def study(self) -> Study:
        """Return the study of the run; its parts are read when they are used."""

        def system() -> System:
            built = self.experiment.built_system
            check_code(self)
            return built

        parts = {
            "table": self.table,
            "system": system,
            "axes": lambda: self.info.context_axes,
            "policies": self.table_policies,
            "targets": lambda: self.experiment.target_space,
            "experiment": lambda: self.experiment,
            "results": self.results,
        }
        return Study(origin=str(self.origin), parts=parts, reading={})

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
        if not info.reference:
            if (self.path / RESULTS).is_file() or info.layout.is_computed:
                lost.append(f"{RUN} has no reference of regret: it is not complete")
            return lost
        wanted = np.arange(found.n_sources)
        if self.log is not None:
            if len(self.log.lines) < info.n_lines:
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
        return bool(self.info.reference) and not self.trainings.pending.any()

    @property
    def resume_command(self) -> str:
        """What to type to finish or mend this run."""
        command, more = "run", ""
        if self.is_selection:
            command, asked = "select", shlex.quote(self.info.notes.get("ask", ""))
            more = f" --ask {asked}"
        elif self.experiment.names_code:
            more = " --trust"
        folder, unzip = self.path, ""
        if self.origin.is_file():
            folder, unzip = Path("RUN"), f"unzip {self.origin} -d RUN && "
        return f"{unzip}taskspace {command} {folder / EXPERIMENT} --out {folder}{more}"

    # --- what was found -----------------------------------------------------------

    def write_reference(
        self, reference: tuple[NDArray[np.float64], str] | None
    ) -> None:
        """Write the reference of regret: the table is complete; None takes it back.

        Args:
            reference: best known J at each target, and where it comes from.
        """
        values, kind = ((), "") if reference is None else reference
        self.info = msgspec.structs.replace(
            self.info,
            reference=kind,
            best_known=tuple(plain(values, nonfinite="text")),
            n_lines=0 if self.log is None else len(self.log.lines),
        )
        self.save_info()

    def key(self, files: set[str]) -> str:
        """Return a hash of the table: of what is asked, of all numbers, of regret's.

        Args:
            files: names of the blocks; each holds a checksum of its content.
        """
        info = self.info
        parts = [info.data, sorted(files), info.reference, info.best_known]
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

    def finish(self, results: Results) -> Results:
        """Write what was found in this table, and remove blocks that it has not.

        Args:
            results: the answers.

        Returns:
            The same, with the hash of the table.
        """
        files = self.trainings.files()
        results = replace(results, table=self.key(files))
        results.save(self.path / RESULTS)
        self.blocks.remove(self.blocks.names - files)
        return results


def layout_of(experiment: Experiment) -> Layout:
    """Return the layout of a new run.

    Args:
        experiment: what will be run.
    """
    system, n_policies = experiment.built_system, experiment.built_trainer.n_policies
    n_sources, n_targets = experiment.sources.size, experiment.target_space.size
    judges, measures = experiment.judges, experiment.measures
    variables = experiment.task().keeping(n_sources, judges, measures).keep
    has_all = "performance" in variables
    cells, per_source = BLOCK_CELLS, n_targets * (n_policies if has_all else 1)
    if system.n_episodes:
        variables = system.measures
        cells, per_source = BLOCK_EPISODES, per_source * system.n_episodes
    elif system.provenance != "exact":
        cells = BLOCK_CALLS
    per_cell = n_policies if "performance" in variables else len(variables)
    is_computed = (
        system.provenance == "exact"
        and system.id in SYSTEMS
        and not experiment.names_code
        and n_sources * n_targets * per_cell > STORED_CELLS
    )
    rows = min(experiment.built_trainer.sources_per_block, n_sources)
    if not is_computed:
        rows = min(rows, max(1, cells // per_source))
    return Layout(
        n_policies=n_policies,
        n_targets=n_targets,
        n_episodes=system.n_episodes,
        rows=rows,
        variables=variables,
        is_computed=is_computed,
    )
