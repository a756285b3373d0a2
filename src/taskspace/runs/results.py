"""What a run found: typed, and one JSON file of it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from taskspace._util.files import plain, read_record, read_sealed, write_sealed
from taskspace.cover.cover import Cover
from taskspace.cover.curve import CoverageCurve, coverage_curve
from taskspace.cover.methods import METHODS, find_cover
from taskspace.errors import DamagedFileError, InvalidInputError, TaskspaceError
from taskspace.performance.study import Study
from taskspace.performance.table import (
    family_rows,
    provenance_of,
    source_space,
    target_space,
)
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.spaces import Grid
from taskspace.systems.base import Provenance


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
        """Plain values."""
        values = asdict(self)
        del values["question"]
        return self.question.to_dict() | values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read what `to_dict` gave.

        Args:
            values: plain values.
        """
        return read_record(values, cls, "A curve", question=Question.from_dict(values))


@dataclass(frozen=True)
class Spent:
    """What the whole table cost.

    Args:
        trainings: policies trained.
        evaluations: pairs of a policy and a target.
        environment_steps: simulated steps of all trainings.
        trainings_per_source: policies of a source.
    """

    trainings: int
    evaluations: int
    environment_steps: int
    trainings_per_source: int

    def trained_for(self, method: str, n_sources: float) -> int:
        """Policies that had to be trained before a method could choose.

        `greedy`, `local` and `minimum` choose from the finished table, so they need
        all of it; `uniform` and `random` need the sources that they select.

        Args:
            method: name of the method.
            n_sources: sources that it selects.
        """
        if METHODS[method].needs_whole_table:
            return self.trainings
        return round(n_sources) * self.trainings_per_source


@dataclass(frozen=True)
class Scores:
    """How good the policies are.

    Args:
        home: least and largest J at home, over all policies.
        best: least and largest of the best known J over the targets.
        solved_return: J from which a task counts as solved, if that is agreed.
        n_policies: how many policies there are.
        n_failed: how many do not solve their own task.
        n_sources_with_a_failure: sources of which at least one policy fails.
        n_sources_all_failed: sources of which every policy fails.
        dead_axes: context axes along which no performance changes at all.
        ignorant: least and largest J of the policy that does nothing at some targets,
            if it was tried.
        n_no_better: at how many of these targets no policy of the table is better.
        n_tried: how many targets were tried.
    """

    home: tuple[float | None, float | None]
    best: tuple[float | None, float | None]
    n_policies: int
    solved_return: float | None = None
    n_failed: int = 0
    n_sources_with_a_failure: int = 0
    n_sources_all_failed: int = 0
    dead_axes: tuple[str, ...] = ()
    ignorant: tuple[float | None, float | None] | None = None
    n_no_better: int = 0
    n_tried: int = 0


@dataclass(frozen=True)
class Results:
    """Everything that an experiment asks of its table.

    Args:
        covers: one per question and method.
        curves: coverage against sources, for the methods that have a curve.
        spent: what the table cost.
        scores: how good its policies are.
        n_sources: sources in the table.
        n_targets: targets in the table.
        best_known_kind: what regret is against.
        provenance: where the numbers come from.
        n_episodes: episodes that a sampled number is the mean of.
        schedules: for each question the interpolated `Schedule` with the fewest
            breakpoints, or a sentence why there is none, if they are asked for.
        failures: sources whose training failed: number, context and reason.
        settings: what the covers depend on, beside table, question and method.
        table: stands for the table that they are about.
    """

    covers: tuple[Cover, ...]
    curves: tuple[Curve, ...]
    spent: Spent
    scores: Scores
    n_sources: int
    n_targets: int
    best_known_kind: str
    provenance: Provenance
    n_episodes: int = 0
    schedules: tuple[Any, ...] = ()
    failures: tuple[dict[str, Any], ...] = ()
    settings: dict[str, int | float] = field(default_factory=dict)
    table: str = ""

    @property
    def by_question(self) -> Iterator[tuple[Question, list[Cover]]]:
        """The covers, question by question."""
        questions = dict.fromkeys(answer.question for answer in self.covers)
        for question in questions:
            if question is not None:
                yield question, [a for a in self.covers if a.question == question]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; no time and no machine is in them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["covers"] = [cover.to_dict() for cover in self.covers]
        for record in values["covers"]:
            del record["seconds"]
        values["curves"] = [curve.to_dict() for curve in self.curves]
        values["schedules"] = [
            s if isinstance(s, str) else s.to_dict() for s in self.schedules
        ]
        for record in values["schedules"]:
            if isinstance(record, dict):
                del record["seconds"]
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
            covers = tuple(Cover.from_dict(r) for r in values["covers"])
            curves = tuple(map(Curve.from_dict, values["curves"]))
            schedules = tuple(map(_schedule_of, values.get("schedules", ())))
            given = {"covers": covers, "curves": curves, "schedules": schedules}
            return read_record(values, cls, str(path), **given)
        except (
            AttributeError, KeyError, TypeError, ValueError, TaskspaceError,
        ) as error:  # fmt: skip
            raise DamagedFileError(
                f"{path} is not what this taskspace writes: {error!r}."
            ) from error


def _schedule_of(record: Any) -> Any:
    if isinstance(record, str):
        return record
    from taskspace.schedules import Schedule  # compiled kernels

    return Schedule.from_dict({**record, "seconds": 0.0})


# Points kept of a coverage curve: as many as a picture can show.
CURVE_POINTS = 300
# Rows of the table that are looked at for axes without any effect.
PROBED_ROWS = 32


def answer(
    table: xr.Dataset,
    experiment: Experiment,
    report: Progress | None = None,
    *,
    solved_return: float | None = None,
    known: Results | None = None,
) -> Results:
    """Everything an experiment asks of its table.

    Args:
        table: the performance table.
        experiment: the questions and methods.
        report: told about progress.
        solved_return: J from which a task counts as solved, if that is agreed.
        known: answers of an earlier call for the same table, which are taken over
            where the settings of the covers are the same.
    """
    report = report or silent
    settings = cover_settings(experiment)
    known = known if known and known.settings == settings else None
    sources = source_space(table)
    shape = sources.shape if isinstance(sources, Grid) else None
    methods = [
        METHODS[name]
        for name in experiment.cover.methods
        if shape or not METHODS[name].needs_grid
    ]
    questions = experiment.questions
    steps = len(questions) * (len(methods) + 1)
    covers: list[Cover] = []
    curves: list[Curve] = []
    for number, question in enumerate(questions):
        done = number * (len(methods) + 1)
        report("cover", done, steps, question.statement)
        old = _known_answers(known, question)
        sets = None
        for step, method in enumerate(methods):
            report(
                "cover", done + step + 1, steps, f"{method.name}: {question.statement}"
            )
            if method.name in old:
                covers.append(old[method.name])
                curves += [
                    c
                    for c in (known.curves if known else ())
                    if c.question == question and c.method == method.name
                ]
                continue
            sets = question.sets(table) if sets is None else sets
            cover = find_cover(
                sets,
                method=method.name,
                shape=shape,
                time_limit=experiment.cover.time_limit,
                seed=experiment.seed,
            )
            sizes = None
            if method.has_curve:
                curve = coverage_curve(
                    sets,
                    method=method.name,
                    n_repeats=experiment.cover.n_repeats,
                    seed=experiment.seed,
                    shape=shape,
                )
                curves.append(_thinned(curve, question))
                if method.name == "random":
                    sizes = curve.size_spread
            covers.append(cover.about(table, sizes))
    report("cover", steps, steps, "")
    return Results(
        covers=tuple(covers),
        curves=tuple(curves),
        spent=Spent(
            table["home_performance"].size,
            table["home_performance"].size * table.sizes["target"],
            int(table["environment_steps"].sum()),
            table.sizes["policy"],
        ),
        scores=_scores(table, solved_return),
        n_sources=table.sizes["source"],
        n_targets=table.sizes["target"],
        best_known_kind=table.attrs["best_known_kind"],
        provenance=provenance_of(table),
        n_episodes=int(table.attrs.get("n_episodes", 0)),
        settings=settings,
    )


def cover_settings(experiment: Experiment) -> dict[str, int | float]:
    """Return what an answer depends on, beside its table, question and method.

    Args:
        experiment: who asks.
    """
    settings = {
        "n_repeats": experiment.cover.n_repeats,
        "time_limit": experiment.cover.time_limit,
        "seed": experiment.seed,
    }
    if experiment.schedule is not None:
        settings["candidates"] = experiment.schedule.candidates
        settings["between"] = experiment.schedule.between
    return settings


def find_schedules(
    study: Study, experiment: Experiment, report: Progress, known: Results | None
) -> tuple[Any, ...]:
    """Return the schedules that an experiment asks for, see `Results.schedules`.

    Args:
        study: of the run.
        experiment: who asks.
        report: told about progress.
        known: answers of an earlier call, as for `answer`.
    """
    spec = experiment.schedule
    if spec is None or not spec.candidates:
        return ()
    from taskspace.schedules import schedule  # compiled kernels

    old: dict[Question, Any] = {}
    if known and known.settings == cover_settings(experiment):
        asked = [question for question, _ in known.by_question]
        old = dict(zip(asked, known.schedules, strict=False))
    found = []
    for place, question in enumerate(experiment.questions):
        report("schedule", place, len(experiment.questions), question.statement)
        if question not in old:
            try:
                old[question] = schedule(
                    study,
                    question,
                    candidates=spec.candidates,
                    between=spec.between,
                    constant_pieces=False,  # the covers say it
                )
            except InvalidInputError as error:
                old[question] = str(error)
        found.append(old[question])
    report("schedule", len(found), len(found), "")
    return tuple(found)


def _known_answers(known: Results | None, question: Question) -> dict[str, Cover]:
    if known is None:
        return {}
    mine = (a for a in known.covers if a.question == question)
    return {a.method: a for a in mine}


def _thinned(curve: CoverageCurve, question: Question) -> Curve:
    # All of a short curve; of a long one as many points as a picture can show.
    n = len(curve.n_sources)
    if n == 0:  # no target can be served
        return Curve(question, curve.method, (), (), (), ())
    spread = np.geomspace(1, n, CURVE_POINTS) if n > CURVE_POINTS else np.arange(1, n)
    kept = np.unique(np.append(spread.round().astype(int), n) - 1)
    shares = (curve.coverage, curve.low, curve.high)
    return Curve(
        question,
        curve.method,
        tuple(curve.n_sources[kept].tolist()),
        *(tuple(share[kept].round(6).tolist()) for share in shares),
    )


def _scores(table: xr.Dataset, solved_return: float | None) -> Scores:
    """How good the policies are at home, and what no policy changes."""
    home = table["home_performance"].values
    best = table["best_known"].values
    best = best[~np.isnan(best)]  # no reference
    failed = home == -np.inf if solved_return is None else home < solved_return
    return Scores(
        home=(float(home.min()), float(home.max())),
        best=(float(best.min()), float(best.max())) if len(best) else (None, None),
        n_policies=int(home.size),
        solved_return=solved_return,
        n_failed=int(failed.sum()),
        n_sources_with_a_failure=int(failed.any(1).sum()),
        n_sources_all_failed=int(failed.all(1).sum()),
        dead_axes=_dead_axes(table),
    )


def _dead_axes(table: xr.Dataset) -> tuple[str, ...]:
    """Axes of the targets along which the performance of no probed row changes."""
    targets = target_space(table)
    if not isinstance(targets, Grid):
        return ()
    name = next(n for n in ("performance", "worst", "best") if n in table)
    step = max(1, table.sizes["source"] // PROBED_ROWS)
    rows = slice(0, table.sizes["source"], step)
    reduction = "worst" if name == "performance" else name
    probed = family_rows(table, reduction, rows).reshape(-1, *targets.shape)
    if (probed == -np.inf).all():
        return ()
    return tuple(
        axis.name
        for place, axis in enumerate(targets.axes, start=1)
        if axis.n > 1 and (np.take(probed, [0], place) == probed).all()
    )
