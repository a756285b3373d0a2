"""What is proven of a schedule on a whole box of contexts.

On a cell the interpolated numbers are a polynomial of the context (of its logarithm on
log axes), so the closed loop is a formula, and the bounds of
`taskspace.certificates.boxes` hold for whole boxes. Boxes are cut at the breakpoints,
then halved until each is decided. The numbers are widened by what rounding may change
in an implementation in double precision, so the proof is about that, too.

Where contexts are measured with an error, the numbers are those of the measured context
and the plant is that of the true one: two boxes, which vary each for itself.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.decimals import round_to_side
from taskspace.certificates.boxes.boxes import (
    Bounds,
    Boxes,
    NoEnclosureError,
    check_cost,
)
from taskspace.certificates.boxes.linear import (
    KINDS,
    MAGNITUDE,
    TracedFamily,
    relative_widths,
)
from taskspace.certificates.boxes.loops import check_level, cost_bounds, level_bounds
from taskspace.certificates.statements import (
    Certificate,
    context_words,
    percent,
)
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.schedules.parameters import PI, Structure
from taskspace.schedules.search import losses_at
from taskspace.schedules.table import Scale, Schedule
from taskspace.spaces import Grid
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.measures import MEASURES
from taskspace.systems.linear.tracing.loops import LoopTape, loop_trace
from taskspace.systems.linear.tracing.symbols import LOGARITHM, Symbol
from taskspace.systems.linear.tracing.traced import UntraceableError

# Units of 2⁻⁵² of the largest number at a cell's vertices, per axis, by which an
# implementation in double precision may differ from the formula; on log axes times what
# the logarithms cancel.
ROUNDINGS = 16
MAX_BOXES = 200_000
# Open boxes of a cell in the middle of which a failure is looked for.
N_TRIED = 4


def roundings(low: float, high: float, scale: Scale) -> float:
    """Return the units by which a computed share may differ from the formula.

    Args:
        low: the breakpoint below.
        high: the breakpoint above; the same one beyond the ends.
        scale: of the interpolation.
    """
    if low == high or scale == "linear":
        return ROUNDINGS
    log_low, log_high = np.log(low), np.log(high)
    return ROUNDINGS * (1 + max(abs(log_low), abs(log_high)) / (log_high - log_low))


@dataclass(frozen=True, eq=False)
class CellPolicy:
    """The policy of one cell, a formula of the context.

    Args:
        structure: makes policies from numbers.
        corners: numbers at the vertices, shape `(2, …, 2, number)`.
        sides: for each axis the column of the context at which the numbers are looked
            up, the breakpoints below and above (the same one beyond the ends), and
            the scale.
    """

    structure: Structure
    corners: Array
    sides: list[tuple[int, float, float, Scale]]

    def on(self, tape: LoopTape) -> tuple[NDArray[Any], ...]:
        """Return the matrices of the policy as symbols.

        Args:
            tape: where the formulas are written.
        """
        values = tape.numbers(self.corners)
        for column, low, high, scale in self.sides:
            if low == high:
                values = values[0]
                continue
            x, (first, last) = tape.axis(column), tape.numbers(np.array([low, high]))
            if scale == "log":
                x, first, last = (_logarithm(symbol) for symbol in (x, first, last))
            share = (x - first) / (last - first)
            values = _mixed(values[0], values[1], share)
        sizes = np.abs(self.corners).reshape(-1, self.corners.shape[-1]).max(0)
        units = sum(roundings(*side[1:]) for side in self.sides)
        numbers = [
            value + tape.rounded_zero(float(units * size)) if size else value
            for value, size in zip(values.tolist(), sizes, strict=True)
        ]
        return _matrices(self.structure, tape, numbers)


def _logarithm(symbol: Symbol) -> Symbol:
    return Symbol(symbol.tape, symbol.tape.add(LOGARITHM, symbol.index))


def _matrices(
    structure: Structure, tape: LoopTape, p: list[Symbol]
) -> tuple[NDArray[Any], ...]:
    """Return the matrices of a policy from its numbers, all of them symbols."""
    zero, one = tape.numbers(np.array([0.0, 1.0]))
    if structure.is_gain:
        return (_matrix([p]).reshape(structure.shape),)
    if structure.names == PI:
        kp, ki = p
        return _matrix([[zero]]), _matrix([[one]]), _matrix([[ki]]), _matrix([[kp]])
    kp, ki, kd, tau = p
    return (
        _matrix([[zero, zero], [zero, -(one / tau)]]),
        _matrix([[one], [one / tau]]),
        _matrix([[ki, -(kd / tau)]]),
        _matrix([[kp + kd / tau]]),
    )


def _mixed(first: Any, second: Any, share: Symbol) -> NDArray[Any]:
    out = np.empty(first.shape, object)
    for place in np.ndindex(first.shape):
        low, high = first[place], second[place]
        out[place] = low if low.index == high.index else low + share * (high - low)
    return out


def _matrix(rows: list[list[Symbol]]) -> NDArray[Any]:
    out = np.empty((len(rows), len(rows[0])), object)
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            out[i, j] = entry
    return out


@dataclass(frozen=True, eq=False)
class ScheduleProof:
    """What was decided of a schedule on a whole box.

    Args:
        holds: True where every context is proven served, False where one is proven not
            to be, None where that is open.
        share: of the box that is proven served.
        n_boxes: how many boxes were looked at.
        context: where it fails, or a context that is not decided; None if it holds.
        loss: a lower bound on the loss there where it fails, a computed one else.
        basis: what the bounds rest on.
        assumption: what must hold for the formulas to be the plant.
        ended: why the search ended.
    """

    holds: bool | None
    share: float
    n_boxes: int
    context: dict[str, float] | None
    loss: float
    basis: str
    assumption: str
    ended: str


def certify_schedule(
    schedule: Schedule,
    study: Study,
    question: Question,
    time_limit: float,
    progress: Progress,
) -> Certificate:
    """Return the certificate of a schedule on the box of a study's targets.

    Args:
        schedule: numbers at breakpoints.
        study: of the plant.
        question: what is asked.
        time_limit: processor seconds.
        progress: told what is going on.
    """
    if study.system is None or not isinstance(study.targets, Grid):
        raise InvalidInputError(
            "A schedule is certified on the box of a grid of targets of a system, but "
            "this study has none."
        )
    system = study.require_system()
    rows = system.contexts(study.targets)
    ends = rows.min(0), rows.max(0)
    scope = "every context of the box"
    limits: Any = {"time_limit": time_limit, "progress": progress}
    try:
        proof = prove_schedule(system, schedule, question, *ends, **limits)
    except (NoEnclosureError, UntraceableError) as error:
        return Certificate("schedule", False, "vacuous", str(error), scope=scope)
    values = {
        "share": proof.share,
        "n_boxes": proof.n_boxes,
        "context": proof.context,
        "loss": None if np.isnan(proof.loss) else proof.loss,
        "shape": schedule.shape,
        "assumption": proof.assumption,
        "subject": schedule.subject(study, question),
    }
    shape = " × ".join(map(str, schedule.shape))
    about = f"the schedule of {shape} breakpoint{'s' * (shape != '1')}"
    place = context_words(proof.context or {}, list(proof.context or {}))
    kind = "vacuous" if proof.holds is None else "proof"
    if proof.holds:
        why = (
            f"Between and beyond its breakpoints {about} meets {question} at every "
            "context of the box that stays as it is: "
            f"{proof.n_boxes:,} box{'es' * (proof.n_boxes != 1)}, {proof.basis}."
        )
    elif proof.holds is False:
        loss = round_to_side(proof.loss, up=False, digits=4)
        why = f"At {place} {about} fails {question}: its loss there is at least {loss}."
    else:
        why = (
            f"{percent(proof.share)} of the box is proven, and nothing refuted; "
            f"{place}, for one, is open. The search was ended by: {proof.ended}."
        )
    return Certificate("schedule", proof.holds is True, kind, why, values, scope)


def prove_schedule(
    system: System,
    schedule: Schedule,
    question: Question,
    low: Array,
    high: Array,
    *,
    time_limit: float = 60,
    progress: Progress | None = None,
) -> ScheduleProof:
    """Decide whether a schedule serves every context of a box.

    Boxes of all cells are halved in turn: counted work.

    Args:
        system: a linear family with an infinite horizon.
        schedule: numbers at breakpoints.
        question: what is asked.
        low: lower corner of the box, a full context row.
        high: upper corner.
        time_limit: processor seconds.
        progress: told what is going on.
    """
    clock, report = Clock(time_limit), progress or silent
    work = _Work(system, schedule, question, low, high)
    parts = work.first_boxes()
    total = sum(float(work.volumes(boxes).sum()) for _, boxes in parts)
    proven, n_boxes = 0.0, 0

    def result(
        holds: bool | None, row: Array | None, loss: float, ended: str = "decided"
    ) -> ScheduleProof:
        share = 1.0 if holds else proven / total
        place = None if row is None else work.place(row)
        basis = work.family.basis, work.family.assumption
        return ScheduleProof(holds, share, n_boxes, place, float(loss), *basis, ended)

    while True:
        left = []
        for policy, boxes in parts:
            below, above = work.bounds(policy, boxes)
            n_boxes += len(boxes)
            is_proven = above <= question.epsilon
            proven += float(work.volumes(boxes)[is_proven].sum())
            rest = np.flatnonzero(~is_proven)
            if len(rest):
                worst_first = np.argsort(-below[rest], kind="stable")
                left.append((policy, boxes[rest[worst_first]]))
        count = sum(len(boxes) for _, boxes in left)
        report("boxes", proven, total, f"{count:,} open boxes")
        if not left:
            return result(True, None, np.nan)
        for policy, boxes in left:
            failing = work.refuted(policy, boxes[:N_TRIED])
            if failing is not None:
                return result(False, *failing)
        if n_boxes + 2 * count > MAX_BOXES or clock.left <= 0:
            ended = "time limit" if clock.left <= 0 else f"{MAX_BOXES:,} boxes"
            middle = left[0][1].centre[:1]
            return result(None, middle[0], float(work.computed(middle)[0]), ended)
        parts = [(policy, work.halves(boxes)) for policy, boxes in left]


class _Work:
    """A schedule on a box of true contexts: its cells, and bounds on boxes in them.

    Where contexts are measured with an error, boxes have columns for the measured
    context behind those of the true one.
    """

    def __init__(
        self,
        system: System,
        schedule: Schedule,
        question: Question,
        low: Array,
        high: Array,
    ):
        if not isinstance(system, LinearSystem):
            raise NoEnclosureError(
                "An interpolated schedule is proven for linear families, but got "
                f"{type(system).__name__}."
            )
        self.names = [axis.name for axis in system.axes]
        for name in schedule.names:
            if name not in self.names:
                raise InvalidInputError(
                    f"The schedule varies {name}, which is no axis of {system.id}."
                )
        default = np.array([[axis.default for axis in system.axes]])
        if system.is_in_rates and not schedule.structure.is_gain:
            raise NoEnclosureError(
                "A schedule of PI or PID controllers on a plant in rates has no proof "
                "over boxes yet. Give the plant with its integrator as a state."
            )
        if not (np.abs(schedule.gains) <= MAGNITUDE).all():
            raise InvalidInputError(
                f"Numbers must lie in ±{MAGNITUDE:g} for a certificate."
            )
        for demand in question.demands:
            check = check_cost if demand.measure == "performance" else check_level
            check(demand)
        system.stacked(schedule.policies)  # refuses what does not fit the plant
        self.system, self.schedule, self.question = system, schedule, question
        self.low, self.high, self.error = low, high, question.error
        self.columns = [self.names.index(name) for name in schedule.names]
        self.sigma = np.ascontiguousarray(system.initial_covariance)
        about = (schedule.gains, self.sigma, *schedule.breakpoints.values())
        self.family = TracedFamily(system, default, question, about)
        self.n = len(self.names)
        self.behind = 0 if self.error is None else self.n

    def first_boxes(self) -> list[tuple[CellPolicy, Boxes]]:
        """Return the cells that the box meets, each with the part of the box in it."""
        low, high = self.low, self.high
        if self.error is not None:
            low, high = self.error.measured_range(self.names, low, high)
            low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
        parts = []
        for column, values in zip(
            self.columns, self.schedule.breakpoints.values(), strict=True
        ):
            first, last = low[column], high[column]
            edges = [-np.inf, *values.tolist(), np.inf]
            kept = []
            for i in range(len(values) + 1):
                lo, hi = max(edges[i], first), min(edges[i + 1], last)
                if lo < hi or (lo == hi and first == last and not kept):
                    ends = max(i - 1, 0), min(i, len(values) - 1)
                    kept.append((ends, lo, hi))
            parts.append(kept)
        found = []
        for combination in product(*parts):
            at_low, at_high = low.copy(), high.copy()
            for column, (_, lo, hi) in zip(self.columns, combination, strict=True):
                at_low[column], at_high[column] = lo, hi
            if self.error is not None:
                at_low = np.concatenate([self.low, at_low])
                at_high = np.concatenate([self.high, at_high])
            boxes = self._clipped(Boxes(at_low[None], at_high[None]))
            if len(boxes):
                found.append((self._policy([part[0] for part in combination]), boxes))
        return found

    def _policy(self, ends: list[tuple[int, int]]) -> CellPolicy:
        """Return the policy of the cell between some breakpoints."""
        sides: list[tuple[int, float, float, Scale]] = []
        for (low, high), column, (name, values) in zip(
            ends, self.columns, self.schedule.breakpoints.items(), strict=True
        ):
            at = float(values[low]), float(values[high])
            scale = self.schedule.interpolation[name]
            sides.append((self.behind + column, *at, scale))
        return CellPolicy(
            self.schedule.structure, self.schedule.gains[np.ix_(*ends)], sides
        )

    def bounds(self, policy: CellPolicy, boxes: Boxes) -> Bounds:
        """Return bounds on the loss on each box of one cell, by all demands."""
        true = Boxes(boxes.low[:, : self.n], boxes.high[:, : self.n])
        self.family.check(true)
        low, high = self._demand_bounds(self.question.demands[0], policy, boxes)
        for demand in self.question.also:
            other = self._demand_bounds(demand, policy, boxes)
            low = np.where(other[0] > demand.epsilon, np.inf, low)
            high = np.where(other[1] <= demand.epsilon, high, np.inf)
        return low, high

    def _demand_bounds(
        self, demand: Question, policy: CellPolicy, boxes: Boxes
    ) -> Bounds:
        if demand.measure != "performance":
            measure = MEASURES[demand.measure]
            return level_bounds(self.family, measure, boxes, policy, demand.epsilon)
        trace = loop_trace(self.family.trace, policy)
        kind = KINDS[demand.rule.box_bounds]
        return cost_bounds(self.family, boxes, trace, kind, np.zeros(2))

    def computed(self, rows: Array) -> Array:
        """Return the losses that are computed, not proven, at contexts."""
        true, seen = rows[:, : self.n], rows[:, self.behind :]
        numbers = self.schedule.numbers_at(seen[:, self.columns])
        policies = self.schedule.structure.policies(numbers[:, None])
        return losses_at(self.system, self.question, policies, true)

    def refuted(self, policy: CellPolicy, boxes: Boxes) -> tuple[Array, float] | None:
        """Return a context that is proven to fail, near the middles of some boxes."""
        rows = self._within_error(boxes.centre)
        bad = np.flatnonzero(self.computed(rows) > self.question.epsilon)
        if not len(bad):
            return None
        row = rows[bad[:1]]
        below, _ = self.bounds(policy, Boxes.points(row))
        return (row[0], float(below[0])) if below[0] > self.question.epsilon else None

    def place(self, row: Array) -> dict[str, float]:
        """Return a true context by name: what varies, in the box or the schedule."""
        named = zip(self.names, row[: self.n], self.high > self.low, strict=True)
        return {
            name: float(x)
            for name, x, varies in named
            if varies or name in self.schedule.names
        }

    def _within_error(self, rows: Array) -> Array:
        """Return rows whose true context is surely within the error, moved if need be.

        Rows without such a context in the box are left out.
        """
        if self.error is None:
            return rows
        rows, there = rows.copy(), np.ones(len(rows), np.bool_)
        for column, axis in enumerate(self.error.columns(self.names)):
            if axis is not None:
                seen = rows[:, self.n + column]
                reach = axis.reach(seen, rounded=-1.0)
                moved = np.clip(rows[:, column], seen - reach, seen + reach)
                there &= (moved >= self.low[column]) & (moved <= self.high[column])
                rows[:, column] = moved
        return rows[there]

    def _clipped(self, boxes: Boxes) -> Boxes:
        """Return boxes without true contexts beyond the error of the measured ones."""
        if self.error is None:
            return boxes
        n, low, high = self.n, boxes.low.copy(), boxes.high.copy()
        reach_low, reach_high = self.error.dilate(self.names, low[:, n:], high[:, n:])
        low[:, :n] = np.maximum(low[:, :n], reach_low)
        high[:, :n] = np.minimum(high[:, :n], reach_high)
        return Boxes(low, high)[np.flatnonzero((low <= high).all(1))]

    def volumes(self, boxes: Boxes) -> Array:
        """Return volumes in shares of the whole range of each column."""
        width = boxes.high - boxes.low
        span = np.tile(self.high - self.low, width.shape[1] // self.n)
        scaled = width / np.where(span > 0, span, 1.0)
        return np.prod(np.where(width > 0, scaled, 1.0), axis=1)

    def halves(self, boxes: Boxes) -> Boxes:
        """Return both halves of every box, cut where it is relatively widest."""
        extent = np.tile(self.high - self.low, boxes.low.shape[1] // self.n)
        widest = relative_widths(boxes, extent).argmax(1)
        rows = np.arange(len(boxes))
        lower, upper = boxes.high.copy(), boxes.low.copy()
        lower[rows, widest] = upper[rows, widest] = boxes.centre[rows, widest]
        low = np.concatenate([boxes.low, upper])
        return self._clipped(Boxes(low, np.concatenate([lower, boxes.high])))
