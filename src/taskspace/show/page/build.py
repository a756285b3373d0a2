"""From a performance table to a page."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.cover import Cover
from taskspace.criteria import CRITERIA, JUDGES
from taskspace.errors import InvalidInputError
from taskspace.performance.table import row_blocks
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.show.page.data import PageData, choose_rows, page_data
from taskspace.show.page.html import render
from taskspace.show.page.layers import Layer, make_layer

SMALL_CELLS = 4_000_000
"""Up to this many pairs every criterion is worked out, not only those asked for."""

MAX_NUMBERS = 500_000_000
"""Losses that are held at once while a page is made (4 GB)."""

MULTIPLES = (1.0, 0.0, 0.25, 0.5, 0.75)
"""Of the error of measured contexts that was asked for, which is shown first: the steps
of a slider. Each is a layer of its own, whose losses are the largest within the error,
so sets, covers and bounds are exact at every step."""

CITATION = """\
@software{taskspace,
  title = {taskspace: how many policies does a range of tasks need?},
  author = {{The taskspace developers}},
  version = {VERSION}
}"""


def build_page(table: xr.Dataset, questions: Iterable[Question] = (), **options) -> str:
    """Return one HTML file that explains and explores a performance table.

    Args:
        table: a performance table.
        questions: what is asked; the first one is shown first.
        options: see `collect`.

    Returns:
        The page, which needs nothing but itself.
    """
    return render(collect(table, questions, **options))


def collect(
    table: xr.Dataset,
    questions: Iterable[Question] = (),
    *,
    title: str = "taskspace",
    path: str = "TABLE",
    covers: Iterable[tuple[Question, Cover]] = (),
    about: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    max_rows: int = 700,
    more_rows: int = 300,
    n_steps: int | None = None,
    time_limit: float = 8.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> PageData:
    """Return everything that a page shows.

    Args:
        table: a performance table.
        questions: what is asked; the first one is shown first.
        title: heading of the page.
        path: what the commands that the page names are given.
        covers: covers that are known already, with their questions.
        about: text to show: `system`, `warnings`, `settings`, `tables`, ….
        labels: axis labels with units, by the name of the axis.
        max_rows: rows of sources that go into the page.
        more_rows: of these, sources beside those of the covers, spread evenly.
        n_steps: about how many tolerances each criterion gets.
        time_limit: processor seconds for searches beyond greedy, all together.
        seed: of the searches.
        progress: told how far it is.
    """
    progress = progress or silent
    known_covers = list(covers)
    asked = _error_steps([*questions, *(question for question, _ in known_covers)])
    if min(table.sizes["source"], table.sizes["target"]) == 0:
        raise InvalidInputError(
            "A page needs at least one source and one target, but the table has "
            f"{table.sizes['source']} and {table.sizes['target']}."
        )
    layers = _make_layers(
        table,
        asked,
        known_covers,
        n_steps=n_steps,
        time_limit=time_limit,
        seed=seed,
        progress=progress,
    )
    rows = choose_rows(layers, table.sizes["source"], limit=max_rows, more=more_rows)
    text = about_page(title, path, table.attrs.get("system", "")) | {
        "question": {"path": path, "read": {}},
        **(about or {}),
    }
    return page_data(table, layers, rows, about=text, labels=labels)


def _make_layers(
    table: xr.Dataset,
    asked: Sequence[Question],
    covers: Sequence[tuple[Question, Cover]],
    *,
    n_steps: int | None,
    time_limit: float,
    seed: int,
    progress: Progress,
) -> list[Layer]:
    """Return the criteria of a page, those asked for first."""
    every = _questions(table, asked)
    small = table.sizes["source"] * table.sizes["target"] <= SMALL_CELLS
    progress("losses", 0, len(every))
    losses = _all_losses(table, every)
    progress("losses", len(every), len(every))
    layers: dict[Question, Layer] = {}
    # Exact contexts first: with an error the same tolerances are asked.
    for question in sorted(every, key=lambda q: q.error is not None):
        own = [q for q in asked if q.at(0.0) == question]
        if question not in losses:
            if own:
                own[0].rows(table, slice(0, 1))  # says why it does not apply
            continue
        exact = layers.get(question.measured_with(None))
        layers[question] = make_layer(
            losses[question],
            question,
            stored=[q.epsilon for q in own],
            covers=[(q.epsilon, c) for q, c in covers if q in own],
            n_steps=n_steps or (40 if small else 20),
            epsilons=None if exact is None else exact.epsilons,
            time_limit=time_limit / len(losses),
            seed=seed,
            progress=progress,
        )
    if not layers:
        raise InvalidInputError("No criterion applies to this table.")
    return [layers[question] for question in every if question in layers]


def about_page(title: str, path: str, system: object) -> dict[str, Any]:
    """Return the text that every page shows around its pictures.

    Args:
        title: heading of the page.
        path: what it is about, as one types it in a shell.
        system: name of the system, empty where there is none.
    """
    return {
        "title": title,
        "path": path,
        "system": str(system),
        "versions": _versions(),
        "reproduce": f"taskspace explore {path}",
        "citation": CITATION.replace("VERSION", version("taskspace")),
    }


def _error_steps(asked: Sequence[Question]) -> list[Question]:
    """Return questions with smaller errors, down to none, behind each that has one."""
    steps = [
        question.measured_with(question.error and question.error.times(multiple))
        for question in asked
        for multiple in (MULTIPLES if question.error is not None else (0.0,))
    ]
    return list(dict.fromkeys(steps))


def _all_losses(
    table: xr.Dataset, questions: Sequence[Question]
) -> dict[Question, NDArray[np.float64]]:
    """Return the losses of several questions, in one pass over the table.

    Args:
        table: a performance table, in memory or read as it is needed.
        questions: criteria and judges; their tolerances do not matter.

    Returns:
        Losses with dims `(source, target)`; a criterion that does not apply to the
        table is left out.
    """
    shape = table.sizes["source"], table.sizes["target"]
    n_numbers = len(questions) * shape[0] * shape[1]
    if n_numbers > MAX_NUMBERS:
        raise InvalidInputError(
            f"A page is made from at most {MAX_NUMBERS:,} losses, but {shape[0]:,} "
            f"sources at {shape[1]:,} targets by {len(questions)} criteria are "
            f"{n_numbers:,}. Choose fewer sources, e.g. "
            "table.isel(source=slice(None, None, 10))."
        )
    losses = {question: np.empty(shape) for question in questions}
    for rows in row_blocks(table):
        for question in list(losses):
            try:
                losses[question][rows] = question.rows(table, rows)
            except (InvalidInputError, KeyError):
                del losses[question]
    return losses


def _versions() -> str:
    """Return versions of what made a page, one per line."""
    packages = ("taskspace", "numpy", "scipy", "numba", "xarray")
    lines = [f"{name} {version(name)}" for name in packages]
    return "\n".join([*lines, f"Python {platform.python_version()}"])


def _questions(table: xr.Dataset, asked: Sequence[Question]) -> list[Question]:
    """Return criteria and judges of a page at tolerance 0, those asked for first."""
    pairs = list(dict.fromkeys(question.at(0.0) for question in asked))
    n_cells = table.sizes["source"] * table.sizes["target"]
    if pairs and n_cells > SMALL_CELLS:
        return pairs
    judges = JUDGES if table.sizes.get("policy", 1) > 1 else JUDGES[:1]
    if n_cells > SMALL_CELLS:
        return [Question("regret <= 0")]
    level = "score" if (table["best_known"].values > 0).any() else "cost"
    names = ("regret", *CRITERIA, level)
    every = [Question(f"{name} {judge}").at(0.0) for judge in judges for name in names]
    return list(dict.fromkeys([*pairs, *every]))
