"""What a page holds: one JSON header and numbered binary arrays."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.threads import over_rows
from taskspace.cover import Cover
from taskspace.cover.cover import FORMAT_VERSION as COVER_VERSION
from taskspace.cover.cover import names_of
from taskspace.performance.study import Study
from taskspace.performance.table import (
    provenance_of,
    source_space,
    target_space,
)
from taskspace.policies import LinearGain
from taskspace.questions import Question
from taskspace.show.maps import AxisRecord, axes_of, seriation
from taskspace.show.page.html import Blobs, quantise
from taskspace.show.page.layers import Layer, Step, by_gain
from taskspace.systems.linear import LinearSystem

FORMAT_VERSION = 1
EXACT_CELLS = 250_000
"""Up to this many pairs the losses themselves are in the page, not 16 bits of them."""
MAX_PRICED = 2_000
"""Up to this many targets every step keeps the prices that prove its bound."""
SPREAD = 3 / 7
"""Part of the rows of a page that is spread evenly, beside those of the covers."""
ELSEWHERE = ("sources", "assignment", "uncoverable", "prices", "coverage_bound")
"""Parts of a cover's record that the page has in another form."""
MAX_REGRET_SOURCES = 500
"""Covers up to this size are told what regret they leave."""


def choose_rows(
    layers: Sequence[Layer], n_sources: int, *, limit: int
) -> NDArray[np.int64]:
    """Return sources whose rows go into a page, ascending.

    All of them where they are few. Otherwise those of the covers, the tolerances that
    somebody asked for first and then from the widest on, and others spread evenly.

    Args:
        layers: the criteria of the page.
        n_sources: how many there are.
        limit: how many rows a page holds at most.
    """
    if n_sources <= limit:
        return np.arange(n_sources)
    more = round(SPREAD * limit)
    chosen = np.empty(0, np.int64)
    for layer in layers:
        for step in sorted(layer.steps, key=lambda s: (not s.is_stored, -s.epsilon)):
            for cover in step.covers:
                wanted = np.union1d(chosen, cover.sources)
                if len(wanted) <= limit - more:
                    chosen = wanted
    spread = np.linspace(0, n_sources - 1, more).round().astype(np.int64)
    return np.union1d(chosen, spread)


class PageData:
    """Everything that a page shows of a table: a header and arrays.

    Args:
        study: what is known.
        layers: criteria and judges, the first one is shown first.
        rows: sources whose rows go into the page, ascending.
        about: title, warnings, settings, how to reproduce: text to show.

    Attributes:
        header: plain JSON values; arrays are `{"blob": number, ...}`.
        blobs: the arrays.
        layers: what they were made from.
    """

    def __init__(
        self,
        study: Study,
        layers: Sequence[Layer],
        rows: NDArray[np.int64],
        about: Mapping[str, Any],
    ):
        self.layers, self.blobs = layers, Blobs()
        self._table, self._rows = study.table, rows
        table, add = study.table, self.blobs.add
        targets, sources = (self._side(s, study.labels) for s in ("target", "source"))
        grid = targets["axes"] if targets["is_grid"] else []
        self._width = len(grid[-1]["values"]) if grid else targets["n"]
        best = table["best_known"].values.astype(np.float64)
        self.header: dict[str, Any] = {
            "format": "taskspace-page",
            "version": FORMAT_VERSION,
            "about": dict(about),
            "provenance": provenance_of(table),
            "sources": sources,
            "targets": targets,
            "rows": add(rows.astype(np.uint32)),
            "gains": self._gains(study),
            "best_known": add(best),
            "cover_format": COVER_VERSION,
            "layers": [self._layer(layer) for layer in layers],
        }
        if not targets["axes"]:
            order = seriation(layers[0].losses[rows])
            self.header["order"] = {
                "rows": add(order[0].astype(np.uint32)),
                "targets": add(order[1].astype(np.uint32)),
            }

    def _side(self, side: str, labels: Mapping[str, str]) -> dict[str, Any]:
        table = self._table
        space = (source_space if side == "source" else target_space)(table)
        axes: list[AxisRecord] = [] if space is None else axes_of(space, labels)
        kinds = None  # how the policies of each source were made
        if side == "source" and "source_kind" in table.coords:
            kinds = table.coords["source_kind"].values.tolist()
        return {
            "n": table.sizes[side],
            "names": names_of(table, side),
            "axes": [asdict(axis) for axis in axes],
            "is_grid": bool(axes) and axes[0].values is not None,
            "contexts": self.blobs.add(space.points) if space is not None else None,
            "kinds": kinds,
        }

    def _gains(self, study: Study) -> dict[str, Any] | None:
        """Return the gains of sources with one linear policy each, and their names."""
        policies = study.policies
        if not isinstance(policies, LinearGain) or policies.stack_shape[1:] != (1,):
            return None
        names = None
        if isinstance(study.system, LinearSystem):
            inputs, states = study.system.inputs, study.system.states
            names = [f"{i} on {x}" for i in inputs for x in states]
        gains = np.asarray(policies.gain, np.float64)[self._rows]
        gains = gains.reshape(len(gains), -1)
        return {"names": names, "values": self.blobs.add(gains)}

    def _layer(self, layer: Layer) -> dict[str, Any]:
        losses, first = layer.losses[self._rows], layer.first[self._rows]
        question, width, rule = layer.question, self._width, layer.question.rule
        if losses.size <= EXACT_CELLS:
            shown = {"values": self.blobs.add(losses), "exact": True}
        else:
            positive = [e for e in layer.epsilons if e > 0]
            codes, scale = quantise(losses, 0.01 * min(positive, default=1.0))
            shown = {
                "values": self.blobs.add(codes, width=width),
                "exact": False,
                **scale,
            }
        return {
            "key": layer.key,
            "criterion": question.criterion,
            "label": str(question.at(None)),
            "start": layer.start,
            "unit": rule.unit,
            "summary": rule.summary,
            "n_without_reference": len(question.without_reference(self._table)),
            "steps": [
                self._step(layer, number, step)
                for number, step in enumerate(layer.steps)
            ],
            "first": self.blobs.add(first, width=width),
            "reach": self.blobs.add(layer.first.min(0)),
            "rank": self.blobs.add(ranks(losses), width=width),
            "loss": shown,
            "standard_error": self._standard_error(question),
        }

    def _standard_error(self, question: Question) -> dict[str, Any] | None:
        """Return the standard error of each loss, as far as J at the target has one.

        That of the policy that counts: the worst or the best of the family. The
        reference (the best known J) is taken as it is. None for a table without
        standard errors and for losses against the score at home, whose error is not
        that of one mean.
        """
        rule, table, rows = question.rule, self._table, self._rows
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
        return self.blobs.add(error.astype(np.float32))

    def _step(self, layer: Layer, number: int, step: Step) -> dict[str, Any]:
        best, asked = step.best, layer.question.at(step.epsilon)
        return {
            "epsilon": step.epsilon,
            "sentence": asked.statement,
            "ask": str(asked),
            "stored": step.is_stored,
            "lower": step.lower,
            "lower_kind": step.prover.lower_bound_kind if step.prover else "size",
            "prices": self._prices(layer, step),
            "upper": best.size,
            "largest": step.largest,
            "n_uncoverable": step.n_uncoverable,
            "time_up": step.is_time_up,
            "best": next(i for i, c in enumerate(step.covers) if c is best),
            "covers": [self._cover(layer, number, cover) for cover in step.covers],
        }

    def _prices(self, layer: Layer, step: Step) -> dict[str, Any] | None:
        """Return the prices that prove the bound, as text: browsers round numbers.

        In a large page only those of tolerances that somebody asked for.
        """
        prices = None if step.prover is None else step.prover.prices
        if prices is None or (layer.first.shape[1] > MAX_PRICED and not step.is_stored):
            return None
        text = json.dumps(prices.to_dict())
        return self.blobs.add(np.frombuffer(text.encode(), np.uint8))

    def _cover(self, layer: Layer, number: int, cover: Cover) -> dict[str, Any]:
        record = {k: v for k, v in cover.to_dict().items() if k not in ELSEWHERE}
        signed = (
            layer.question.rule.compares_with_home and cover.size <= MAX_REGRET_SOURCES
        )
        here = bool(np.isin(cover.sources, self._rows).all())
        assignment = np.zeros(0, np.int64)
        if signed or not here:
            assignment = layer.assignment(cover.sources.tolist(), number)
        place = np.full(cover.n_sources + 1, cover.size, np.int64)
        place[cover.sources] = np.arange(cover.size)
        kind = np.min_scalar_type(cover.size)
        order = by_gain(layer.first[cover.sources] <= number, cover)
        served = np.logical_or.accumulate(layer.first[order] <= number, axis=0)
        left: dict[str, float | None] = {}
        if signed:
            regret = layer.question.as_regret().assigned_losses(self._table, assignment)
            worst = float(regret[assignment >= 0].max(initial=0.0))
            left["worst_regret"] = worst if np.isfinite(worst) else None
        return {
            **left,
            "record": record,
            "sources": cover.sources.tolist(),
            "by_gain": order.tolist(),
            "served": served.sum(1).tolist(),
            # With its rows in the page, the page finds out who serves whom by itself.
            "assignment": None
            if here
            else self.blobs.add(place[assignment].astype(kind)),
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
