"""What a run found: covers and curves, how good its policies are, and their JSON file.

`str(results)` is what `taskspace run` prints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from taskspace._util.arrays import Array
from taskspace._util.decimals import decimal_text
from taskspace._util.files import plain, read_record, read_sealed, write_sealed
from taskspace.cover.cover import Cover, no_reference_words
from taskspace.cover.methods import METHODS, coverage_curve, find_cover
from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.performance.table import provenance_of, source_space
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.spaces import Grid
from taskspace.systems.base import PROVENANCE_WORDS, Provenance

SHOWN_FAILURES = 5


@dataclass(frozen=True)
class Curve:
    """Coverage of one method against the number of sources that it has selected.

    Args:
        question: what is covered for.
        method: name of the method.
        n_sources: sources selected.
        coverage: share of targets served, the mean over repeats.
        low: lower edge of the band over repeats.
        high: upper edge of the band.
    """

    question: Question
    method: str
    n_sources: tuple[int, ...]
    coverage: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        values = asdict(self)
        del values["question"]
        return self.question.to_dict() | values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the curve that `to_dict` gave.

        Args:
            values: plain values.
        """
        return read_record(values, cls, "A curve", question=Question.from_dict(values))


@dataclass(frozen=True)
class Results:
    """Everything that an experiment asks of its table.

    Args:
        covers: one per question and method.
        curves: coverage against sources, for the methods that have a curve.
        n_sources: sources in the table.
        n_policies: policies of each source.
        n_targets: targets in the table.
        provenance: where the numbers come from.
        environment_steps: simulated steps of all trainings.
        scores: what J is, what regret is against, and the range of both, in sentences.
        n_failed: policies that do not solve their own task.
        failures: sources whose training failed: number, context, seed and reason.
        settings: what the covers depend on, apart from the table.
        table: hash of the table that they are about.
    """

    covers: tuple[Cover, ...]
    curves: tuple[Curve, ...]
    n_sources: int
    n_policies: int
    n_targets: int
    provenance: Provenance
    environment_steps: int
    scores: tuple[str, ...]
    n_failed: int = 0
    failures: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] | None = None
    table: str = ""

    @property
    def n_trained(self) -> int:
        """Number of policies trained for the whole table."""
        return self.n_sources * self.n_policies

    @property
    def by_question(self) -> Iterator[tuple[Question, list[Cover]]]:
        """The covers, question by question."""
        for question in dict.fromkeys(cover.question for cover in self.covers):
            if question is not None:
                yield question, [c for c in self.covers if c.question == question]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without any time or machine."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["covers"] = [cover.to_dict() for cover in self.covers]
        for record in values["covers"]:
            del record["seconds"]
        values["curves"] = [curve.to_dict() for curve in self.curves]
        return plain(values)

    def save(self, path: Path) -> None:
        """Write `results.json`.

        Args:
            path: the file.
        """
        write_sealed(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `results.json`.

        Args:
            path: the file.
        """
        values = read_sealed(path, dict[str, Any])
        try:
            covers = tuple(map(Cover.from_dict, values["covers"]))
            curves = tuple(map(Curve.from_dict, values["curves"]))
            return read_record(values, cls, str(path), covers=covers, curves=curves)
        except (
            AttributeError, KeyError, TypeError, ValueError, TaskspaceError,
        ) as error:  # fmt: skip
            raise DamagedFileError(
                f"{path} is not what this taskspace writes: {error!r}."
            ) from error

    # --- for people ---------------------------------------------------------------

    def __str__(self) -> str:
        """Return what was found, for people."""
        lines = [
            f"{self.n_sources:,} sources x {self.n_policies} policies x "
            f"{self.n_targets:,} targets; {self.scores[0]}"
        ]
        for question, covers in self.by_question:
            lines += ["", f"{question.statement}: complexity {self._answer(covers)}"]
            lines += [self._table(question, covers), *_warnings(question, covers)]
        lines += [
            "",
            "worst regret: what the cover leaves, in units of performance. trained: "
            "policies that must be trained before the method can choose. uniform: the "
            "coarsest sub-grid that serves all. random: the mean over draws ± its "
            "standard error.",
            *self.scores[1:],
        ]
        if self.failures:
            lines.append(
                f"! {len(self.failures)} trainings failed; they serve nothing here, "
                "and the next call tries them again:"
            )
        for failure in self.failures[:SHOWN_FAILURES]:
            where = ", ".join(f"{k}={v:.4g}" for k, v in failure["context"].items())
            lines.append(
                f"  source {failure['source']} ({where}), seed {failure['seed']}: "
                f"{' '.join(str(failure['reason']).split())}"
            )
        return "\n".join(lines)

    def _answer(self, covers: list[Cover]) -> str:
        """Return what the covers of one question say of the fewest sources."""
        n_lost, n_targets = len(covers[0].uncoverable), self.n_targets
        if n_lost == n_targets:
            return "not defined: no target can be served"
        full = [c.size for c in covers if round((1 - c.coverage) * n_targets) == n_lost]
        lower = max(cover.lower_bound for cover in covers)
        words = f"at least {lower:g}"
        if full and min(full) == lower:
            scope = f"proven {PROVENANCE_WORDS[self.provenance].scope}".strip()
            words = f"{min(full)} of these {self.n_sources:,} sources, {scope}"
        elif full:
            words = f"in [{lower:g}, {min(full)}]"
        if n_lost:
            words += f", for the {n_targets - n_lost:,} targets that can be served"
        return words

    def _table(self, question: Question, covers: list[Cover]) -> str:
        rows = []
        for cover in covers:
            mean = cover.size if cover.sizes is None else cover.sizes["mean"] or 0.0
            whole = METHODS[cover.method].needs_whole_table
            n_trained = self.n_trained if whole else round(mean) * self.n_policies
            losses = {
                f"worst {question.criterion}": _number(cover.worst_loss),
                "worst regret": _number(cover.worst_regret),
            }
            share = f"{100 * cover.coverage:.4g} %"
            row = {"method": cover.method, "sources": _size(cover), "covered": share}
            rows.append(row | losses | {"trained": f"{n_trained:,}"})
        return pd.DataFrame(rows).to_string(index=False)


def _warnings(question: Question, covers: list[Cover]) -> list[str]:
    """Return what a person must not miss about the covers of one question."""
    sentences, first = [], covers[0]
    if n_lacking := len(first.without_reference):
        sentences.append(
            f"! {no_reference_words(n_lacking)} Ask for a level, or train there."
        )
    if n_lost := len(first.uncoverable) - n_lacking:
        sentences.append(
            f"! No source serves {n_lost:,} of the {first.n_targets:,} targets within "
            f"ε = {decimal_text(question.epsilon)}."
        )
    if misleading := [c.worst_regret or 0.0 for c in covers if c.misleads]:
        sentences.append(
            f"! A cover of {question.rule.short(question.epsilon)} leaves a regret of "
            f"up to {max(misleading):.4g}: it compares each policy with its own score "
            "at home, so a poor policy covers much. Use the regret criterion to deploy."
        )
    return sentences


def _size(cover: Cover) -> str:
    """Return how many sources a cover has, with the spread over repeats."""
    if cover.sizes is not None:
        error, mean = cover.sizes.get("standard_error"), cover.sizes["mean"] or 0.0
        if error is None or np.isnan(error):
            return f"{mean:.0f}"
        return f"{mean:.0f} ± " + (f"{error:.2g}" if error < 10 else f"{error:.0f}")
    return str(cover.size)


def _number(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.4g}"


def answer(
    table: xr.Dataset,
    experiment: Experiment,
    report: Progress | None = None,
    *,
    notes: Sequence[str] = (),
    failures: Sequence[dict[str, Any]] = (),
) -> Results:
    """Answer everything that an experiment asks of its table.

    Args:
        table: the performance table.
        experiment: the questions and methods.
        report: told about progress.
        notes: more sentences about the scores.
        failures: sources whose training failed.
    """
    report, spec, seed = report or silent, experiment.cover, experiment.seed
    sources = source_space(table)
    shape = sources.shape if isinstance(sources, Grid) else None
    methods = [METHODS[name] for name in spec.methods]
    methods = [method for method in methods if shape or not method.needs_grid]
    steps = len(experiment.ask) * len(methods)
    covers: list[Cover] = []
    curves: list[Curve] = []
    for question in experiment.ask:
        sets = None
        for method in methods:
            report("cover", len(covers), steps, f"{method.name}: {question.statement}")
            sets = question.sets(table) if sets is None else sets
            limit = spec.time_limit
            found = find_cover(
                sets, method=method.name, shape=shape, time_limit=limit, seed=seed
            )
            sizes = None
            if method.curve:
                curve = coverage_curve(
                    sets,
                    method=method.name,
                    n_repeats=spec.n_repeats,
                    seed=seed,
                    shape=shape,
                )
                shares = (curve.coverage, curve.low, curve.high)
                columns = [tuple(share.round(6).tolist()) for share in shares]
                n_sources = tuple(curve.n_sources.tolist())
                curves.append(Curve(question, method.name, n_sources, *columns))
                sizes = curve.size_spread if method.name == "random" else None
            covers.append(found.about(table, sizes))
    report("cover", steps, steps, "")
    home, known = table["home_performance"].values, table["best_known"].values
    solved = experiment.built_system.solved_return
    failed = home == -np.inf if solved is None else home < solved
    numbers = PROVENANCE_WORDS[provenance_of(table)].scores
    scores = [
        f"{numbers.format(n_episodes=table.attrs.get('n_episodes', 0))}, regret "
        f"against the {table.attrs['best_known_kind']}",
        *filter(None, [table.attrs.get("cost", "")]),
        f"Scores J at home: {score_range(home)}; the best known at the targets: "
        f"{score_range(known)}.",
        *notes,
    ]
    if failed.any():
        level = "fail" if solved is None else f"stay below {solved:g}"
        scores.append(
            f"! {failed.sum()} of {failed.size} policies {level} at their own "
            "source. The signed criterion does not see that: such a policy has "
            "little to lose, so its tolerance set is large."
        )
    return Results(
        covers=tuple(covers),
        curves=tuple(curves),
        n_sources=table.sizes["source"],
        n_policies=table.sizes["policy"],
        n_targets=table.sizes["target"],
        provenance=provenance_of(table),
        environment_steps=int(table["environment_steps"].sum()),
        scores=tuple(scores),
        n_failed=int(failed.sum()),
        failures=tuple(failures),
        settings=settings_of(experiment),
    )


def score_range(scores: Array) -> str:
    """Return the least and the largest of some scores, for people.

    Args:
        scores: any; NaN is none.
    """
    known = scores[~np.isnan(scores)]
    return f"{known.min():.4g} to {known.max():.4g}" if known.size else "not known"


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """Return what results depend on, apart from the table.

    Args:
        experiment: who asks.
    """
    values = experiment.to_dict()
    return {"ask": values["ask"], "seed": experiment.seed, **values["cover"]}
