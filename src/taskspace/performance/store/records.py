"""What the manifest of a directory holds: one line about it, then one per chunk.

Lines are only added while work goes on. A later line about the same chunk replaces an
earlier one; a line that a kill cut short counts as not written.
"""

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import checksum
from taskspace.performance.store.base import Source
from taskspace.performance.table import DIMS
from taskspace.performance.work import Stage
from taskspace.spaces import Space, space_from_dict
from taskspace.systems.base import ContextAxis

FORMAT_VERSION = 4

Number = float | Literal["inf", "-inf", "nan"]
"""JSON has no infinities: they are text."""


class Layout(msgspec.Struct, frozen=True):
    """How the work is cut into blocks of rows, and what of it is stored.

    Args:
        n_policies: members of a family.
        n_targets: number of targets.
        n_episodes: episodes per target, 0 for a system that is not simulated.
        train_rows: sources trained in one block.
        table_rows: sources evaluated in one block.
        variables: variables of the table that are written by blocks.
        is_computed: the table is computed from the policies as it is read.
    """

    n_policies: int
    n_targets: int
    n_episodes: int
    train_rows: int
    table_rows: int
    variables: tuple[str, ...]
    is_computed: bool = False

    def rows(self, stage: Stage) -> int:
        """Return how many sources a block has.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        return self.train_rows if stage == "train" else self.table_rows

    def sizes(self, n_sources: int) -> dict[str, int]:
        """Return the length of each dim.

        Args:
            n_sources: number of sources.
        """
        return {
            "source": n_sources,
            "policy": self.n_policies,
            "target": self.n_targets,
            "episode": self.n_episodes,
        }

    def shape(self, variable: str, n_sources: int) -> tuple[int, ...]:
        """Return the shape of a variable.

        Args:
            variable: its name.
            n_sources: number of sources.
        """
        sizes = self.sizes(n_sources)
        return tuple(sizes[dim] for dim in DIMS[variable])

    def chunk(self, variable: str) -> tuple[int, ...]:
        """Return the shape of one chunk of a variable.

        Args:
            variable: its name.
        """
        return self.shape(variable, self.table_rows)

    def serves(self, wanted: "Layout") -> bool:
        """Return whether a table that is cut so holds all that another one would.

        Args:
            wanted: the layout of a new run.
        """
        return (
            self.sizes(0) == wanted.sizes(0)
            and self.is_computed == wanted.is_computed
            and set(self.variables) >= set(wanted.variables)
        )


class SystemFacts(msgspec.Struct, frozen=True):
    """What reading must know of a system, so that it needs no code.

    Args:
        id: name of the system.
        axes: fields of its context axes, with their `label`.
        solved_return: J from which a task counts as solved, if that is agreed.
    """

    id: str = ""
    axes: tuple[dict[str, str | float | bool], ...] = ()
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


class Header(msgspec.Struct, frozen=True, tag_field="line", tag="header"):
    """What a directory says of itself.

    Args:
        data: what its trainings and its table depend on.
        layout: how the work is cut.
        notes: attributes of the table.
        system: what reading must know of the system.
        modules: folders of the user's modules, seen from the run.
        experiment: checksum of `experiment.toml`.
        code: stands for the user's code that it was made with.
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
    version: int = FORMAT_VERSION
    taskspace: str = ""

    @property
    def how(self) -> str:
        """What stands for the system and the trainer in keys of the store."""
        made = {key: self.data.get(key) for key in ("system", "trainer")}
        return checksum(msgspec.json.encode(made, order="deterministic"))

    @property
    def target_rows(self) -> NDArray[np.float64]:
        """Full context rows of the targets."""
        return self.system.contexts(space_from_dict(self.data["targets"]))


class FileFacts(msgspec.Struct, frozen=True):
    """Size and checksum of a file.

    Args:
        bytes: its size.
        crc32: its checksum.
    """

    bytes: int
    crc32: str


class Chunk(
    msgspec.Struct, frozen=True, tag_field="line", tag="chunk", omit_defaults=True
):
    """A block of sources that is trained, or evaluated.

    Args:
        stage: `"train"` or `"evaluate"`.
        block: number of the block.
        files: facts of its files, by variable; `policies` of a training.
        sources: what was trained, in the order of the file.
        of: for an evaluation, stands for the sources planned in this block.
        places: for an evaluation, which of them it has, where not all.
        top: for an evaluation, the best J at each target, where its variables do not
            say it.
    """

    stage: Stage
    block: int
    files: dict[str, FileFacts]
    sources: tuple[Source, ...] = ()
    of: str = ""
    places: tuple[int, ...] | None = None
    top: tuple[Number, ...] | None = None


class Failure(msgspec.Struct, frozen=True, tag_field="line", tag="failure"):
    """A training that failed.

    Args:
        source: what was trained.
        reason: why it failed.
    """

    source: Source
    reason: str


class Reference(msgspec.Struct, frozen=True, tag_field="line", tag="reference"):
    """The reference of regret; it makes the table complete.

    Args:
        kind: where it comes from; empty if what was written before holds no more.
        best_known: at each target.
    """

    kind: str
    best_known: tuple[Number, ...]

    @property
    def values(self) -> NDArray[np.float64]:
        """The reference as numbers."""
        return np.array([float(value) for value in self.best_known])


Record = Header | Chunk | Failure | Reference
