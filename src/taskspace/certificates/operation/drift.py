r"""Slow drift: how fast a context may change while the cost of a gain keeps a bound.

$V = x^\top P(\theta) x$, the cost from x of a context that stands still, changes along
a trajectory by $-x^\top W x + \sum_i \dot\theta_i \, x^\top \partial_i P \, x$. With
$-c_i W \preceq \partial_i P \preceq c_i W$ wherever the gain is used and
$\sum_i c_i |\dot\theta_i| \le \kappa < 1$ the cost is at most
$x_0^\top P(\theta_0) x_0 / (1 - \kappa)$. So the rates $\kappa / c_i$ of single axes
say all: of several axes that change at once, shares of these rates add up to 1 at most.

In discrete time the context jumps from $\theta$ to $\theta^+$, and the same follows
from $P(\theta^+) - P(\theta) \preceq \kappa W$, if W is constant and $c_i$ holds on the
way between them: on the smallest box around all contexts of a gain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.words import round_to_side
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.boxes.enclosures.traced import relative_widths
from taskspace.certificates.operation.loops import GainLoops
from taskspace.certificates.statements.words import context_words
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.systems.linear.tracing.traced import UntraceableError

# A bound may exceed the largest number at a context by this share.
GAP = 0.05
MAX_CUTS = 14
MAX_BOXES = 20_000
# What rounding may take off a rate.
DOWN = 1 - 1e-12


@dataclass(frozen=True, eq=False)
class SlowDrift:
    """How fast each axis may change while costs keep a bound.

    Args:
        factor: the cost under drift is at most so many times that of the context at
            its start, standing still; above 1.
        names: of the axes that vary.
        units: of their values.
        sensitivities: c of each gain and axis, `(gain, axis)`; infinite where none is
            shown, 0 for gains that are not used.
        time_unit: `"s"` or `"step"`.
        why: why nothing is shown, empty otherwise.
    """

    factor: float
    names: tuple[str, ...]
    units: tuple[str, ...]
    sensitivities: Array
    time_unit: str
    why: str = ""

    @property
    def rates(self) -> dict[str, float]:
        """Largest rate of each axis, while the others stand still; maybe infinite."""
        if not self.is_shown:
            return {}
        share = (1 - 1 / self.factor) * DOWN
        with np.errstate(divide="ignore"):
            rates = share / self.sensitivities.max(0) * DOWN
        return dict(zip(self.names, rates.tolist(), strict=True))

    @property
    def is_shown(self) -> bool:
        """Whether a rate is shown for every axis."""
        return not self.why and bool(np.isfinite(self.sensitivities).all())

    @property
    def words(self) -> str:
        """The statement for people, empty where nothing is shown or nothing varies."""
        rates = {n: x for n, x in self.rates.items() if np.isfinite(x)}
        if not rates:
            return ""
        units = dict(zip(self.names, self.units, strict=True))
        limits = [
            f"{name} changes by less than {round_to_side(x, up=False)}"
            f"{' ' * bool(units[name])}{units[name]}"
            for name, x in rates.items()
        ]
        together = ""
        if len(limits) > 1:
            together = "; where several change, shares of these rates add up to 1"
        return (
            f"While one policy is in use, its cost is at most {self.factor} × the "
            "guaranteed one (that of its first context, standing still) if "
            f"{' or '.join(limits)} per {self.time_unit}{together}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; what is infinite is None."""
        return {
            "factor": self.factor,
            "rates": {n: _finite(x) for n, x in self.rates.items()},
            "sensitivities": {
                name: [_finite(x) for x in column]
                for name, column in zip(self.names, self.sensitivities.T, strict=True)
            },
            "statement": self.words,
            "why": self.why,
        }


def bound_drift(
    loops: GainLoops,
    boxes: Boxes,
    which: NDArray[np.int64],
    factor: float,
    clock: Clock,
) -> SlowDrift:
    """Bound how much the cost of each gain changes with each axis where it is used.

    Args:
        loops: the closed loops.
        boxes: boxes of true contexts where gains are used.
        which: gain that is used on each box.
        factor: by which costs may exceed those of a context that stands still.
        clock: when to stop.
    """
    if not 1 < factor < np.inf:
        raise InvalidInputError(
            f"The factor of the cost must be finite and above 1, but got {factor!r}."
        )
    live = np.flatnonzero(boxes.extent > 0)
    names = tuple(loops.system.axes[i].name for i in live)
    units = tuple(loops.system.axes[i].unit for i in live)
    is_continuous = loops.system.is_continuous
    bounds = np.zeros((len(loops.gains), len(live)))
    nothing = np.full(bounds.shape, np.inf)
    unit = "s" if is_continuous else "step"
    if not is_continuous and not loops.has_constant_weights:
        why = "in discrete time the weights Q and R must not depend on the context"
        return SlowDrift(factor, names, units, nothing, unit, why)
    why = ""
    for gain in np.unique(which):
        own = boxes[np.flatnonzero(which == gain)]
        if not is_continuous:
            own = Boxes(own.low.min(0)[None], own.high.max(0)[None])
        for column, axis in enumerate(live):
            try:
                bound, place = _largest(loops, own, int(gain), int(axis), clock)
            except UntraceableError as error:
                return SlowDrift(factor, names, units, nothing, unit, str(error))
            bounds[gain, column] = bound
            if not np.isfinite(bound) and not why:
                context = dict(zip(names, place[live].tolist(), strict=True))
                why = _why(int(gain), context)
    return SlowDrift(factor, names, units, bounds, unit, why)


def _largest(
    loops: GainLoops, boxes: Boxes, gain: int, axis: int, clock: Clock
) -> tuple[float, Array]:
    """Return a bound on c over all boxes of a gain, and a context where it is large."""
    extent, work = boxes.extent, boxes
    reached, settled, n_boxes = 0.0, 0.0, 0
    place = boxes.centre[0]

    def at_points(rows: Array) -> None:
        nonlocal reached, place
        points = Boxes.points(rows)
        same = np.full(len(rows), gain)
        values = loops.sensitivity_bounds(points, same, axis)
        if values.max() > reached:
            reached, place = float(values.max()), rows[values.argmax()]

    at_points(np.concatenate([boxes.low, boxes.high, boxes.centre]))
    for cut in range(MAX_CUTS + 1):
        same = np.full(len(work), gain)
        bounds = loops.sensitivity_bounds(work, same, axis)
        n_boxes += len(work)
        is_open = ~(bounds <= reached * (1 + GAP))
        if not is_open.any() or not np.isfinite(reached):
            settled = max(settled, float(bounds.max()))
            break
        is_last = cut == MAX_CUTS or clock.left <= 0
        if is_last or n_boxes + 2 * int(is_open.sum()) > MAX_BOXES:
            settled = max(settled, float(bounds.max()))
            place = work.centre[bounds.argmax()]
            break
        settled = max(settled, float(bounds[~is_open].max(initial=0.0)))
        work = work[np.flatnonzero(is_open)]
        at_points(work.centre)
        work, _ = work.split(relative_widths(work, extent).argmax(1))
    return max(settled, reached), place


def _why(gain: int, context: Mapping[str, float]) -> str:
    place = context_words(context, list(context))
    return (
        f"no rate is shown for policy {gain} near {place}: its loop is unstable there, "
        "its weights are singular, or the time was up"
    )


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
