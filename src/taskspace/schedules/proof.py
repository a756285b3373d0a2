"""What is proven of a schedule on a whole box of contexts.

On a cell the interpolated numbers are a polynomial of the context (of its logarithm on
log axes), so the closed loop is a formula, and the bounds of
`taskspace.certificates.boxes` hold for whole boxes. Boxes are cut at the breakpoints,
then halved until each is decided. The numbers are widened by what rounding may change
in an implementation in double precision, so the proof is about that, too.

Where contexts are measured with an error, the numbers are those of the measured context
and the plant is that of the true one: two boxes, which vary each for itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask
from taskspace._util.clock import Clock
from taskspace._util.words import round_to_side
from taskspace.certificates.boxes.boxes import (
    Bounds,
    Boxes,
    NoEnclosureError,
    check_cost,
)
from taskspace.certificates.boxes.levels import check_level, level_bounds
from taskspace.certificates.boxes.linear import (
    KINDS,
    MAGNITUDE,
    TracedFamily,
    relative_widths,
)
from taskspace.certificates.boxes.loops import cost_bounds
from taskspace.certificates.statements import (
    Certificate,
    context_words,
    percent,
)
from taskspace.errors import InvalidInputError
from taskspace.measured import ErrorBounds
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.schedules.cells import losses_at
from taskspace.schedules.parameters import PI, PID, Structure
from taskspace.schedules.table import Scale, Schedule
from taskspace.spaces import Grid
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.measures import MEASURES
from taskspace.systems.linear.tracing.loops import LoopTape, loop_trace
from taskspace.systems.linear.tracing.symbols import LOGARITHM, Symbol
from taskspace.systems.linear.tracing.traced import UntraceableError

ROUNDINGS = 16
"""Units of 2⁻⁵² of the largest number at a cell's vertices, per axis, by which an
implementation in double precision may differ from the formula; on log axes times what
the logarithms cancel."""
MAX_BOXES = 200_000


@dataclass(frozen=True)
class Side:
    """One axis of a cell: between two breakpoints, or beyond the last one.

    Args:
        column: of the context at which the numbers are looked up.
        low: the breakpoint below.
        high: the breakpoint above; the same one beyond the ends.
        scale: of the interpolation.
    """

    column: int
    low: float
    high: float
    scale: Scale

    def share(self, tape: LoopTape) -> Symbol | None:
        """Return how far the context is from `low` to `high`; None beyond the ends.

        Args:
            tape: where the formula is written.
        """
        if self.low == self.high:
            return None
        x = tape.axis(self.column)
        low, high = tape.numbers(np.array([self.low, self.high]))
        if self.scale == "log":
            x, low, high = (_logarithm(symbol) for symbol in (x, low, high))
        return (x - low) / (high - low)

    @property
    def roundings(self) -> float:
        """Units by which a share that is computed may differ from the formula."""
        if self.low == self.high or self.scale == "linear":
            return ROUNDINGS
        low, high = np.log(self.low), np.log(self.high)
        return ROUNDINGS * (1 + max(abs(low), abs(high)) / (high - low))


def _logarithm(symbol: Symbol) -> Symbol:
    return Symbol(symbol.tape, symbol.tape.add(LOGARITHM, symbol.index))


@dataclass(frozen=True, eq=False)
class CellPolicy:
    """The policy of one cell, a formula of the context.

    Args:
        structure: makes policies from numbers.
        corners: numbers at the vertices, shape `(2, …, 2, number)`.
        sides: the cell's axes.
    """

    structure: Structure
    corners: Array
    sides: tuple[Side, ...]

    def on(self, tape: LoopTape) -> tuple[NDArray[Any], ...]:
        """Return the matrices of the policy as symbols.

        Args:
            tape: where the formulas are written.
        """
        values = tape.numbers(self.corners)
        for side in self.sides:
            share = side.share(tape)
            values = values[0] if share is None else _mixed(values[0], values[1], share)
        sizes = np.abs(self.corners).reshape(-1, self.corners.shape[-1]).max(0)
        roundings = sum(side.roundings for side in self.sides)
        numbers = [
            value + tape.rounded_zero(float(roundings * size)) if size else value
            for value, size in zip(values.tolist(), sizes, strict=True)
        ]
        return self._matrices(tape, numbers)

    def _matrices(self, tape: LoopTape, p: list[Symbol]) -> tuple[NDArray[Any], ...]:
        structure = self.structure
        zero, one = tape.numbers(np.array([0.0, 1.0]))
        if structure.is_gain:
            return (_matrix([p]).reshape(structure.shape),)
        if structure.names == PI:
            kp, ki = p
            return _matrix([[zero]]), _matrix([[one]]), _matrix([[ki]]), _matrix([[kp]])
        if structure.names == PID:
            kp, ki, kd, tau = p
            return (
                _matrix([[zero, zero], [zero, -(one / tau)]]),
                _matrix([[one], [one / tau]]),
                _matrix([[ki, -(kd / tau)]]),
                _matrix([[kp + kd / tau]]),
            )
        n_inputs, n_outputs = structure.shape
        empty = (
            tape.numbers(np.zeros(shape))
            for shape in ((0, 0), (0, n_outputs), (n_inputs, 0))
        )
        return (*empty, _matrix([p]).reshape(structure.shape))


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
    rows = study.require_system().contexts(study.targets)
    low, high = rows.min(0), rows.max(0)
    scope = "every context of the box"
    try:
        proof = prove_schedule(
            study.require_system(),
            schedule,
            question,
            low,
            high,
            time_limit=time_limit,
            progress=progress,
        )
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
    if proof.holds:
        why = (
            f"Between and beyond its breakpoints {about} meets {question} at every "
            "context of the box that stays as it is: "
            f"{proof.n_boxes:,} box{'es' * (proof.n_boxes != 1)}, {proof.basis}."
        )
        return Certificate("schedule", True, "proof", why, values, scope)
    assert proof.context is not None
    place = context_words(proof.context, list(proof.context))
    if proof.holds is False:
        loss = round_to_side(proof.loss, up=False, digits=4)
        why = f"At {place} {about} fails {question}: its loss there is at least {loss}."
        return Certificate("schedule", False, "proof", why, values, scope)
    why = (
        f"{percent(proof.share)} of the box is proven, and nothing refuted; "
        f"{place}, for one, is open. The search was ended by: {proof.ended}."
    )
    return Certificate("schedule", False, "vacuous", why, values, scope)


class ScheduleBounds:
    """Bounds on the loss of a schedule over boxes, cell by cell.

    Args:
        system: a linear family with an infinite horizon.
        schedule: numbers at breakpoints.
        question: what is asked.
        low: lower corner of the whole box of true contexts.
        high: upper corner.
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
        names = [axis.name for axis in system.axes]
        for name in schedule.names:
            if name not in names:
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
            if demand.measure == "performance":
                check_cost(demand)
            else:
                check_level(demand)
        system.stacked(schedule.policies)  # refuses what does not fit the plant
        self.system, self.schedule, self.question = system, schedule, question
        self.low, self.high = low, high
        self.columns = [names.index(name) for name in schedule.names]
        sigma = np.ascontiguousarray(system.initial_covariance)
        about = (schedule.gains, sigma, *schedule.breakpoints.values())
        self.family = TracedFamily(system, default, question, about)
        # A measured context has columns of its own, behind those of the true one.
        self.width = len(names)
        self.offset = 0 if question.error is None else self.width

    def cell(self, index: Sequence[int]) -> CellPolicy:
        """Return the policy of a cell.

        Args:
            index: per axis 0 below the first breakpoint, then one more per segment.
        """
        sides, ends = [], []
        for a, (name, values) in enumerate(self.schedule.breakpoints.items()):
            low, high = max(index[a] - 1, 0), min(index[a], len(values) - 1)
            column = self.offset + self.columns[a]
            scale = self.schedule.interpolation[name]
            sides.append(Side(column, float(values[low]), float(values[high]), scale))
            ends.append([low, high])
        corners = self.schedule.gains[np.ix_(*ends)]
        return CellPolicy(self.schedule.structure, corners, tuple(sides))

    def bounds(self, policy: CellPolicy, boxes: Boxes) -> Bounds:
        """Return bounds on the loss on each box of one cell, by all demands.

        Args:
            policy: of the cell.
            boxes: of true contexts, and of measured ones behind them.
        """
        true = Boxes(boxes.low[:, : self.width], boxes.high[:, : self.width])
        self.family.check(true)
        low, high = self._of(self.question.demands[0], policy, boxes)
        for demand in self.question.also:
            other = self._of(demand, policy, boxes)
            low = np.where(other[0] > demand.epsilon, np.inf, low)
            high = np.where(other[1] <= demand.epsilon, high, np.inf)
        return low, high

    def feasible(self, rows: Array) -> tuple[Array, Mask]:
        """Return rows whose true context is within the error of the measured one.

        Args:
            rows: true contexts, and measured ones behind them.

        Returns:
            Rows with the true context moved, if need be, and where that is surely
            within the error.
        """
        error, n = self.question.error, self.width
        if error is None:
            return rows, np.ones(len(rows), np.bool_)
        rows, there = rows.copy(), np.ones(len(rows), np.bool_)
        names = [axis.name for axis in self.system.axes]
        for column, axis in enumerate(error.columns(names)):
            seen = rows[:, n + column]
            if axis is not None:
                reach = axis.reach(seen, rounded=-1.0)
                moved = np.clip(rows[:, column], seen - reach, seen + reach)
                there &= (moved >= self.low[column]) & (moved <= self.high[column])
                rows[:, column] = moved
        return rows, there

    def _of(self, demand: Question, policy: CellPolicy, boxes: Boxes) -> Bounds:
        if demand.measure != "performance":
            measure = MEASURES[demand.measure]
            return level_bounds(self.family, measure, boxes, policy, demand.epsilon)
        trace = loop_trace(self.family.trace, policy)
        sigma = np.ascontiguousarray(self.system.initial_covariance)
        sigmas = np.pad(sigma, (0, len(trace.A) - len(sigma))), sigma
        kind = KINDS[demand.rule.box_bounds]
        return cost_bounds(self.family, boxes, trace, kind, np.zeros(2), sigmas)


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
    work = ScheduleBounds(system, schedule, question, low, high)
    queue = [
        (work.cell(index), boxes)
        for index, boxes in _first_boxes(work, low, high, question.error)
    ]
    # Boxes of all cells are halved in turn, the widest share first: counted work.
    total, proven, n_boxes, ended = 0.0, 0.0, 0, "every box was decided"
    open_boxes = [(cell, boxes, _volumes(boxes, low, high)) for cell, boxes in queue]
    total = sum(float(volume.sum()) for _, _, volume in open_boxes)
    while open_boxes:
        left = []
        for cell, boxes, volume in open_boxes:
            below, above = work.bounds(cell, boxes)
            n_boxes += len(boxes)
            bad = np.flatnonzero(below > question.epsilon)
            centres = boxes[bad].centre
            rows, there = work.feasible(centres)
            # A bound of a box says nothing about a context that was moved.
            there &= (rows == centres).all(1)
            if there.any():
                first = int(there.argmax())
                row, loss = rows[first, : work.width], float(below[bad[first]])
                return _result(work, False, proven / total, n_boxes, row, loss)
            is_proven = above <= question.epsilon
            proven += float(volume[is_proven].sum())
            rest = np.flatnonzero(~is_proven)
            if len(rest):
                left.append((cell, boxes[rest], volume[rest]))
        count = sum(len(boxes) for _, boxes, _ in left)
        report("boxes", proven, total, f"{count:,} open boxes")
        if not left:
            break
        failing = _refuted(work, left)
        if failing is not None:
            return _result(work, False, proven / total, n_boxes, *failing)
        if n_boxes + 2 * count > MAX_BOXES or clock.left <= 0:
            ended = "time limit" if clock.left <= 0 else f"{MAX_BOXES:,} boxes"
            cell, boxes, _ = left[0]
            middle = boxes.centre[:1]
            loss = float(_computed(work, middle)[0])
            row = middle[0, : work.width]
            share = proven / total
            return _result(work, None, share, n_boxes, row, loss, ended)
        open_boxes = [
            (cell, *_halved(work, boxes, volume, low, high))
            for cell, boxes, volume in left
        ]
    return _result(work, True, 1.0, n_boxes, None, np.nan)


def _result(
    work: ScheduleBounds,
    holds: bool | None,
    share: float,
    n_boxes: int,
    row: Array | None,
    loss: float,
    ended: str = "decided",
) -> ScheduleProof:
    names = [axis.name for axis in work.system.axes]
    place = None
    if row is not None:
        varied = work.high > work.low
        place = {
            n: float(x)
            for n, x, varies in zip(names, row, varied, strict=True)
            if varies or n in work.schedule.names
        }
    basis, assumption = work.family.basis, work.family.assumption
    return ScheduleProof(
        holds, share, n_boxes, place, float(loss), basis, assumption, ended
    )


def _first_boxes(
    work: ScheduleBounds, low: Array, high: Array, error: ErrorBounds | None
) -> "list[tuple[tuple[int, ...], Boxes]]":
    """Return the cells that the box meets, each with the part of the box in it."""
    at_low, at_high = low, high
    names = [axis.name for axis in work.system.axes]
    if error is not None:
        at_low, at_high = error.measured_range(names, low, high)
        at_low = np.nextafter(at_low, -np.inf)
        at_high = np.nextafter(at_high, np.inf)
    parts = []
    for column, name in zip(work.columns, work.schedule.names, strict=True):
        values = work.schedule.breakpoints[name]
        first, last = at_low[column], at_high[column]
        edges = [-np.inf, *values.tolist(), np.inf]
        kept = []
        for i in range(len(values) + 1):
            lo, hi = max(edges[i], first), min(edges[i + 1], last)
            if lo < hi or (lo == hi and first == last and not kept):
                kept.append((i, lo, hi))
        parts.append(kept)
    found = []
    for combination in product(*parts):
        index = tuple(i for i, _, _ in combination)
        box_low, box_high = low.copy(), high.copy()
        seen_low, seen_high = at_low.copy(), at_high.copy()
        for column, (_, lo, hi) in zip(work.columns, combination, strict=True):
            seen_low[column], seen_high[column] = lo, hi
        if error is None:
            found.append((index, Boxes(seen_low[None], seen_high[None])))
            continue
        row = np.concatenate([box_low, seen_low]), np.concatenate([box_high, seen_high])
        boxes = _clipped(work, Boxes(row[0][None], row[1][None]))
        if len(boxes):
            found.append((index, boxes))
    return found


def _clipped(work: ScheduleBounds, boxes: Boxes) -> Boxes:
    """Return boxes without true contexts beyond the error of the measured ones."""
    error = work.question.error
    if error is None:
        return boxes
    n, names = work.width, [axis.name for axis in work.system.axes]
    reach_low, reach_high = error.dilate(names, boxes.low[:, n:], boxes.high[:, n:])
    low, high = boxes.low.copy(), boxes.high.copy()
    low[:, :n] = np.maximum(low[:, :n], reach_low)
    high[:, :n] = np.minimum(high[:, :n], reach_high)
    return Boxes(low, high)[np.flatnonzero((low <= high).all(1))]


def _volumes(boxes: Boxes, low: Array, high: Array) -> Array:
    """Return volumes in shares of the whole range of each column."""
    span = np.where(high > low, high - low, 1.0)
    n = len(low)
    width = boxes.high - boxes.low
    scaled = width / np.tile(span, boxes.low.shape[1] // n)
    return np.prod(np.where(width > 0, scaled, 1.0), axis=1)


def _halved(
    work: ScheduleBounds, boxes: Boxes, volume: Array, low: Array, high: Array
) -> tuple[Boxes, Array]:
    """Return both halves of every box, cut where it is relatively widest."""
    extent = np.tile(high - low, boxes.low.shape[1] // len(low))
    widest = relative_widths(boxes, extent).argmax(1)
    rows = np.arange(len(boxes))
    middle = boxes.centre[rows, widest]
    lower, upper = boxes.high.copy(), boxes.low.copy()
    lower[rows, widest], upper[rows, widest] = middle, middle
    halves = Boxes(
        np.concatenate([boxes.low, upper]), np.concatenate([lower, boxes.high])
    )
    clipped = _clipped(work, halves)
    return clipped, _volumes(clipped, low, high)


def _computed(work: ScheduleBounds, rows: Array) -> Array:
    """Return the losses that are computed, not proven, at contexts."""
    true, seen = rows[:, : work.width], rows[:, work.offset :]
    numbers = work.schedule.numbers_at(seen[:, work.columns])
    policies = work.schedule.structure.policies(numbers[:, None])
    return losses_at(work.system, work.question, policies, true)


def _refuted(
    work: ScheduleBounds, left: "list[tuple[CellPolicy, Boxes, Array]]"
) -> tuple[Array, float] | None:
    """Return a context that surely fails, among the middles of open boxes."""
    for cell, boxes, _ in left:
        rows, there = work.feasible(boxes[:4].centre)
        rows = rows[there]
        losses = _computed(work, rows)
        bad = np.flatnonzero(losses > work.question.epsilon)
        if len(bad):
            point = Boxes.points(rows[bad[:1]])
            below, _ = work.bounds(cell, point)
            if below[0] > work.question.epsilon:
                return point.low[0, : work.width], float(below[0])
    return None
