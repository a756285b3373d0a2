"""Lists of a page: losses of each number of sources, and what each source adds.

A new list is a function here, or in a file beside, and an entry of `LISTS`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from taskspace.cover import budget_profile
from taskspace.errors import InvalidInputError
from taskspace.show.page.layers import Layer

MAX_CELLS = 20_000
"""Pairs of a source and a target up to which a page has lists."""
MAX_SOURCES = 60
BUDGETS = (1, 2, 3, 4, 5, 7, 10, 15, 20)

List = Callable[[xr.Dataset, Layer, float, int], "dict[str, Any] | None"]
"""From a table, a criterion, seconds and a seed: title, head and rows, or None."""


def _interval(bound: float | None, value: float | None) -> str:
    """Return a value that is proven, or the bounds that are."""
    if value is None or bound is None or not np.isfinite(value):
        return "–"
    if value == bound:
        return f"{value:.5g}"
    return f"{value:.5g}, at least {bound:.5g}"


def list_budgets(
    table: xr.Dataset, layer: Layer, seconds: float, seed: int
) -> dict[str, Any] | None:
    """Return the least worst loss and the least mean loss of each number of sources.

    Args:
        table: not used.
        layer: criterion and judge.
        seconds: time limit.
        seed: of the searches.
    """
    del table
    most = layer.steps[layer.start].best.size
    budgets = [k for k in BUDGETS if k < most] + [most]
    losses = layer.losses
    if not layer.question.rule.allows_negative_epsilon:
        losses = losses.clip(min=0.0)
    try:
        points = budget_profile(losses, budgets, time_limit=seconds, seed=seed)
    except InvalidInputError:  # a target without any source of finite loss
        return None
    return {
        "title": f"{layer.question.criterion} against the number of sources",
        "head": ["sources", "worst", "mean"],
        "rows": [
            [
                p.budget,
                _interval(p.worst_bound, p.worst),
                _interval(p.mean_bound, p.mean),
            ]
            for p in points
        ],
    }


LISTS: tuple[List, ...] = (list_budgets,)
"""All lists, in the order of the page."""


def make_lists(
    table: xr.Dataset, layer: Layer, *, time_limit: float, seed: int
) -> list[dict[str, Any]] | None:
    """Return the lists of a small table, None of a large one.

    Args:
        table: the performance table.
        layer: the criterion that is shown first.
        time_limit: seconds for all lists.
        seed: of the searches.
    """
    n_sources, n_targets = layer.losses.shape
    if n_sources > MAX_SOURCES or n_sources * n_targets > MAX_CELLS or time_limit <= 0:
        return None
    lists = [make(table, layer, time_limit / len(LISTS), seed) for make in LISTS]
    return [entry for entry in lists if entry is not None]
