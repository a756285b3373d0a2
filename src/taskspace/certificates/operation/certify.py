"""Switching and drift: what is proven of gains that take turns while a context moves.

Of stability, the strongest first:

- *Any switching*: one X ≻ 0 decays along every gain wherever it is used. Then every
  trajectory converges, whatever the drift and whenever gains are switched.
- *Dwell time*: each gain has a matrix X_g of its own that decays with rate λ_g wherever
  it is used. Any drift is stable while one gain is in use; at a switch xᵀXx grows by at
  most μ, so ln μ / (2 λ) between switches keeps it so. A gain that is held until then
  is used beyond its region, by the band of the hysteresis at most if the context
  drifts by less than the band in that time: this limits the rate of drift.
- *Slow drift*: a gain has no such matrix, but its costs change slowly enough with the
  context (`taskspace.certificates.operation.drift`): stable while one gain is in use.
- *Nothing*: which gain fails, and where.

Of costs: where X_g also bounds the cost, the cost from x₀ is at most x₀ᵀX_g x₀ while
gain g is in use, however the context drifts. While it drifts slowly, the cost is at
most a stated factor times that of a context that stands still.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.words import round_to_side
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.operation.candidates import find_matrix
from taskspace.certificates.operation.check import (
    DecayCheck,
    check_decay,
    largest_ratio,
)
from taskspace.certificates.operation.drift import SlowDrift, bound_drift
from taskspace.certificates.operation.loops import GainLoops
from taskspace.certificates.statements.claims import CertificateKind
from taskspace.certificates.statements.words import context_words
from taskspace.cover.base import Clock

__all__ = ["OperationCertificate", "certify_operation"]

Mode = Literal["any switching", "dwell time", "slow drift", "none"]

# Closed loops per gain that a candidate is made from at first, and rounds of adding
# those at which it failed.
LOOPS_PER_GAIN = 24
MAX_ROUNDS = 8
MORE_LOOPS = 8
# Shares of the decay rate of a candidate, tried one after the other.
RATE_SHARES = (0.9, 0.7, 0.5, 0.25, 0.1, 0.01)
# By how much a weight is enlarged for a candidate, so that the check has room.
ROOM = 1.02


@dataclass(frozen=True, eq=False)
class OperationCertificate:
    """What is proven about gains that take turns while the context moves.

    Args:
        mode: `"any switching"`, `"dwell time"`, `"slow drift"` or `"none"`.
        kind: `"proof"`, or `"vacuous"` where nothing is shown.
        statement: for people.
        dwell_time: time between two switches that keeps stability, in seconds (in
            steps for discrete time); 0 for any switching, infinite for none.
        drift_rates: largest change of each axis per second (per step) for which
            stability holds, by name; empty where any rate does, or nothing is shown.
            With slow drift, shares of several rates add up to 1 at most.
        matrices: X of each gain, or one for all of them.
        rates: λ with which each decays.
        jump: μ, the largest growth of xᵀXx at a switch.
        cost_bounds: tr(X_g Σ) of each gain, a bound on the cost while it is in use,
            however the context drifts; infinite where none is shown.
        slow: how fast each axis may change while costs keep their guarantee up to a
            factor.
        failing: a context by name at which nothing could be shown, if any.
        failing_gain: the gain there, −1 for none.
        n_boxes: boxes that were looked at.
        seconds: wall-clock time.
    """

    mode: Mode
    kind: CertificateKind
    statement: str
    dwell_time: float
    drift_rates: Mapping[str, float]
    matrices: Array
    rates: Array
    jump: float
    cost_bounds: Array
    slow: SlowDrift
    failing: Mapping[str, float] = field(default_factory=dict)
    failing_gain: int = -1
    n_boxes: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; what is infinite is None."""

        def finite(x: float) -> float | None:
            return float(x) if np.isfinite(x) else None

        return {
            "mode": self.mode,
            "kind": self.kind,
            "statement": self.statement,
            "dwell_time": finite(self.dwell_time),
            "drift_rates": dict(self.drift_rates),
            "rates": self.rates.tolist(),
            "jump": finite(self.jump),
            "matrices": self.matrices.tolist(),
            "cost_bounds": [finite(x) for x in self.cost_bounds],
            "slow_drift": self.slow.to_dict(),
            "failing": dict(self.failing),
            "failing_gain": self.failing_gain,
        }


def certify_operation(
    loops: GainLoops,
    boxes: Boxes,
    which: NDArray[np.int64],
    *,
    band: Mapping[str, float] | None = None,
    factor: float = 1.1,
    time_limit: float = 60.0,
) -> OperationCertificate:
    """Prove as much as possible about switching between gains and drifting contexts.

    Args:
        loops: the closed loops.
        boxes: boxes of true contexts where gains are used: their regions, dilated by
            the error of the measured context and by the hysteresis.
        which: gain that is used on each box.
        band: by how much of that, on each axis by name, the boxes are wider than the
            regions dilated by the error.
        factor: by which costs may exceed their guarantee while the context drifts.
        time_limit: seconds.
    """
    clock = Clock(time_limit)
    slow = bound_drift(loops, boxes, which, factor, Clock(time_limit / 2))
    own, n_boxes, failing = _own_matrices(loops, boxes, which, clock)
    if failing is not None:
        return _no_matrix(loops, failing, which, slow, n_boxes, clock)
    matrices, rates, costs = own
    axes = loops.system.axes
    live = [axes[i].name for i in np.flatnonzero(boxes.extent > 0)]
    names = " and ".join(live) or "the context"
    common, looked_at = _common_matrix(loops, boxes, which, clock)
    n_boxes += looked_at
    if common is not None:
        statement = _any_words(names, loops.basis, costs) + _slow_words(slow)
        return OperationCertificate(
            "any switching", "proof", statement, 0.0, {}, common[None], np.zeros(1),
            1.0, costs, slow, n_boxes=n_boxes, seconds=clock.seconds,
        )  # fmt: skip
    pairs = [(i, j) for i in np.unique(which) for j in np.unique(which) if i != j]
    jump = max([largest_ratio(matrices[j], matrices[i]) for i, j in pairs], default=1.0)
    dwell = float(np.log(jump) / (2 * rates.min()) * (1 + 1e-12))
    if not np.isfinite(dwell):
        statement = "Nothing is shown about switching: the matrices cannot be compared."
        return OperationCertificate(
            "none", "vacuous", statement, np.inf, {}, matrices, rates, jump, costs,
            slow, n_boxes=n_boxes, seconds=clock.seconds,
        )  # fmt: skip
    held = {name: width / dwell * (1 - 1e-12) for name, width in (band or {}).items()}
    statement = _dwell_words(held, loops, dwell, costs) + _slow_words(slow)
    return OperationCertificate(
        "dwell time", "proof", statement, dwell, held, matrices, rates, jump, costs,
        slow, n_boxes=n_boxes, seconds=clock.seconds,
    )  # fmt: skip


def _own_matrices(
    loops: GainLoops, boxes: Boxes, which: NDArray[np.int64], clock: Clock
) -> tuple[Any, int, tuple[Array, int] | None]:
    """Return X, λ and a bound on the cost of each gain; or where one fails."""
    n, n_boxes = loops.n_states, 0
    n_gains = len(loops.gains)
    matrices, rates = np.zeros((n_gains, n, n)), np.zeros(n_gains)
    costs = np.full(n_gains, np.inf)
    sigma = loops.system.initial_covariance
    for gain in range(n_gains):
        places = np.flatnonzero(which == gain)
        if not len(places):  # a gain that is never used holds nothing up
            matrices[gain], rates[gain], costs[gain] = np.eye(n), np.inf, 0.0
            continue
        own, same = boxes[places], np.full(len(places), gain)
        x, checked, contexts = _own_matrix(loops, own, same, clock)
        n_boxes += checked.n_boxes
        if x is None or not checked.holds:
            return None, n_boxes, (checked.failing[0], gain)
        matrices[gain] = x
        if checked.bounds_cost:
            costs[gain] = float((x * sigma).sum()) * (1 + 1e-12)
        rates[gain], looked_at = _largest_rate(
            loops, own, same, matrices, contexts, clock
        )
        n_boxes += looked_at
    return (matrices, rates, costs), n_boxes, None


def _own_matrix(
    loops: GainLoops, boxes: Boxes, which: NDArray[np.int64], clock: Clock
) -> tuple[Array | None, DecayCheck, Array]:
    """Return a matrix of one gain that bounds its cost, its check, and contexts."""
    gain, contexts = int(which[0]), _spread(boxes)
    candidate = None
    n_boxes = 0
    checked = DecayCheck(False, False, contexts[:0], 0, contexts, which[:0])
    for _ in range(MAX_ROUNDS):
        a, w = loops.at(contexts, np.full(len(contexts), gain))
        x = find_matrix(a, ROOM * w, loops.system.is_continuous, bound_cost=True)
        if x is None:
            if candidate is None:
                worst = contexts[[_least_stable(a, loops)]]
                checked = replace(checked, failing=worst)
            break
        stack = np.repeat(x[None], len(loops.gains), 0)
        again = check_decay(
            loops, boxes, which, stack, np.zeros(len(stack)), clock, bound_cost=True
        )
        n_boxes += again.n_boxes
        if again.holds or candidate is None:
            candidate, checked = x, again
        more = again.costly if again.holds else again.failing
        if not len(more) or clock.left <= 0:
            break
        more = more[:: max(1, len(more) // MORE_LOOPS)]
        contexts = np.unique(np.concatenate([contexts, more]), axis=0)
    if not len(checked.failing):
        checked = replace(checked, failing=contexts[:1])
    return candidate, replace(checked, n_boxes=n_boxes), contexts


def _largest_rate(
    loops: GainLoops,
    boxes: Boxes,
    which: NDArray[np.int64],
    matrices: Array,
    contexts: Array,
    clock: Clock,
) -> tuple[float, int]:
    """Return a rate with which one gain's matrix surely decays, and boxes looked at."""
    gain = int(which[0])
    a, _ = loops.at(contexts, np.full(len(contexts), gain))
    factor = np.linalg.inv(np.linalg.cholesky(matrices[gain]))
    scaled = np.linalg.inv(factor.T) @ a @ factor.T
    if loops.system.is_continuous:
        top = np.linalg.eigvalsh(scaled + np.swapaxes(scaled, -1, -2))[:, -1].max()
        most = -top / 2
    else:
        most = -np.log(np.linalg.norm(scaled, 2, axis=(-2, -1)).max())
    rates, n_boxes = np.zeros(len(matrices)), 0
    for share in RATE_SHARES:
        rates[gain] = share * most
        checked = check_decay(loops, boxes, which, matrices, rates, clock)
        n_boxes += checked.n_boxes
        if checked.holds:
            return float(rates[gain]), n_boxes
    return 0.0, n_boxes


def _common_matrix(
    loops: GainLoops, boxes: Boxes, which: NDArray[np.int64], clock: Clock
) -> tuple[Array | None, int]:
    """Return one matrix for all gains, None if none was shown; and boxes looked at."""
    n_gains, n_boxes = len(loops.gains), 0
    used = np.unique(which)
    contexts = [_spread(boxes[np.flatnonzero(which == gain)]) for gain in used]
    gains = np.repeat(used, [len(rows) for rows in contexts])
    rows = np.concatenate(contexts)
    for _ in range(MAX_ROUNDS):
        x = find_matrix(*loops.at(rows, gains), loops.system.is_continuous)
        if x is None or clock.left <= 0:
            return None, n_boxes
        matrices = np.repeat(x[None], n_gains, 0)
        checked = check_decay(loops, boxes, which, matrices, np.zeros(n_gains), clock)
        n_boxes += checked.n_boxes
        if checked.holds:
            return x, n_boxes
        if not len(checked.failing):
            return None, n_boxes
        rows = np.concatenate([rows, checked.failing])
        gains = np.concatenate([gains, checked.failing_gain])
    return None, n_boxes


def _spread(boxes: Boxes) -> Array:
    """Return contexts that span some boxes: extreme corners, and centres between."""
    live = np.flatnonzero(boxes.extent > 0)
    rows = np.concatenate([boxes.low, boxes.high])
    if len(live) <= 6:
        ends = np.stack([boxes.low, boxes.high])
        picks = np.zeros((2 ** len(live), boxes.low.shape[1]), int)
        picks[:, live] = list(product((0, 1), repeat=len(live)))
        columns = np.arange(boxes.low.shape[1])
        rows = np.concatenate([ends[pick, :, columns].T for pick in picks])
    low, width = rows.min(0), np.where(boxes.extent > 0, boxes.extent, 1.0)
    share = (rows - low) / width
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((LOOPS_PER_GAIN, rows.shape[1]))
    corners = rows[np.unique((share @ directions.T).argmax(0))]
    middle = boxes.centre[:: max(1, len(boxes) // 8)]
    return np.unique(np.concatenate([corners, middle]), axis=0)


def _least_stable(a: Array, loops: GainLoops) -> int:
    poles = np.linalg.eigvals(a)
    size = poles.real if loops.system.is_continuous else abs(poles)
    return int(size.max(1).argmax())


def _no_matrix(
    loops: GainLoops,
    failing: tuple[Array, int],
    which: NDArray[np.int64],
    slow: SlowDrift,
    n_boxes: int,
    clock: Clock,
) -> OperationCertificate:
    """Return what is left where a gain has no matrix: slow drift, or nothing."""
    row, gain = failing
    names = [axis.name for axis in loops.system.axes]
    context = dict(zip(names, row.tolist(), strict=True))
    a, _ = loops.at(row[None], np.array([gain]))
    poles = np.linalg.eigvals(a[0])
    is_continuous = loops.system.is_continuous
    is_stable = (
        poles.real.max() < 0 if is_continuous else float(abs(poles).max()) < 1
    )  # fmt: skip
    place = context_words(context, names)
    if not is_stable:
        why = f"its closed loop is unstable at {place}"
    else:
        why = (
            "no quadratic function decays wherever it is used, at "
            f"{place} among others, though each frozen loop is stable"
        )
    n = loops.n_states
    mode: Mode = "none"
    kind: CertificateKind = "vacuous"
    dwell = np.inf
    statement = (
        f"Nothing is shown about drift or switching: policy {gain} fails, {why}."
    )
    if slow.is_shown:
        mode, kind = "slow drift", "proof"
        is_alone = len(np.unique(which)) == 1
        dwell = 0.0 if is_alone else np.inf
        others = "" if is_alone else " or about switching"
        statement = (
            f"Nothing is shown about fast drift{others}: policy {gain} fails, {why}. "
            f"Stable under slow drift: {loops.basis}.{_slow_words(slow)}"
        )
    return OperationCertificate(
        mode, kind, statement, dwell, slow.rates, np.zeros((0, n, n)), np.zeros(0),
        np.inf, np.full(len(loops.gains), np.inf), slow, context, gain, n_boxes,
        clock.seconds,
    )  # fmt: skip


def _slow_words(slow: SlowDrift) -> str:
    return f" {slow.words}" if slow.words else ""


def _any_words(names: str, basis: str, costs: Array) -> str:
    return (
        f"Stable for any change of {names} within the range and any switching between "
        f"policies, by one quadratic Lyapunov function: {basis}.{_cost_words(costs)}"
    )


def _dwell_words(
    slow: Mapping[str, float], loops: GainLoops, dwell: float, costs: Array
) -> str:
    unit = "s" if loops.system.is_continuous else "step"
    while_ = "while no policy is held beyond its region"
    if slow:
        limits = [
            f"{n} changes by less than {round_to_side(v, up=False)} per {unit}"
            for n, v in slow.items()
        ]
        while_ = f"while {' and '.join(limits)}"
    return (
        f"Stable {while_}, with at least {round_to_side(dwell, up=True)} "
        f"{unit}{'s' * (unit == 'step')} between two switches: {loops.basis}."
        f"{_cost_words(costs)}"
    )


def _cost_words(costs: Array) -> str:
    if not np.isfinite(costs).all():
        return ""
    most = round_to_side(float(costs.max()), up=True, digits=4)
    return (
        f" However the context drifts, the cost is at most {most} while one policy is "
        "in use."
    )
