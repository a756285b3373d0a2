"""What a page holds: one JSON header and numbered binary arrays."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.threads import over_rows
from taskspace.cover import Cover
from taskspace.cover.cover import FORMAT_VERSION as COVER_VERSION
from taskspace.cover.cover import names_of
from taskspace.performance.study import Study
from taskspace.performance.table import (
    REDUCTIONS,
    family_rows,
    provenance_of,
    reduced_name,
    source_space,
    target_space,
)
from taskspace.performance.work import TRAINED
from taskspace.policies import LinearGain
from taskspace.questions import Question
from taskspace.show.figures.map import AxisRecord, axes_of
from taskspace.show.figures.transfer import seriation
from taskspace.show.page.html import Blobs, quantise
from taskspace.show.page.layers import Layer, Step, by_gain
from taskspace.systems.linear import LinearSystem

FORMAT_VERSION = 1
EXACT_CELLS = 250_000
"""Up to this many pairs the losses themselves are in the page, not 16 bits of them."""
MAX_PRICED = 2_000
"""Up to this many targets every step keeps the prices that prove its bound."""
MAX_REGRET_SOURCES = 500
"""Covers up to this size are told what regret they leave."""


@dataclass
class PageData:
    """The header of a page and its arrays.

    Args:
        header: plain JSON values; arrays are `{"blob": number, ...}`.
        blobs: the arrays.
        layers: what they were made from.
    """

    header: dict[str, Any]
    blobs: Blobs = field(default_factory=Blobs)
    layers: Sequence[Layer] = ()


def choose_rows(
    layers: Sequence[Layer], n_sources: int, *, limit: int, more: int
) -> NDArray[np.int64]:
    """Return sources whose rows go into a page, ascending.

    All of them where they are few. Otherwise those of the covers, the tolerances that
    somebody asked for first and then from the widest on, and `more` spread evenly.

    Args:
        layers: the criteria of the page.
        n_sources: how many there are.
        limit: how many rows a page holds at most.
        more: how many to add to those of the covers.
    """
    if n_sources <= limit:
        return np.arange(n_sources)
    chosen: set[int] = set()
    room = max(0, limit - more)
    for layer in layers:
        steps = sorted(layer.steps, key=lambda s: (not s.is_stored, -s.epsilon))
        for step in steps:
            for cover in step.covers:
                wanted = chosen | set(cover.sources.tolist())
                if len(wanted) <= room:
                    chosen = wanted
    spread = np.linspace(0, n_sources - 1, min(more, n_sources)).round()
    chosen |= set(spread.astype(int).tolist())
    return np.array(sorted(chosen), np.int64)


def page_data(
    study: Study,
    layers: Sequence[Layer],
    rows: NDArray[np.int64],
    *,
    about: Mapping[str, Any],
) -> PageData:
    """Return everything that a page shows of a table.

    Args:
        study: what is known.
        layers: criteria and judges, the first one is shown first.
        rows: sources whose rows go into the page, ascending.
        about: title, warnings, settings, how to reproduce: text to show.
    """
    blobs, table = Blobs(), study.table
    targets = _side(table, "target", blobs, study.labels)
    sources = _side(table, "source", blobs, study.labels)
    grid = targets["axes"] if targets["is_grid"] else []
    width = len(grid[-1]["values"]) if grid else targets["n"]
    header = {
        "format": "taskspace-page",
        "version": FORMAT_VERSION,
        "about": dict(about),
        "provenance": provenance_of(table),
        "n_episodes": int(table.attrs.get("n_episodes", 0)),
        "sources": sources,
        "targets": targets,
        "rows": blobs.add(rows.astype(np.uint32)),
        "gains": _gains(study, rows, blobs),
        "best_known": blobs.add(table["best_known"].values.astype(np.float64))
        if "best_known" in table
        else None,
        "cover_format": COVER_VERSION,
        "layers": [_layer(table, layer, rows, width, blobs) for layer in layers],
    }
    if not targets["axes"]:
        order = seriation(layers[0].losses[rows])
        header["order"] = {
            "rows": blobs.add(order[0].astype(np.uint32)),
            "targets": blobs.add(order[1].astype(np.uint32)),
        }
    return PageData(header, blobs, layers)


def _side(
    table: xr.Dataset, side: str, blobs: Blobs, labels: Mapping[str, str]
) -> dict[str, Any]:
    space = (source_space if side == "source" else target_space)(table)
    axes: list[AxisRecord] = [] if space is None else axes_of(space, labels)
    names = names_of(table, side)
    return {
        "n": table.sizes[side],
        "names": names,
        "axes": [asdict(axis) for axis in axes],
        "is_grid": bool(axes) and all(axis.values is not None for axis in axes),
        "contexts": blobs.add(space.points) if space is not None else None,
        "kinds": _kinds(table) if side == "source" else None,
    }


def _gains(
    study: Study, rows: NDArray[np.int64], blobs: Blobs
) -> dict[str, Any] | None:
    """Return the gains of sources with one linear policy each, and their names."""
    policies = study.policies
    if not isinstance(policies, LinearGain) or policies.stack_shape[1:] != (1,):
        return None
    names = None
    if isinstance(study.system, LinearSystem):
        inputs, states = study.system.inputs, study.system.states
        names = [f"{i} on {x}" for i in inputs for x in states]
    gains = np.asarray(policies.gain, np.float64)[rows].reshape(len(rows), -1)
    return {"names": names, "values": blobs.add(gains)}


def _kinds(table: xr.Dataset) -> list[str] | None:
    """Return how the policies of each source were made, None if all are trained."""
    if "source_kind" not in table.coords:
        return None
    kinds = table.coords["source_kind"].values.tolist()
    return kinds if set(kinds) != {TRAINED} else None


def _layer(
    table: xr.Dataset,
    layer: Layer,
    rows: NDArray[np.int64],
    width: int,
    blobs: Blobs,
) -> dict[str, Any]:
    losses, first = layer.losses[rows], layer.first[rows]
    rule = layer.question.rule
    if losses.size <= EXACT_CELLS:
        shown = _exact_losses(table, layer.question, rows, blobs)
    else:
        positive = [e for e in layer.epsilons if e > 0]
        codes, scale = quantise(losses, 0.01 * min(positive, default=1.0))
        shown = {"values": blobs.add(codes, width=width), "exact": False, **scale}
    error = _standard_error(table, layer.question, rows)
    uncertain = None
    if error is not None:
        uncertain = blobs.add(error.astype(np.float32))
    return {
        "key": layer.key,
        "criterion": layer.question.criterion,
        "judge": layer.question.judge,
        "error": _error(layer.question),
        "start": layer.start,
        "unit": rule.unit,
        "summary": rule.summary,
        "n_without_reference": len(layer.question.without_reference(table)),
        "steps": [
            _step(table, layer, rows, number, step, blobs)
            for number, step in enumerate(layer.steps)
        ],
        "first": blobs.add(first, width=width),
        "reach": blobs.add(layer.first.min(0)),
        "rank": blobs.add(ranks(losses), width=width),
        "loss": shown,
        "standard_error": uncertain,
    }


def _error(question: Question) -> dict[str, Any] | None:
    """Return the error of measured contexts: in words, and of the first axis."""
    if question.error is None:
        return None
    return {
        "words": question.error.words,
        "amount": question.error.axes[0][1].amount,
    }


def _standard_error(
    table: xr.Dataset, question: Question, rows: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Return the standard error of each loss, as far as J at the target has one.

    That of the policy that counts: the worst or the best of the family. The reference
    (the best known J) is taken as it is. None for a table without standard errors and
    for losses against the score at home, whose error is not that of one mean.

    Args:
        table: a performance table.
        question: criterion and judge.
        rows: the sources.
    """
    rule = question.rule
    if question.measure != "performance" or question.error is not None:
        return None
    if "standard_error" not in table or rule.compares_with_home:
        return None
    scores = table["performance"][rows].values
    errors = table["standard_error"][rows].values
    judged = scores.argmin(1) if question.judge == "worst" else scores.argmax(1)
    error = np.take_along_axis(errors, judged[:, None, :], axis=1)[:, 0]
    if rule.is_relative:
        error = error / np.abs(table["best_known"].values)
    return error


def _exact_losses(
    table: xr.Dataset, question: Question, rows: NDArray[np.int64], blobs: Blobs
) -> dict[str, Any]:
    """Return what the page computes losses from: J, or the gap."""
    rule = question.rule
    formula = "gap" if rule.compares_with_home else rule.box_bounds
    if rule.is_absolute:
        formula = "negative"
    name = reduced_name(rule.measure, question.judge)
    if rule.compares_with_home:
        name = REDUCTIONS[question.judge][1]
    stretch = slice(int(rows[0]), int(rows[-1]) + 1)
    is_given = table.attrs.get("provenance", "given") == "given"
    simple = rule.has_box_bounds and (rule.is_absolute or not is_given)
    if question.also or question.error is not None or not simple:
        # The page turns the sign of losses: it knows no parameters, no windows and no
        # decimals, and a loss is infinite where another demand fails.
        values = -question.rows(table, stretch)[rows - rows[0]]
        formula = "negative"
    else:
        values = family_rows(table, name, stretch)[rows - rows[0]]
    return {
        "values": blobs.add(values),
        "exact": True,
        "formula": formula,
    }


def _step(
    table: xr.Dataset,
    layer: Layer,
    rows: NDArray[np.int64],
    number: int,
    step: Step,
    blobs: Blobs,
) -> dict[str, Any]:
    best = step.best
    return {
        "epsilon": step.epsilon,
        "sentence": layer.question.at(step.epsilon).statement,
        "ask": str(layer.question.at(step.epsilon)),
        "stored": step.is_stored,
        "lower": step.lower,
        "lower_kind": step.prover.lower_bound_kind if step.prover else "size",
        "prices": _prices(layer, step, blobs),
        "upper": best.size,
        "largest": step.largest,
        "n_uncoverable": step.n_uncoverable,
        "time_up": step.is_time_up,
        "best": next(i for i, c in enumerate(step.covers) if c is best),
        "covers": [
            _cover(table, layer, rows, number, cover, blobs) for cover in step.covers
        ],
    }


def _prices(layer: Layer, step: Step, blobs: Blobs) -> dict[str, Any] | None:
    """Return the prices that prove the bound, as text: browsers round numbers.

    In a large page only those of tolerances that somebody asked for.
    """
    prices = None if step.prover is None else step.prover.prices
    if prices is None or (layer.first.shape[1] > MAX_PRICED and not step.is_stored):
        return None
    text = json.dumps(prices.to_dict())
    return blobs.add(np.frombuffer(text.encode(), np.uint8))


def _cover(
    table: xr.Dataset,
    layer: Layer,
    rows: NDArray[np.int64],
    number: int,
    cover: Cover,
    blobs: Blobs,
) -> dict[str, Any]:
    record = cover.to_dict()
    for name in ("sources", "assignment", "uncoverable", "prices", "coverage_bound"):
        del record[name]
    signed = layer.question.rule.compares_with_home and cover.size <= MAX_REGRET_SOURCES
    here = bool(np.isin(cover.sources, rows).all())
    assignment = np.zeros(0, np.int64)
    if signed or not here:
        assignment = layer.assignment(cover.sources.tolist(), number)
    place = np.full(cover.n_sources + 1, cover.size, np.int64)
    place[cover.sources] = np.arange(cover.size)
    kind = np.uint8 if cover.size < 255 else np.uint16 if cover.size < 2**16 else "u4"
    served = np.zeros(cover.n_targets, bool)
    curve = []
    order = by_gain(layer.first[cover.sources] <= number, cover)
    for source in order.tolist():
        served |= layer.first[source] <= number
        curve.append(int(served.sum()))
    losses: dict[str, Any] = {}
    if signed:
        regret = layer.question.as_regret().assigned_losses(table, assignment)
        worst = float(regret[assignment >= 0].max(initial=0.0))
        losses["worst_regret"] = worst if np.isfinite(worst) else None
    return {
        **losses,
        "record": record,
        "sources": cover.sources.tolist(),
        "by_gain": order.tolist(),
        "served": curve,
        # With its rows in the page, the page finds out who serves whom by itself.
        "assignment": None if here else blobs.add(place[assignment].astype(kind)),
    }


def ranks(losses: NDArray[np.float64]) -> NDArray[np.unsignedinteger]:
    """Return place of each row at each target by loss, ties to the lower row.

    Args:
        losses: rows in the order of their sources, dims `(row, target)`.
    """
    kind = np.uint8 if len(losses) <= 256 else np.uint16
    place = np.empty(losses.shape, kind)
    numbers = np.arange(len(losses), dtype=kind)

    def fill(begin: int, stop: int) -> None:
        for first in range(begin, stop, 1024):  # a stretch that stays in the cache
            some = slice(first, min(stop, first + 1024))
            columns = np.ascontiguousarray(losses[:, some].T)
            order = columns.argsort(axis=1, kind="stable")
            ranked = np.empty(columns.shape, kind)
            np.put_along_axis(ranked, order, numbers[None], axis=1)
            place[:, some] = ranked.T

    over_rows(fill, losses.shape[1])
    return place
