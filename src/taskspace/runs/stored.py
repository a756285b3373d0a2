"""What a run directory holds, as its manifest says; nothing of the user's is needed."""

import os
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from taskspace._util.files import checksum, plain
from taskspace.errors import RunStoreError
from taskspace.performance.store import MANIFEST
from taskspace.performance.store.base import TRAINED, Source
from taskspace.performance.store.disk import DiskStore, read_manifest
from taskspace.performance.store.records import (
    FORMAT_VERSION,
    Header,
    Layout,
    Record,
    SystemFacts,
)
from taskspace.performance.table import table_notes
from taskspace.performance.work import Task
from taskspace.questions import Question
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.opening import TRAININGS
from taskspace.selection.log import LOG, Log
from taskspace.spaces import Points, space_from_dict
from taskspace.systems import SYSTEMS

# A block of the table holds about this many cells of each variable (20 MB), plays about
# this many episodes of a simulated system (a minute or less), or calls a function of
# the user's so often.
BLOCK_CELLS = 2_500_000
BLOCK_EPISODES = 160_000
BLOCK_CALLS = 1_000
# The table of a built-in exact system is computed when read if it has more cells.
STORED_CELLS = 8_000_000


@dataclass(frozen=True)
class Stored:
    """What a directory holds, as its manifest says.

    Args:
        path: the run directory.
        folder: the directory of the store.
        header: what it says of itself.
        records: all other lines of the manifest.
        damage: what is wrong with the manifest, a clause each.
        sources: the sources that it was planned for.
        log: of a selection, what was proposed.
    """

    path: Path
    folder: Path
    header: Header
    records: list[Record]
    damage: list[str]
    sources: list[Source]
    log: Log | None

    @classmethod
    def read(cls, path: Path, folder: Path | None = None) -> "Stored | None":
        """Return what there is, None where no manifest says it.

        Args:
            path: the run directory.
            folder: the directory of the store; as usual if left out.
        """
        if folder is None:
            # Killed while it was set aside, a run has an earlier store alone.
            folders = [path / TRAININGS, *sorted(path.glob("earlier-*"), reverse=True)]
            whole = [each for each in folders if (each / MANIFEST).is_file()]
            if not whole:
                return None
            folder = whole[0]
        records, damage = read_manifest(folder)
        first = records.pop(0) if records else None
        if not isinstance(first, Header):
            return None
        if first.version != FORMAT_VERSION:
            raise RunStoreError(
                f"{path} has run format {first.version}, this taskspace reads "
                f"{FORMAT_VERSION}. Run its experiment again into another directory."
            )
        if "select" not in first.data:
            rows = first.system.contexts(space_from_dict(first.data["space"]))
            sources = Source.at(rows, first.data["seed"], TRAINED, first.how)
            return cls(path, folder, first, records, damage, sources, None)
        log, wrong = Log.read(path / LOG)
        names = space_from_dict(first.data["targets"]).names
        targets, sources = first.target_rows, []
        for line in log.proposals:
            rows = first.system.contexts(Points(names, [line.context]))
            sources.append(line.key(rows[0], targets, first.how))
        held = {s for r in records for s in getattr(r, "sources", ())}
        if held - set(sources):
            wrong.append(f"{path / LOG} is cut short")
        return cls(path, folder, first, records, [*damage, *wrong], sources, log)

    def store(self) -> DiskStore:
        """Return the store, planned for its own sources."""
        store = DiskStore(self.folder, self.header, self.records, self.damage)
        store.plan(self.sources)
        return store


def new_header(
    path: Path, experiment: Experiment, question: Question | None, layout: Layout
) -> Header:
    """Return what the directory of a run says of itself.

    Args:
        path: the run directory.
        experiment: what is run, resolved.
        question: of a selection, what shall be covered.
        layout: how the work is cut.
    """
    task = experiment.task(layout.variables)
    system = task.system
    notes = table_notes(system, **task.made_by)
    values = experiment.to_dict()
    data = {key: values.get(key) for key in DATA_KEYS}
    if question is not None:
        assert experiment.select is not None
        how = dict(values["select"])
        for name in ("budget", "environment_steps", "hours"):
            how.pop(name, None)  # what may be spent can be raised later
        data |= {"question": question.to_dict(), "select": how}
        notes["selector"] = experiment.select.selector
        notes["asked"] = question.statement
        notes["ask"] = str(question)
    axes = [asdict(axis) | {"label": axis.label} for axis in system.axes]
    folders = experiment.code.folders if experiment.names_code else ()
    return Header(
        data=plain(data, nonfinite="text"),
        layout=layout,
        notes=plain(notes, nonfinite="text"),
        system=SystemFacts(
            system.id,
            tuple(plain(axes, nonfinite="text")),
            system.solved_return,
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
    return Layout(
        n_policies=trainer.n_policies,
        n_targets=n_targets,
        n_episodes=system.n_episodes,
        train_rows=min(trainer.sources_per_block, n_sources),
        table_rows=min(max(1, cells // per_source), n_sources),
        variables=variables,
        is_computed=is_computed,
    )


def selection_layout(task: Task) -> Layout:
    """Return the layout of a selection: one source per block, in the order of proposal.

    Args:
        task: what is trained and where it is tried.
    """
    return Layout(
        n_policies=task.trainer.n_policies,
        n_targets=len(task.targets),
        n_episodes=task.system.n_episodes,
        train_rows=1,
        table_rows=1,
        variables=task.keep,
    )
