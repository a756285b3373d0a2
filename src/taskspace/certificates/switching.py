"""Switching: what is proven of gains that take turns while a context moves.

The strongest first:

- *Any switching*: one X ≻ 0 decays along every gain wherever it is used. Then every
  trajectory converges, however the context moves and whenever gains are switched.
- *Dwell time*: each gain has a matrix X_g that decays with rate λ_g where it is used.
  Any change is stable while one gain is in use. At a switch xᵀXx grows by at most μ, so
  ln μ / (2 λ) between switches keeps it so. A gain that is held until then is used
  beyond its region, by the band of the hysteresis at most if the context changes by
  less than the band in that time: this limits the rate of change.
- *Nothing*: which gain fails, and where.

An axis that is not known but stays constant (the stiffness of one machine) is cut into
stretches with separate matrices, which are halved where no matrices are found.

Matrices are candidates from semidefinite programs; `check_decay` proves them on boxes.
"""

import importlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_continuous_lyapunov, solve_discrete_lyapunov

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.decimals import round_to_side
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.boxes.linear import (
    BoxProgram,
    TracedFamily,
    relative_widths,
)
from taskspace.certificates.boxes.rigor.costs import definite
from taskspace.certificates.boxes.rigor.inequalities import bound_decay
from taskspace.certificates.statements import context_words
from taskspace.errors import MissingExtraError
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem

# Degree of the polynomials on boxes; how often boxes are cut; boxes at most; and
# contexts that a check returns where it fails.
ORDER, MAX_CUTS, MAX_BOXES, WITNESSES = 1, 14, 100_000, 32
# What is taken off a matrix before it is called definite, in units of its rounding.
ROUNDINGS = 16.0
# Closed loops per gain that a candidate is made from at first, and rounds of adding
# those at which it failed.
LOOPS_PER_GAIN, MAX_ROUNDS = 24, 8
# How often a stretch of the axes that stay constant is halved, if it needs to be.
MOST_HALVINGS = 12
# Shares of the decay rate of a candidate, tried one after the other.
RATE_SHARES = (0.9, 0.7, 0.5, 0.25, 0.1, 0.01)


@dataclass(frozen=True, eq=False)
class OperationCertificate:
    """What is proven about gains that take turns while the context moves.

    Args:
        mode: `"any switching"`, `"dwell time"`, or `"none"` where nothing is proven.
        statement: for people; where nothing is proven, why.
        dwell_time: time between two switches that keeps stability, in seconds (in
            steps for discrete time); 0 for any switching, infinite for none.
        drift_rates: largest change of each axis per second (per step) for which
            a dwell time is proven, by name.
        matrices: X of each gain, or one for all of them; of each stretch of the axes
            that stay constant.
        rates: λ with which each decays.
        jump: μ, the largest growth of xᵀXx at a switch.
        failing: a context by name at which nothing could be shown, if any.
    """

    mode: Literal["any switching", "dwell time", "none"]
    statement: str
    dwell_time: float
    drift_rates: Mapping[str, float]
    matrices: Array
    rates: Array
    jump: float
    failing: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what is proven as plain JSON values."""
        return {
            "mode": self.mode,
            "statement": self.statement,
            "dwell_time": float(self.dwell_time),
            "drift_rates": dict(self.drift_rates),
            "rates": self.rates.tolist(),
            "jump": float(self.jump),
            "matrices": self.matrices.tolist(),
        }


# --- closed loops on boxes ------------------------------------------------------------


class GainLoops:
    """Closed loops of gains, at contexts in floats and over boxes with rigour.

    Args:
        system: a linear family with an infinite horizon.
        gains: `(gain, input, state)`.
        boxes: true contexts where gains are used.
        which: gain that is used on each box.
    """

    def __init__(
        self,
        system: LinearSystem,
        gains: Array,
        boxes: Boxes,
        which: NDArray[np.integer],
    ):
        self.system = system
        self.gains = np.ascontiguousarray(gains[:, None], np.float64)
        self.boxes = boxes
        self.which = np.ascontiguousarray(which, np.int64)
        self._family = TracedFamily(
            system, boxes.centre, Question("floor", epsilon=0.0), (self.gains,)
        )

    def cut(self, axes: Sequence[int]) -> "list[GainLoops]":
        """Return the loops on each stretch of some axes, between ends of the boxes.

        A stretch has its ends: boxes that only touch it are in it too.

        Args:
            axes: indices of the axes; for none the loops themselves.
        """
        parts: list[GainLoops] = [self]
        for axis in axes:
            ends = np.unique([self.boxes.low[:, axis], self.boxes.high[:, axis]])
            if len(ends) > 1:
                parts = [cut for part in parts for cut in part._cut_at(axis, ends)]
        return parts

    def halves(self, axes: Sequence[int]) -> "list[GainLoops]":
        """Return the loops on both halves of the widest of some axes.

        Args:
            axes: indices of the axes, of which one at least has a width.
        """
        low, high = self.boxes.low.min(0), self.boxes.high.max(0)
        size = np.abs(low) + np.abs(high)
        width = (high - low) / np.where(size > 0, size, 1.0)
        axis = max(axes, key=lambda i: width[i])
        middle = low[axis] / 2 + high[axis] / 2
        return self._cut_at(axis, np.array([low[axis], middle, high[axis]]))

    def _cut_at(self, axis: int, ends: Array) -> "list[GainLoops]":
        low, high = self.boxes.low, self.boxes.high
        parts: list[GainLoops] = []
        for first, last in pairwise(ends):
            some = np.flatnonzero((low[:, axis] <= last) & (high[:, axis] >= first))
            if not len(some):
                continue
            part = copy(self)
            part.boxes = Boxes(low[some].copy(), high[some].copy())
            part.boxes.low[:, axis] = np.maximum(low[some, axis], first)
            part.boxes.high[:, axis] = np.minimum(high[some, axis], last)
            part.which = self.which[some]
            parts.append(part)
        return parts

    def at(self, contexts: Array, which: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return closed loops and weights at contexts, in floats.

        Args:
            contexts: full context rows.
            which: gain that is used at each.
        """
        a, b, q, r = map(np.asarray, self.system.matrices(contexts)[:4])
        k = self.gains[which, 0]
        return a - b @ k, q + np.swapaxes(k, -1, -2) @ r @ k

    def growth(self, contexts: Array, which: NDArray[np.int64]) -> Array:
        """Return how fast each frozen loop grows, in floats; stable below 0.

        Args:
            contexts: full context rows.
            which: gain that is used at each.
        """
        poles = np.linalg.eigvals(self.at(contexts, which)[0])
        size = poles.real if self.system.is_continuous else np.abs(poles) - 1
        return size.max(1)

    def decay_gaps(
        self, boxes: Boxes, which: NDArray[np.int64], matrices: Array, rates: Array
    ) -> Array:
        """Return a number per box, below 1 where X decays with rate λ on all of it.

        Args:
            boxes: true contexts.
            which: gain that is used on each.
            matrices: X of each gain.
            rates: λ of each gain.
        """
        gaps = np.full(len(boxes), np.inf)
        if not len(boxes):
            return gaps
        self._family.check(boxes)
        stack = np.ascontiguousarray(matrices, np.float64)
        shares = np.ascontiguousarray(rates, np.float64)
        numbers = np.ascontiguousarray(which, np.int64)
        work = BoxProgram(self._family.trace, boxes, ORDER)
        work.run(
            lambda some, where: bound_decay(
                self.gains,
                numbers[some],
                stack,
                shares,
                work.program,
                *where,
                self.system.is_continuous,
                gaps[some],
            )
        )
        return gaps


class DecayCheck(NamedTuple):
    """What is shown of Lyapunov matrices on boxes.

    Args:
        holds: whether they decay on every box.
        failing: full context rows at which they do not decay, or where it stays open.
        failing_gain: the gain that is used there.
    """

    holds: bool
    failing: Array
    failing_gain: NDArray[np.int64]


def check_decay(
    loops: GainLoops,
    matrices: Array,
    rates: Array,
    clock: Clock,
    some: NDArray[np.integer] | None = None,
) -> DecayCheck:
    """Check that xᵀX_g x decays with rate λ_g wherever gain g is used.

    Args:
        loops: the closed loops of the gains.
        matrices: X of each gain, `(gain, state, state)`.
        rates: λ of each gain, at least 0.
        clock: when to stop.
        some: indices of the boxes to look at; all if left out.
    """
    some = np.arange(len(loops.boxes)) if some is None else some
    work, which = loops.boxes[some], loops.which[some]
    extent, n_boxes = work.extent, 0
    none = np.empty((0, work.low.shape[1])), np.empty(0, np.int64)
    used = matrices[np.unique(which)]
    if any(definite(np.ascontiguousarray(x)) != 1 for x in used):
        return DecayCheck(False, *none)
    for cut in range(MAX_CUTS + 1):
        gaps = loops.decay_gaps(work, which, matrices, rates)
        n_boxes += len(work)
        rest = np.flatnonzero(~(gaps < 1.0))
        if not len(rest):
            break
        centre = work[rest].centre
        alone = loops.decay_gaps(Boxes.points(centre), which[rest], matrices, rates)
        failed = ~(alone < 1.0)
        is_last = n_boxes + 2 * len(rest) > MAX_BOXES or clock.left <= 0
        if failed.any() or is_last or cut == MAX_CUTS:
            first = np.argsort(~failed, kind="stable")[:WITNESSES]
            return DecayCheck(False, centre[first], which[rest][first])
        axis = relative_widths(work[rest], extent).argmax(1)
        work, parent = work[rest].split(axis)
        which = which[rest[parent]]
    return DecayCheck(True, *none)


def largest_ratio(one: Array, other: Array) -> float:
    """Return a bound above on the μ ≥ 1 with one ⪯ μ · other; inf if none is shown.

    Args:
        one: symmetric.
        other: symmetric and positive definite.
    """
    factor = np.linalg.inv(np.linalg.cholesky(other))
    mu = max(1.0, float(np.linalg.eigvalsh(factor @ one @ factor.T).max()))
    for slack in (1e-9, 1e-6, 1e-3):
        bound = mu * (1.0 + slack)
        size = bound * np.abs(other) + np.abs(one)
        room = ROUNDINGS * np.finfo(float).eps * np.diag(size.sum(1))
        if definite(np.ascontiguousarray(bound * other - one - room)) == 1:
            return bound
    return np.inf


# --- the certificate ------------------------------------------------------------------


def certify_operation(
    loops: GainLoops,
    *,
    where: str = "within the range",
    constant: Sequence[str] = (),
    band: Mapping[str, float] | None = None,
    time_limit: float = 60.0,
) -> OperationCertificate:
    """Prove as much as possible about gains that are switched while contexts move.

    Args:
        loops: the closed loops, on boxes of true contexts where gains are used: their
            regions, dilated by the error of the measured context and the hysteresis.
        where: those regions, for the statement.
        constant: axes that do not change while the plant runs, though their values are
            not known: the matrices may depend on them.
        band: the part of each axis, by name, by which the hysteresis dilated them.
        time_limit: processor seconds.
    """
    clock = Clock(time_limit)
    axes = [axis.name for axis in loops.system.axes]
    fixed = [axes.index(name) for name in constant]
    proofs, parts = [], [(part, 0) for part in loops.cut(fixed)]
    while parts:
        part, n_cuts = parts.pop()
        proof = _prove(part, clock)
        if isinstance(proof, _Proof):
            proofs.append(proof)
            continue
        can_cut = n_cuts < MOST_HALVINGS and (part.boxes.extent[fixed] > 0).any()
        is_stable = bool(part.growth(proof.context[None], np.array([proof.gain])) < 0)
        if not (can_cut and clock.left > 0 and is_stable):
            return _nothing(part, proof, is_stable)
        parts += [(half, n_cuts + 1) for half in part.halves(fixed)]
    matrices = np.concatenate([proof.matrices for proof in proofs])
    rates = np.concatenate([proof.rates for proof in proofs])
    jump = max(proof.jump for proof in proofs)
    dwell = max(proof.dwell_time for proof in proofs)
    if not np.isfinite(dwell):
        statement = "Nothing is shown about switching: the matrices cannot be compared."
        return OperationCertificate(
            "none", statement, np.inf, {}, matrices, rates, jump
        )
    live = [axes[i] for i in np.flatnonzero(loops.boxes.extent > 0)]
    unchanged = [name for name in live if name in constant]
    stays = ""
    if unchanged:
        verb = "stay" if len(unchanged) > 1 else "stays"
        stays = f" while {' and '.join(unchanged)} {verb} constant"
    basis = (
        "Lyapunov inequalities on whole boxes, with rigorous rounding, for the "
        f"matrices of {getattr(loops.system, 'name', loops.system.id)}"
    )
    if dwell == 0:
        moving = " and ".join(name for name in live if name not in constant)
        change = f"any change of {moving} and " if moving else ""
        statement = (
            f"Stable {where}{stays}, for {change}any switching between policies, by "
            f"{'a' if unchanged else 'one'} quadratic Lyapunov function: {basis}."
        )
        return OperationCertificate(
            "any switching", statement, 0.0, {}, matrices, rates, jump
        )
    unit = "s" if loops.system.is_continuous else "step"
    drift = {
        name: width / dwell * (1 - 1e-12)
        for name, width in (band or {}).items()
        if name not in constant
    }
    slow = "no policy is held beyond its region"
    if any(drift.values()):
        slow = " and ".join(
            f"{name} changes by less than {round_to_side(rate, up=False)} per {unit}"
            for name, rate in drift.items()
        )
    statement = (
        f"Stable {where}{stays and f'{stays} and'} while {slow}, with at least "
        f"{round_to_side(dwell, up=True)} {unit}{'s' * (unit == 'step')} between two "
        f"switches: {basis}."
    )
    return OperationCertificate(
        "dwell time", statement, dwell, drift, matrices, rates, jump
    )


class _Proof(NamedTuple):
    """What is proven on a part of the contexts, see `OperationCertificate`."""

    matrices: Array
    rates: Array
    jump: float
    dwell_time: float


class _Failure(NamedTuple):
    """A context at which no matrix was found for a gain."""

    context: Array
    gain: int


def _nothing(
    loops: GainLoops, failure: _Failure, is_stable: bool
) -> OperationCertificate:
    """Return the certificate that says where a gain has no matrix."""
    names = [axis.name for axis in loops.system.axes]
    context = dict(zip(names, failure.context.tolist(), strict=True))
    place = context_words(context, names)
    why = f"its closed loop is unstable at {place}"
    if is_stable:
        why = (
            "no quadratic function was found that decays wherever it is used, at "
            f"{place} among others, though each frozen loop is stable"
        )
    statement = f"Nothing is shown about switching: policy {failure.gain} fails, {why}."
    n = loops.gains.shape[-1]
    empty = np.zeros((0, n, n)), np.zeros(0)
    return OperationCertificate("none", statement, np.inf, {}, *empty, np.inf, context)


def _prove(loops: GainLoops, clock: Clock) -> _Proof | _Failure:
    """Return what is proven; or a context and the gain that fails there."""
    n_gains, n = len(loops.gains), loops.gains.shape[-1]
    # A gain that is never used holds nothing up.
    matrices, rates = np.tile(np.eye(n), (n_gains, 1, 1)), np.full(n_gains, np.inf)
    used = np.unique(loops.which)
    for gain in used.tolist():
        x, contexts, failing = _matrix_for(loops, [gain], clock, least=True)
        if x is None:
            return _Failure(failing, gain)
        matrices[gain] = x
        rates[gain] = _largest_rate(loops, gain, x, contexts, clock)
    common, _, _ = _matrix_for(loops, used.tolist(), clock, least=False)
    if common is not None:
        return _Proof(common[None], np.zeros(1), 1.0, 0.0)
    pairs = [(matrices[j], matrices[i]) for i in used for j in used if i != j]
    jump = max((largest_ratio(*pair) for pair in pairs), default=1.0)
    slowest = rates[used].min()
    dwell = float(np.log(jump) / (2 * slowest) * (1 + 1e-12)) if slowest else np.inf
    return _Proof(matrices, rates, jump, dwell)


def _matrix_for(
    loops: GainLoops, used: Sequence[int], clock: Clock, *, least: bool
) -> tuple[Array | None, Array, Array]:
    """Find one matrix that decays wherever some gains are used.

    Returns:
        The matrix, None if none was shown; the contexts that it was made from; and one
        of them at which the last candidate failed.
    """
    parts = [_spread(loops.boxes[np.flatnonzero(loops.which == g)]) for g in used]
    rows, gains = np.concatenate(parts), np.repeat(used, [len(x) for x in parts])
    some = np.flatnonzero(np.isin(loops.which, used))
    n_gains, failing = len(loops.gains), None
    for _ in range(MAX_ROUNDS):
        a, weights = loops.at(rows, gains)
        x = find_matrix(a, weights, loops.system.is_continuous, least=least)
        if x is None:
            worst = rows[loops.growth(rows, gains).argmax()]
            return None, rows, worst if failing is None else failing
        matrices = np.repeat(x[None], n_gains, 0)
        checked = check_decay(loops, matrices, np.zeros(n_gains), clock, some)
        if checked.holds:
            return x, rows, rows[0]
        failing = checked.failing[0] if len(checked.failing) else rows[0]
        if not len(checked.failing) or clock.left <= 0:
            break
        rows = np.concatenate([rows, checked.failing])
        gains = np.concatenate([gains, checked.failing_gain])
    return None, rows, rows[0] if failing is None else failing


def _spread(boxes: Boxes) -> Array:
    """Return contexts that span some boxes: extreme corners, and centres between."""
    width = np.where(boxes.extent > 0, boxes.extent, 1.0)
    rng = np.random.default_rng(0)
    corners = []
    for direction in rng.standard_normal((LOOPS_PER_GAIN, len(width))) / width:
        ends = np.where(direction > 0, boxes.high, boxes.low)
        corners.append(ends[((ends - boxes.low.min(0)) @ direction).argmax()])
    middle = boxes.centre[:: max(1, len(boxes) // 8)]
    return np.unique(np.concatenate([corners, middle]), axis=0)


def _largest_rate(
    loops: GainLoops, gain: int, x: Array, contexts: Array, clock: Clock
) -> float:
    """Return a rate with which the matrix of one gain surely decays."""
    a, _ = loops.at(contexts, np.full(len(contexts), gain))
    factor = np.linalg.inv(np.linalg.cholesky(x))
    scaled = np.linalg.inv(factor.T) @ a @ factor.T
    if loops.system.is_continuous:
        top = np.linalg.eigvalsh(scaled + np.swapaxes(scaled, -1, -2))[:, -1].max()
        most = -top / 2
    else:
        most = -np.log(np.linalg.norm(scaled, 2, axis=(-2, -1)).max())
    some = np.flatnonzero(loops.which == gain)
    matrices = np.repeat(x[None], len(loops.gains), 0)
    for share in RATE_SHARES:
        rates = np.full(len(matrices), share * most)
        if check_decay(loops, matrices, rates, clock, some).holds:
            return float(share * most)
    return 0.0


# --- candidates -----------------------------------------------------------------------


def find_matrix(
    loops: Array, weights: Array, is_continuous: bool, *, least: bool = False
) -> Array | None:
    """Return one X ≻ 0 with L(X) ≺ 0 for all of some closed loops, None if none is.

    L(X) is AᵀX + XA, in discrete time AᵀXA − X. The answer is a candidate, no proof.

    Args:
        loops: closed loops, `(loop, state, state)`.
        weights: W of each loop.
        is_continuous: kind of time.
        least: ask for the least X with L(X) + W ⪯ 0, whose xᵀXx is near the cost, so
            that the matrices of several gains are alike; otherwise for the strongest
            decay.
    """
    n = loops.shape[1]
    frame = _frame(loops, weights, is_continuous)
    if frame is None:
        return None
    back = np.linalg.inv(frame)
    # The symmetric matrices with one entry of 1, or two: upper triangles by columns.
    j, i = np.tril_indices(n)
    number = np.arange(len(i))
    basis = np.zeros((len(i), n, n))
    basis[number, i, j] = basis[number, j, i] = 1.0

    def vectors(matrices: Array) -> Array:
        return matrices[:, i, j] * np.where(i == j, 1.0, np.sqrt(2.0))

    identity = vectors(np.eye(n)[None])[0]
    nothing = np.zeros_like(identity)
    rows, right = [], []
    for a, weight in zip(frame @ loops @ back, back.T @ weights @ back, strict=True):
        image = basis @ a
        image = (
            image + np.swapaxes(image, -1, -2)
            if is_continuous
            else (a.T @ image - basis)
        )
        rows.append(np.column_stack([vectors(image).T, nothing if least else identity]))
        right.append(-vectors(weight[None])[0] if least else nothing)
    # X ⪯ t I for the least t, or X ⪯ I for the largest decay t.
    rows.append(np.column_stack([vectors(basis).T, -identity if least else nothing]))
    right.append(nothing if least else identity)
    cost = np.zeros(len(basis) + 1)
    cost[-1] = 1.0 if least else -1.0
    solution = _solve(cost, np.concatenate(rows), np.concatenate(right), n, len(rows))
    if solution is None or not (least or solution[-1] > 0):
        return None
    x = frame.T @ np.tensordot(solution[:-1], basis, 1) @ frame
    return (x + x.T) / 2


def _frame(loops: Array, weights: Array, is_continuous: bool) -> Array | None:
    """Return coordinates without units: the mean of the loops' costs is I."""
    poles = np.linalg.eigvals(loops)
    if not (poles.real.max() < 0 if is_continuous else abs(poles).max() < 1):
        return None
    size = np.sqrt(np.einsum("gii->i", weights) / len(weights))
    units = np.diag(np.where(size > 0, size, 1.0))
    back = np.linalg.inv(units)
    n = loops.shape[1]
    total = np.zeros((n, n))
    for loop, weight in zip(units @ loops @ back, back @ weights @ back, strict=True):
        # A little of the identity, where a state costs nothing.
        definite_weight = weight + 1e-3 * np.eye(n)
        if is_continuous:
            total += solve_continuous_lyapunov(loop.T, -definite_weight)
        else:
            total += solve_discrete_lyapunov(loop.T, definite_weight)
    total = (total + total.T) / (2 * len(loops))
    try:
        return np.asarray(np.linalg.cholesky(total).T @ units, np.float64)
    except np.linalg.LinAlgError:
        return None


def _solve(
    cost: Array, rows: Array, right: Array, n: int, n_blocks: int
) -> Array | None:
    """Return x of least cost with right − rows · x a stack of semidefinite matrices."""
    try:
        clarabel: Any = importlib.import_module("clarabel")
    except ImportError as error:
        raise MissingExtraError("A Lyapunov matrix", "operation") from error
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((len(cost), len(cost))),
        cost,
        sparse.csc_matrix(rows),
        right,
        [clarabel.PSDTriangleConeT(n)] * n_blocks,
        settings,
    )
    solution = solver.solve()
    x = np.array(solution.x)
    is_solved = str(solution.status).endswith("Solved")
    return x if is_solved and np.isfinite(x).all() else None
