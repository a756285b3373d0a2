"""A study: what is known about a family of tasks.

The central noun. Whatever was computed, opened or given arrives as one frozen value:
the table, the system, the policies, the contexts, where the numbers come from. Every
room above takes a study and a question. Its parts are read when they are first used,
and once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import (
    InvalidInputError,
    MissingExtraError,
    TaskspaceError,
    UnknownNameError,
    UntrustedCodeError,
)
from taskspace.performance.table import (
    DIMS,
    holds_score,
    provenance_of,
    reduced_name,
    row_blocks,
    score_provenance,
    source_space,
    target_space,
)
from taskspace.policies import Policy
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import MEASURES, ContextAxis, Provenance, System


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Study:
    """What is known about a family of tasks, read when first used.

    Made by `ts.evaluate` (a computation), `ts.open` (a run, a selection or a matrix
    file) and `ts.study_from` (a data frame or an array).

    Args:
        origin: where it comes from: a path, or what made it.
        parts: functions that give its parts, each called when first used: the
            performance `table`; if known the `system`, the context `axes` where the
            system may not be known, the `policies`, the contexts of the `targets`
            where the table says them not well, the `experiment` and the `results` of
            a run.
        reading: how a file was read, for commands that read it again; None where no
            file holds it.
        is_computed: the table is computed from the policies as it is read.

    Examples:
        >>> import taskspace as ts
        >>> space = ts.Grid(k=(0.1, 8.0, 5))
        >>> lqr = ts.trainers.Lqr()
        >>> ts.evaluate(ts.systems.MassSpringDamper(), lqr, space, seed=0)
        Study(5 sources, 1 policy each, 5 targets, msd-v1, lqr, exact)
    """

    origin: str
    parts: Mapping[str, Callable[[], Any]]
    reading: dict[str, Any] | None = None
    is_computed: bool = False

    @classmethod
    def of(
        cls,
        table: xr.Dataset,
        *,
        system: System | None = None,
        policies: Policy | None = None,
        targets: Space | None = None,
        origin: str = "memory",
        is_computed: bool = False,
    ) -> "Study":
        """Return the study of a table and what belongs to it.

        Args:
            table: a performance table.
            system: the tasks, if they are known.
            policies: policies of the table's sources, leading dims `(source, policy)`.
            targets: contexts of the targets; from the table if left out.
            origin: what made it.
            is_computed: the table is computed from the policies as it is read.
        """
        return cls(
            origin=origin,
            parts={
                "table": lambda: table,
                "system": lambda: system,
                "policies": lambda: policies,
                "targets": lambda: targets,
            },
            is_computed=is_computed,
        )

    # --- parts ----------------------------------------------------------------------

    def _part(self, name: str) -> Any:
        """Return a part, None where it is not known."""
        return self.parts[name]() if name in self.parts else None

    @cached_property
    def table(self) -> xr.Dataset:
        """The performance table; large variables are read as they are needed."""
        return self._part("table")

    @cached_property
    def _system(self) -> "System | UntrustedCodeError | MissingExtraError | None":
        try:
            return self._part("system")
        except (UntrustedCodeError, MissingExtraError) as error:
            return error

    @property
    def system(self) -> System | None:
        """The tasks; None where they are not known, not trusted or not installed."""
        return None if isinstance(self._system, TaskspaceError) else self._system

    def require_system(self) -> System:
        """Return the tasks, or raise the sentence that says why they are missing."""
        if isinstance(self._system, TaskspaceError):
            raise self._system
        if self._system is None:
            raise InvalidInputError(
                f"This needs the system, but {self.origin} holds numbers alone. "
                "Use a run (taskspace run), or give it: ts.study_from(..., system=...)."
            )
        return self._system

    @cached_property
    def axes(self) -> dict[str, ContextAxis]:
        """Context axes by name, with units and labels, as far as they are known."""
        axes = self._part("axes") or ()
        if not axes and self.system is not None:
            axes = self.system.axes
        return {axis.name: axis for axis in axes}

    @property
    def labels(self) -> dict[str, str]:
        """Name and unit of each axis, for figures, by its name."""
        return {name: axis.label for name, axis in self.axes.items()}

    @cached_property
    def policies(self) -> Policy | None:
        """Policies of the sources, leading dims `(source, policy)`, if at hand."""
        stack = self._part("policies")
        if stack is not None and stack.stack_shape[0] != self.n_sources:
            raise InvalidInputError(
                f"There must be policies for all {self.n_sources} sources of the "
                f"table, but there are {stack.stack_shape[0]}."
            )
        return stack

    @cached_property
    def sources(self) -> Grid | Points | None:
        """Contexts of the sources: a grid if they are one, None if they have none."""
        return source_space(self.table)

    @cached_property
    def targets(self) -> Grid | Points | None:
        """Contexts of the targets: a grid if they are one, None if they have none."""
        space = self._part("targets")
        return space if isinstance(space, Grid | Points) else target_space(self.table)

    @cached_property
    def experiment(self) -> Any:
        """The experiment of a run, else None."""
        return self._part("experiment")

    @cached_property
    def results(self) -> Any:
        """The covers and curves of a finished run, else None."""
        return self._part("results")

    def with_table(self, table: xr.Dataset) -> "Study":
        """Return the same study with another table of the same sources and targets.

        Args:
            table: a performance table.
        """
        return Study.of(
            table,
            system=self.system,
            policies=self.policies,
            targets=self.targets,
            origin=self.origin,
        )

    @cached_property
    def _scored(self) -> "dict[str, Study]":
        return {}

    # --- what the table says of itself ----------------------------------------------

    @property
    def n_sources(self) -> int:
        """How many sources there are."""
        return self.table.sizes["source"]

    @property
    def n_policies(self) -> int:
        """How many policies each source has."""
        return self.table.sizes.get("policy", 1)

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return self.table.sizes["target"]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the grid of sources, None if they are not on one."""
        return self.sources.shape if isinstance(self.sources, Grid) else None

    @property
    def provenance(self) -> Provenance:
        """Where the numbers come from: `exact`, `computed`, `sampled`, `given`."""
        return provenance_of(self.table)

    @property
    def notes(self) -> list[str]:
        """What a person should know of the table before any number of it."""
        read_as = self.table.attrs.get("read_as")
        sentences = [f"The matrix is read as {read_as}."] if read_as else []
        sentences += self.table.attrs.get("notes", ())
        n_planned = int(self.table.attrs.get("n_planned", 0))
        if n_planned:
            sentences.append(
                f"This speaks of the {self.n_sources:,} sources that are trained and "
                f"evaluated so far, of {n_planned:,} planned."
            )
        return sentences

    # --- showing ----------------------------------------------------------------------

    def __repr__(self) -> str:
        """Return the study in one line."""
        plural = "policy" if self.n_policies == 1 else "policies"
        made_by = [self.table.attrs.get(name) for name in ("system", "trainer")]
        facts = [
            f"{self.n_sources:,} source{'s' * (self.n_sources != 1)}",
            f"{self.n_policies:,} {plural} each",
            f"{self.n_targets:,} target{'s' * (self.n_targets != 1)}",
            *filter(None, made_by),
            self.provenance,
        ]
        return f"Study({', '.join(map(str, facts))})"


def with_score(study: Study, measure: str, judge: str) -> Study:
    """Return the study with a score that a criterion reads, computed if missing.

    Args:
        study: what is known.
        measure: the score, e.g. `"performance"` or `"disk_margin"`.
        judge: `"worst"` or `"best"`: which reduction over a family is needed.

    Returns:
        The same study where it holds the score, or where it cannot be computed:
        then reading the score says what is missing.
    """
    known = holds_score(study.table, measure, judge) or measure in study._scored
    if not known and study.system is not None and study.policies is not None:
        table = _add_scores(study, measure, study.system, study.policies)
        study._scored[measure] = study.with_table(table)
    return study._scored.get(measure, study)


def bitsets_within_regret(
    study: Study, epsilon: float
) -> Iterator[NDArray[np.uint64]] | None:
    """Return the targets that sources serve, where there is a faster way than J.

    Args:
        study: what is known.
        epsilon: tolerance of their regret.

    Returns:
        Blocks of bits, as `System.within_regret` gives them; None for a table that
        is kept, families of several policies, and systems without a faster way.
    """
    if not study.is_computed or study.n_policies != 1:
        return None
    system, policies = study.require_system(), study.policies
    assert policies is not None
    assert study.targets is not None
    contexts = system.contexts(study.targets)
    reference = study.table["best_known"].values

    def words(rows: slice) -> NDArray[np.uint64] | None:
        return system.within_regret(policies[rows], contexts, reference, epsilon)

    if words(slice(0, 1)) is None:
        return None
    # A number of a block of losses takes as much memory as 64 bits.
    blocks = (words(rows) for rows in row_blocks(study.table, 64))
    return (block for block in blocks if block is not None)


def _add_scores(
    study: Study, measure: str, system: System, policies: Policy
) -> xr.Dataset:
    """Return the table with one more score, or with its reductions."""
    table = study.table
    if measure not in MEASURES:
        raise UnknownNameError("measure", measure, MEASURES)
    if study.targets is None:
        raise InvalidInputError(
            f"The score {measure!r} is computed at contexts, but the targets of this "
            "table have none."
        )
    contexts = system.contexts(study.targets)
    parts: dict[str, list[NDArray[np.float64]]] = {}
    for rows in row_blocks(table):
        scores = system.scores(measure, policies[rows], contexts)
        if "performance" in table:
            parts.setdefault(measure, []).append(scores)
            continue
        for judge, reduced in (("worst", scores.min(1)), ("best", scores.max(1))):
            parts.setdefault(reduced_name(measure, judge), []).append(reduced)
    said = {"provenance": score_provenance(measure, system.provenance)}
    return table.assign(
        {name: (DIMS[name], np.concatenate(x), said) for name, x in parts.items()}
    )


def as_study(known: Study | xr.Dataset) -> Study:
    """Return a study as it is, and a bare performance table as the study of it.

    Args:
        known: a study or a table.
    """
    if isinstance(known, Study):
        return known
    if isinstance(known, xr.Dataset):
        return Study.of(known)
    raise InvalidInputError(
        "This needs a study (ts.evaluate, ts.open, ts.study_from), but got "
        f"{type(known).__name__}."
    )
