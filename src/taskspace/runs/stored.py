"""What a run directory holds, as its manifest says; nothing of the user's is needed."""

import os
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from taskspace._util.files import checksum, plain, read_sealed
from taskspace.errors import RunStoreError
from taskspace.performance.store import MANIFEST
from taskspace.performance.store.base import TRAINED, Source
from taskspace.performance.store.disk import DiskStore, read_manifest
from taskspace.performance.store.records import (
    FORMAT_VERSION,
    Chunk,
    Failure,
    Header,
    Layout,
    Record,
    Reference,
    SystemFacts,
)
from taskspace.performance.table import table_notes
from taskspace.performance.work import Task
from taskspace.questions import Question
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.objects import Code
from taskspace.runs.opening import FORMER, TRAININGS
from taskspace.runs.specs import rename_former_keys
from taskspace.selection.log import LOG, Line, Log
from taskspace.spaces import Points, Space, space_from_dict
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
        """Return what there is, in the format of today or of before.

        Args:
            path: the run directory.
            folder: the directory of the store; as usual if left out.
        """
        if folder is None:
            # Killed while it was set aside, a run has an earlier store alone.
            folders = [path / TRAININGS, *sorted(path.glob("earlier-*"), reverse=True)]
            whole = [each for each in folders if (each / MANIFEST).is_file()]
            if not whole:
                return cls._former(path) if (path / FORMER).is_file() else None
            folder = whole[0]
        records, damage = read_manifest(folder)
        first = records.pop(0) if records else None
        if not isinstance(first, Header):
            return None
        if first.version != FORMAT_VERSION:
            raise RunStoreError(
                f"{path} has run format {first.version}, this taskspace reads "
                f"{FORMAT_VERSION}. Use the taskspace that wrote it."
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

    @classmethod
    def _former(cls, path: Path) -> "Stored":
        header, selection = _read_former(path)
        text = (path / "experiment.toml").read_text(encoding="utf-8")
        space = Experiment.from_toml(text, code=Code(trusted=False)).sources
        sources = _former_sources(header, space, selection)
        records = _former_records(path, header, sources)
        log = None if selection is None else Log(path / LOG, _former_log(selection))
        return cls(path, path, header, records, [], sources, log)

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
        notes["epsilon"] = question.epsilon
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


# --- format 2 -------------------------------------------------------------------------
#
# Policies and chunks are those of today. What differs is the manifest: one JSON file,
# one record per block in `blocks/`, `best_known.json`, and for a selection
# `selection.json` with everything in it.

Values = dict[str, Any]


def _read_former(path: Path) -> tuple[Header, Values | None]:
    """Return what a run of format 2 says of itself, and the record of a selection.

    Args:
        path: the run directory.
    """
    manifest, file = read_sealed(path / FORMER, Values), path / "selection.json"
    if manifest["version"] != 2:
        raise RunStoreError(
            f"{path} has run format {manifest['version']}, this taskspace reads 2 and "
            "3. Use the taskspace that wrote it, or run the experiment into another "
            "directory."
        )
    selection = read_sealed(file, Values) if file.is_file() else None
    if selection is not None:
        manifest["data"] = rename_former_keys(selection["asked"])
    return msgspec.convert(manifest | {"line": "header"}, Header), selection


def _former_sources(
    header: Header, space: Space, selection: Values | None
) -> list[Source]:
    """Return the sources of a run of format 2, in the order of its table.

    Args:
        header: what it says of itself.
        space: contexts of its sources.
        selection: the record of a selection.
    """
    rows, how = header.system.contexts(space), header.how
    if selection is None:
        return Source.at(rows, header.data["seed"], how=how)
    done = [each for each in selection["sources"] if each.get("place") is not None]
    done.sort(key=lambda each: each["place"])
    return [
        Source.at(row[None], each["seed"], each["kind"], how)[0]
        for row, each in zip(rows, done, strict=True)
    ]


def _former_records(path: Path, header: Header, sources: list[Source]) -> list[Record]:
    """Return what a run of format 2 holds.

    Args:
        path: the run directory.
        header: what it says of itself.
        sources: its sources, in order.
    """
    records: list[Any] = []
    failed: dict[Source, str] = {}
    # Trainings first: an evaluation leaves out what failed.
    for file in sorted((path / "blocks").glob("*-*.json"), reverse=True):
        stage, number = ("train" if file.name[:2] == "tr" else "evaluate"), file.stem
        block, step = int(number.partition("-")[2]), header.layout.rows(stage)
        stretch = sources[block * step : (block + 1) * step]
        values = read_sealed(file, Values)
        for place, why in values.pop("failures", {}).items():
            failed[stretch[int(place)]] = why
        names = {name: name.split("/")[1] for name in values["files"]}
        if stage == "train":
            names = dict.fromkeys(names, "policies")
            # The file has blanks for what failed, which no reader asks for.
            blanks = [(s, "blank" if s in failed else s.kind) for s in stretch]
            values["sources"] = [msgspec.structs.replace(s, kind=k) for s, k in blanks]
        else:
            values["of"] = checksum(msgspec.json.encode(stretch))
            values["places"] = [k for k, s in enumerate(stretch) if s not in failed]
        values["files"] = {names[name]: f for name, f in values["files"].items()}
        if values["files"]:
            values |= {"line": "chunk", "stage": stage, "block": block}
            records.append(msgspec.convert(msgspec.to_builtins(values), Chunk))
    records += [Failure(source, why) for source, why in failed.items()]
    if (path / "best_known.json").is_file():
        known = read_sealed(path / "best_known.json", Values) | {"line": "reference"}
        records.append(msgspec.convert(known, Reference))
    return records


def _former_log(selection: Values) -> list[Line]:
    """Return the log of a selection of format 2.

    Args:
        selection: its record.
    """
    sources, history = selection["sources"], selection["history"]
    ended = [k for k, each in enumerate(sources) if {"place", "failure"} & set(each)]
    last = {"done": ended, "hours": selection["hours"]}
    proposals = [each | {"line": "proposal"} for each in sources]
    steps = [each | {"line": "step"} for each in history]
    steps[-1:] = [each | last for each in steps[-1:]]
    return msgspec.convert([*proposals, *steps], list[Line])
