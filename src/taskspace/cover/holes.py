"""Cells that were not measured: a size between two bounds, and what to measure next.

With every such cell taken for served the minimum cover can only be smaller, with every
one taken for not served only larger. Both are covers of stated tables, and whatever
the cells hold, the number of sources lies between them. Losses are against the best
measured score, as long as no further cell is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Clock, Cover
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.sets import pack

__all__ = [
    "CoverWithHoles",
    "Measured",
    "cover_with_holes",
    "fill_cells",
    "measure_cells",
    "unknown_cells",
]

Cell = tuple[int, int]
"""A source and a target."""


def _needed(n_sources: float) -> str:
    return f"{n_sources:g} source{' is' if n_sources == 1 else 's are'} needed"


@dataclass(frozen=True, eq=False)
class CoverWithHoles:
    """How many sources are needed, as far as measured cells tell.

    Args:
        safe: the best cover that relies on measured cells only.
        hopeful: the best cover if every unmeasured cell is served.
        n_unknown: cells that were not measured.
        cells: `(source, target)` of cells to measure next: if all of them are served,
            `hopeful` is a cover; the sources with the fewest such cells come first.
    """

    safe: Cover
    hopeful: Cover
    n_unknown: int
    cells: tuple[tuple[int, int], ...]

    @property
    def lower(self) -> float:
        """No fewer serve every target that some cell may serve, whatever they hold."""
        return self.hopeful.lower_bound

    @property
    def upper(self) -> float | None:
        """No completion needs more; None where measured cells leave some unserved."""
        return None if len(self.safe.uncoverable) else self.safe.cost

    @property
    def is_decided(self) -> bool:
        """Whether the number is the same for every completion."""
        return self.upper is not None and self.lower >= self.upper

    @property
    def statement(self) -> str:
        """What is known, as a sentence."""
        some = f"whatever the {self.n_unknown:,} cells hold that were not measured"
        question, upper = self.safe.question, self.upper
        if question is not None and question.rule.reference == "best known":
            some += " (losses are against the best measured)"
        if upper is None:
            n = len(self.safe.uncoverable)
            return (
                f"At least {_needed(self.lower)} to serve every target that may be "
                f"served, {some}; measured cells leave {n:,} targets without a source."
            )
        if self.is_decided:
            return f"{_needed(upper)}, {some}."
        return f"Between {self.lower:g} and {_needed(upper)}, {some}."

    def to_dict(self) -> dict[str, Any]:
        """Return what programs need to know, as JSON."""
        return {
            "lower": self.lower,
            "upper": self.upper,
            "decided": self.is_decided,
            "n_unknown": self.n_unknown,
            "measure_next": [list(cell) for cell in self.cells],
        }


def unknown_cells(study: Study) -> NDArray[np.bool_] | None:
    """Return which cells were not measured, dims `(source, target)`; None for none.

    Args:
        study: what is known.
    """
    table = as_study(study).table
    return table["unknown"].values if "unknown" in table else None


def cover_with_holes(
    study: Study,
    question: Question,
    *,
    costs: ArrayLike | None = None,
    include: ArrayLike = (),
    exclude: ArrayLike = (),
    time_limit: float = 60.0,
    seed: int = 0,
) -> CoverWithHoles:
    """Find the fewest sources with unmeasured cells served, and not served.

    Args:
        study: what is known, read with `missing="unknown"`.
        question: what is asked.
        costs: cost of each source, `> 0`; all 1 where not given.
        include: sources that must be selected.
        exclude: sources that must not be.
        time_limit: seconds for both.
        seed: of the random choices.
    """
    unknown = unknown_cells(study)
    if unknown is None:
        raise InvalidInputError(
            "Holes need cells that were not measured: read the matrix with "
            "missing='unknown' (--missing unknown)."
        )
    question.check_exact("A cover with holes")
    question.check_single("A cover with holes")
    clock = Clock(time_limit)
    sets = question.sets(study)
    options: dict[str, Any] = {
        "costs": costs, "include": include, "exclude": exclude, "seed": seed
    }  # fmt: skip
    safe = minimum_cover(sets, time_limit=clock.left / 2, **options)
    measured = sets.to_bool()
    hoped = pack(measured | unknown)
    hopeful = minimum_cover(hoped, time_limit=clock.left, **options)
    served = measured[hopeful.sources].any(axis=0)
    cells: list[list[tuple[int, int]]] = []
    for source in hopeful.sources.tolist():
        open_ = ~served & (hopeful.assignment == source)
        cells.append([(source, t) for t in np.flatnonzero(open_).tolist()])
    nexts = [cell for part in sorted(cells, key=len) for cell in part]
    return CoverWithHoles(safe, hopeful, int(unknown.sum()), tuple(nexts))


def fill_cells(study: Study, scores: Mapping[Cell, float]) -> Study:
    """Return a study in which some cells are measured that were not.

    A reference that is the best of the table is the best of what is measured then.

    Args:
        study: what is known, read with `missing="unknown"`.
        scores: J of each such cell, larger is better; −inf for a failure.
    """
    table, unknown = as_study(study).table, unknown_cells(study)
    if unknown is None or "performance" not in table or "home" in table:
        raise InvalidInputError(
            "Cells are filled in where a matrix was read with missing='unknown' "
            "(--missing unknown), and where it has no scores at home."
        )
    unknown, values = unknown.copy(), table["performance"].values.copy()
    for (source, target), score in scores.items():
        if np.isnan(score) or score == np.inf or not unknown[source, target]:
            raise InvalidInputError(
                "A score of a cell that was not measured must be a number or −inf, but "
                f"got {score!r} for source {source} at target {target}, which was "
                f"{'not ' * bool(unknown[source, target])}measured."
            )
        values[source, :, target] = score
        unknown[source, target] = False
    best = values.max((0, 1))
    if table.attrs.get("best_known_kind") != "best of the table":
        stated = table["best_known"].values
        if (best > stated).any():
            at = int(np.argmax(best > stated))
            raise InvalidInputError(
                f"best_known must be as good as every score, but target {at} has a "
                f"score of {best[at]!r} and best_known {stated[at]!r}."
            )
        best = stated
    return Study.of(
        table.assign(
            performance=(table["performance"].dims, values),
            unknown=(("source", "target"), unknown),
            best_known=("target", best),
        )
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """What measuring cell after cell led to.

    Args:
        study: with the cells that were measured.
        answer: how many sources are needed by it.
        cells: what was measured, in this order.
        stop_reason: `"decided"`, `"no cell left to measure"` or `"budget spent"`.
    """

    study: Study
    answer: CoverWithHoles
    cells: tuple[Cell, ...]
    stop_reason: str


def measure_cells(
    study: Study,
    question: Question,
    measure: Callable[[list[Cell]], Sequence[float]],
    *,
    n_at_once: int = 1,
    budget: int | None = None,
    time_limit: float = 60.0,
    **options: Any,
) -> Measured:
    """Measure the cells that decide most, until the number of sources is known.

    Args:
        study: what is known, read with `missing="unknown"`.
        question: what is asked.
        measure: gives J of each cell that it is handed, larger is better.
        n_at_once: cells that it is handed at a time, at most.
        budget: cells in all, at most.
        time_limit: seconds for the covers of each round.
        options: `costs`, `include`, `exclude` and `seed`, see `cover_with_holes`.
    """
    done: list[Cell] = []
    while True:
        answer = cover_with_holes(study, question, time_limit=time_limit, **options)
        room = n_at_once if budget is None else min(n_at_once, budget - len(done))
        reason = None
        if answer.is_decided:
            reason = "decided"
        elif not answer.cells:
            reason = "no cell left to measure"
        elif room <= 0:
            reason = "budget spent"
        if reason is not None:
            return Measured(study, answer, tuple(done), reason)
        cells = list(answer.cells[:room])
        study = fill_cells(study, dict(zip(cells, measure(cells), strict=True)))
        done += cells
