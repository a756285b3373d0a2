"""`taskspace select` of a table with holes: which cells to measure next."""

from pathlib import Path

import numpy as np
import pandas as pd

from taskspace._util.files import write_atomically
from taskspace.cli.output import Answer, console, shown, writable
from taskspace.cli.reading import place_of
from taskspace.cli.render.cover import More, show_more
from taskspace.cover import cover_with_holes, fill_cells
from taskspace.cover.ask import CoverProblem
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question

COLUMNS = ["source", "target", "value"]


def choose_cells(
    study: Study,
    question: Question,
    path: Path,
    fill: Path | None,
    *,
    n_cells: int | None,
) -> Answer:
    """Return how many sources are needed, and write which cells to measure next.

    Args:
        study: read with `missing="unknown"`.
        question: what is asked.
        path: the file of scores.
        fill: a CSV with one row per cell, read if it is there and written again.
        n_cells: cells to ask for at a time; all that decide most if left out.
    """
    writable(fill)
    problem = CoverProblem(study, question)
    measured = _read(fill, problem)
    answer = cover_with_holes(_filled(study, measured), question)
    cells = [] if answer.is_decided else list(answer.cells[:n_cells])
    if fill is not None:
        _write(fill, problem, measured, cells)

    def show() -> None:
        show_more(More(answer), problem)
        if fill is not None and cells:
            console.print(
                f"Next: fill in the empty values of {shown(fill)} ({len(cells)}), and "
                "ask again."
            )
        elif cells:
            console.print("Next: the same with --fill cells.csv, a file to fill in.")

    return Answer(
        lambda: {
            "path": str(path),
            **question.to_dict(),
            **answer.to_dict(),
            "measure_next": [list(cell) for cell in cells],
            "n_measured": len(measured),
            "safe_sources": answer.safe.sources.tolist(),
        },
        show,
    )


def _filled(study: Study, measured: dict[tuple[int, int], float]) -> Study:
    if not measured:
        return study
    sign = -1.0 if study.table.attrs.get("quantity") == "cost" else 1.0
    return fill_cells(study, {cell: sign * value for cell, value in measured.items()})


def _read(fill: Path | None, problem: CoverProblem) -> dict[tuple[int, int], float]:
    """Return the cells of a file that have a value by now."""
    if fill is None or not fill.exists():
        return {}
    try:
        frame = pd.read_csv(fill, dtype=str, keep_default_na=False)
        if list(frame.columns) != COLUMNS:
            raise ValueError(f"its columns are {list(frame.columns)}")
        rows = [row for row in frame.itertuples(index=False) if row[2].strip()]
        values = [float(row[2]) for row in rows]
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{fill} must be a CSV with the columns {', '.join(COLUMNS)} and numbers "
            f"or nothing in the last, but reading it failed: {error}."
        ) from error
    sources, targets = problem.source_names, problem.target_names
    cells = [
        (
            place_of(row[0], sources, problem.n_sources, "source"),
            place_of(row[1], targets, problem.n_targets, "target"),
        )
        for row in rows
    ]
    if len(set(cells)) != len(cells):
        raise InvalidInputError(
            f"Each cell of {fill} must have one row, but one has more."
        )
    return dict(zip(cells, values, strict=True))


def _write(
    fill: Path,
    problem: CoverProblem,
    measured: dict[tuple[int, int], float],
    cells: list[tuple[int, int]],
) -> None:
    """Write the cells that are measured, and those to measure next without a value."""
    sources, targets = problem.source_names, problem.target_names
    rows = [
        (
            sources[s] if sources else s,
            targets[t] if targets else t,
            measured.get((s, t), np.nan),
        )
        for s, t in [*measured, *cells]
    ]
    write_atomically(fill, pd.DataFrame(rows, columns=COLUMNS).to_csv(index=False))
