"""Cells that were not measured: a size between two bounds, and what to measure next.

With every such cell taken for served the minimum cover can only be smaller, with every
one taken for not served only larger. Both are covers of stated tables, and whatever
the cells hold, the number of sources lies between them. Losses are against the best
measured score, which a new measurement does not move.
"""

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

__all__ = ["CoverWithHoles", "cover_with_holes", "unknown_cells"]


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
        """No completion of the table needs less."""
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
        question = self.safe.question
        if question is not None and question.rule.reference == "best known":
            some += " (losses are against the best measured)"
        if self.is_decided:
            return f"{self.upper:g} sources are needed, {some}."
        if self.upper is None:
            n = len(self.safe.uncoverable)
            return (
                f"At least {self.lower:g} sources are needed, {some}; measured cells "
                f"leave {n:,} targets without a source."
            )
        return f"Between {self.lower:g} and {self.upper:g} sources are needed, {some}."

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
