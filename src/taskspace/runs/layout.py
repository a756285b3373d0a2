"""How the work of a run is cut into blocks, and what of it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskspace.performance.ledger import Stage, kept_variables
from taskspace.performance.table import DIMS
from taskspace.runs.experiment import Experiment
from taskspace.systems import SYSTEMS

__all__ = ["Layout"]

# A block of the table holds about this many cells of each variable (20 MB), or
# plays about this many episodes of a simulated system (a minute or less).
BLOCK_CELLS = 2_500_000
BLOCK_EPISODES = 160_000
# The table of a built-in exact system is computed when read if it has more cells.
STORED_CELLS = 8_000_000


@dataclass(frozen=True)
class Layout:
    """How the work is cut: sources a block of training and of evaluation.

    Args:
        n_sources: number of sources.
        n_policies: members of a family.
        n_targets: number of targets.
        n_episodes: episodes a target, 0 for a system that is not simulated.
        train_rows: sources trained in one block.
        table_rows: sources evaluated in one block.
        variables: variables of the table that are written by blocks.
        is_computed: the table is computed from the policies as it is read.
    """

    n_sources: int
    n_policies: int
    n_targets: int
    n_episodes: int
    train_rows: int
    table_rows: int
    variables: tuple[str, ...]
    is_computed: bool = False

    @classmethod
    def of(cls, experiment: Experiment) -> "Layout":
        """The layout of a new run.

        Args:
            experiment: what will be run.
        """
        system, trainer = experiment.built_system, experiment.built_trainer
        n_sources, n_targets = experiment.sources.size, experiment.target_space.size
        variables = kept_variables(
            system,
            n_sources,
            trainer.n_policies,
            n_targets,
            experiment.judges,
            experiment.measures,
        )
        cells, per_source = BLOCK_CELLS, n_targets
        if "performance" in variables:
            per_source *= trainer.n_policies
        if system.n_episodes:
            variables = system.measures
            cells, per_source = BLOCK_EPISODES, per_source * system.n_episodes
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
        return cls(
            n_sources=n_sources,
            n_policies=trainer.n_policies,
            n_targets=n_targets,
            n_episodes=system.n_episodes,
            train_rows=min(trainer.sources_per_block, n_sources),
            table_rows=min(max(1, cells // per_source), n_sources),
            variables=variables,
            is_computed=is_computed,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Layout":
        """The layout that a manifest holds.

        Args:
            values: its fields.
        """
        return cls(**{**values, "variables": tuple(values["variables"])})

    def serves(self, wanted: "Layout") -> bool:
        """Whether a table that is cut so holds all that another one would.

        Args:
            wanted: the layout of a new run.
        """
        return (
            self.sizes == wanted.sizes
            and self.is_computed == wanted.is_computed
            and set(self.variables) >= set(wanted.variables)
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each dim."""
        return {
            "source": self.n_sources,
            "policy": self.n_policies,
            "target": self.n_targets,
            "episode": self.n_episodes,
        }

    def blocks(self, stage: Stage) -> list[slice]:
        """The stretches of sources of a stage.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        step = self.train_rows if stage == "train" else self.table_rows
        return [
            slice(first, min(first + step, self.n_sources))
            for first in range(0, self.n_sources, step)
        ]

    def chunk(self, variable: str) -> tuple[int, ...]:
        """Shape of one chunk of a variable.

        Args:
            variable: its name.
        """
        sizes = self.sizes | {"source": self.table_rows}
        return tuple(sizes[dim] for dim in DIMS[variable])
