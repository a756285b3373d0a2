"""Switching: what is proven of gains that take turns while a context moves.

The strongest first:

- *Any switching*: one X ≻ 0 decays along every gain wherever it is used. Then every
  trajectory converges, however the context moves and whenever gains are switched.
- *Dwell time*: each gain has a matrix X_g of its own that decays with rate λ_g wherever
  it is used. Any change is stable while one gain is in use. At a switch xᵀXx grows by
  at most μ, so ln μ / (2 λ) between switches keeps it so. A gain that is held until
  then is used beyond its region, by the band of the hysteresis at most if the context
  changes by less than the band in that time: this limits the rate of change.
- *Nothing*: which gain fails, and where.

An axis that is not known but stays constant (the stiffness of one machine) is cut into
stretches, each of which has matrices of its own, and halved where these are not found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.words import round_to_side
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.operation.candidates import find_matrix
from taskspace.certificates.operation.decay import (
    GainLoops,
    check_decay,
    largest_ratio,
)
from taskspace.certificates.statements import context_words

Mode = Literal["any switching", "dwell time", "none"]

# Closed loops per gain that a candidate is made from at first, and rounds of adding
# those at which it failed.
LOOPS_PER_GAIN = 24
MAX_ROUNDS = 8
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
        failing_gain: the gain there, −1 for none.
    """

    mode: Mode
    statement: str
    dwell_time: float
    drift_rates: Mapping[str, float]
    matrices: Array
    rates: Array
    jump: float
    failing: Mapping[str, float] = field(default_factory=dict)
    failing_gain: int = -1

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
    shown, parts = [], [(part, 0) for part in loops.cut(fixed)]
    while parts:
        part, n_cuts = parts.pop()
        proof = _prove(part, clock)
        if isinstance(proof, _Proof):
            shown.append(proof)
            continue
        can_cut = n_cuts < MOST_HALVINGS and (part.boxes.extent[fixed] > 0).any()
        if not (can_cut and clock.left > 0 and _is_stable(part, *proof)):
            return _nothing(part, *proof)
        parts += [(half, n_cuts + 1) for half in part.halves(fixed)]
    matrices = np.concatenate([one.matrices for one in shown])
    rates = np.concatenate([one.rates for one in shown])
    jump, dwell = max(p.jump for p in shown), max(p.dwell_time for p in shown)
    live = [axes[i] for i in np.flatnonzero(loops.boxes.extent > 0)]
    moving = " and ".join(n for n in live if n not in constant)
    unchanged = [n for n in live if n in constant]
    stays = ""
    if unchanged:
        verb = "stay" if len(unchanged) > 1 else "stays"
        stays = f" while {' and '.join(unchanged)} {verb} constant"
    if dwell == 0:
        change = f"any change of {moving} and " * bool(moving)
        statement = (
            f"Stable {where}{stays}, for {change}any switching between policies, by "
            f"{'a' if unchanged else 'one'} quadratic Lyapunov function: {loops.basis}."
        )
        return OperationCertificate(
            "any switching", statement, 0.0, {}, matrices, rates, jump
        )
    if not np.isfinite(dwell):
        statement = "Nothing is shown about switching: the matrices cannot be compared."
        return OperationCertificate(
            "none", statement, np.inf, {}, matrices, rates, jump
        )
    held = {
        name: width / dwell * (1 - 1e-12)
        for name, width in (band or {}).items()
        if name not in constant
    }
    unit = "s" if loops.system.is_continuous else "step"
    while_ = "no policy is held beyond its region"
    if any(held.values()):
        while_ = " and ".join(
            f"{name} changes by less than {round_to_side(rate, up=False)} per {unit}"
            for name, rate in held.items()
        )
    statement = (
        f"Stable {where}{stays and f'{stays} and'} while {while_}, with at least "
        f"{round_to_side(dwell, up=True)} {unit}{'s' * (unit == 'step')} between two "
        f"switches: {loops.basis}."
    )
    return OperationCertificate(
        "dwell time", statement, dwell, held, matrices, rates, jump
    )


class _Proof(NamedTuple):
    """What is proven on a part of the contexts, see `OperationCertificate`."""

    matrices: Array
    rates: Array
    jump: float
    dwell_time: float


def _prove(loops: GainLoops, clock: Clock) -> _Proof | tuple[Array, int]:
    """Return what is proven; or a context and the gain that fails there."""
    n = loops.gains.shape[-1]
    matrices, rates = np.zeros((len(loops.gains), n, n)), np.zeros(len(loops.gains))
    for gain in range(len(loops.gains)):
        failing = _own_matrix(loops, gain, matrices, rates, clock)
        if failing is not None:
            return failing, gain
    common = _common_matrix(loops, clock)
    if common is not None:
        return _Proof(common[None], np.zeros(1), 1.0, 0.0)
    used = np.unique(loops.which)
    jump = max(
        (largest_ratio(matrices[j], matrices[i]) for i in used for j in used if i != j),
        default=1.0,
    )
    slowest = rates[used].min()
    dwell = float(np.log(jump) / (2 * slowest) * (1 + 1e-12)) if slowest else np.inf
    return _Proof(matrices, rates, jump, dwell)


def _own_matrix(
    loops: GainLoops, gain: int, matrices: Array, rates: Array, clock: Clock
) -> Array | None:
    """Fill a matrix that decays wherever one gain is used; or return where it fails."""
    some = np.flatnonzero(loops.which == gain)
    if not len(some):  # a gain that is never used holds nothing up
        matrices[gain], rates[gain] = np.eye(matrices.shape[1]), np.inf
        return None
    contexts, failing = _spread(loops.boxes[some]), None
    for _ in range(MAX_ROUNDS):
        a, w = loops.at(contexts, np.full(len(contexts), gain))
        x = find_matrix(a, w, loops.system.is_continuous, least=True)
        if x is None:
            poles = np.linalg.eigvals(a)
            size = poles.real if loops.system.is_continuous else abs(poles)
            worst = contexts[size.max(1).argmax()]
            return worst if failing is None else failing
        matrices[gain] = x
        checked = check_decay(loops, matrices, np.zeros(len(rates)), clock, some)
        if checked.holds:
            break
        failing = checked.failing[0] if len(checked.failing) else contexts[0]
        if not len(checked.failing) or clock.left <= 0:
            return failing
        contexts = np.unique(np.concatenate([contexts, checked.failing]), axis=0)
    else:
        return failing
    rates[gain] = _largest_rate(loops, gain, matrices, contexts, clock)
    return None


def _largest_rate(
    loops: GainLoops, gain: int, matrices: Array, contexts: Array, clock: Clock
) -> float:
    """Return a rate with which one gain's matrix surely decays."""
    a, _ = loops.at(contexts, np.full(len(contexts), gain))
    factor = np.linalg.inv(np.linalg.cholesky(matrices[gain]))
    scaled = np.linalg.inv(factor.T) @ a @ factor.T
    if loops.system.is_continuous:
        top = np.linalg.eigvalsh(scaled + np.swapaxes(scaled, -1, -2))[:, -1].max()
        most = -top / 2
    else:
        most = -np.log(np.linalg.norm(scaled, 2, axis=(-2, -1)).max())
    some = np.flatnonzero(loops.which == gain)
    for share in RATE_SHARES:
        rates = np.full(len(matrices), share * most)
        if check_decay(loops, matrices, rates, clock, some).holds:
            return float(share * most)
    return 0.0


def _common_matrix(loops: GainLoops, clock: Clock) -> Array | None:
    """Return one matrix that decays along all gains, None if none was shown."""
    n_gains = len(loops.gains)
    used = np.unique(loops.which)
    contexts = [_spread(loops.boxes[np.flatnonzero(loops.which == g)]) for g in used]
    gains = np.repeat(used, [len(rows) for rows in contexts])
    rows = np.concatenate(contexts)
    for _ in range(MAX_ROUNDS):
        x = find_matrix(*loops.at(rows, gains), loops.system.is_continuous)
        if x is None or clock.left <= 0:
            return None
        matrices = np.repeat(x[None], n_gains, 0)
        checked = check_decay(loops, matrices, np.zeros(n_gains), clock)
        if checked.holds:
            return x
        if not len(checked.failing):
            return None
        rows = np.concatenate([rows, checked.failing])
        gains = np.concatenate([gains, checked.failing_gain])
    return None


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


def _is_stable(loops: GainLoops, row: Array, gain: int) -> bool:
    """Whether a frozen loop is stable, in floats."""
    a, _ = loops.at(row[None], np.array([gain]))
    poles = np.linalg.eigvals(a[0])
    size = poles.real.max() if loops.system.is_continuous else abs(poles).max() - 1
    return bool(size < 0)


def _nothing(loops: GainLoops, row: Array, gain: int) -> OperationCertificate:
    """Return the certificate that says where a gain has no matrix."""
    names = [axis.name for axis in loops.system.axes]
    context = dict(zip(names, row.tolist(), strict=True))
    place = context_words(context, names)
    why = f"its closed loop is unstable at {place}"
    if _is_stable(loops, row, gain):
        why = (
            "no quadratic function was found that decays wherever it is used, at "
            f"{place} among others, though each frozen loop is stable"
        )
    n = loops.gains.shape[-1]
    return OperationCertificate(
        "none",
        f"Nothing is shown about switching: policy {gain} fails, {why}.",
        np.inf,
        {},
        np.zeros((0, n, n)),
        np.zeros(0),
        np.inf,
        context,
        gain,
    )
