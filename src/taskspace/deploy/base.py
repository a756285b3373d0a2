"""The policy library: given a context, which policy, and what is known about it.

A library holds the chosen policies, the map from contexts to them, and what is
guaranteed where. `select` answers for any context, one or a million; `act` runs the
policy; `tracker` follows a context that drifts without switching to and fro.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.deploy.records import (
    Entry,
    Guarantee,
    Outside,
    OutsideError,
    Selection,
    Status,
)
from taskspace.deploy.regions import (
    BoxRegions,
    GridRegions,
    NamedRegions,
    Regions,
    regions_of,
)
from taskspace.deploy.tracker import Tracker
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import (
    LinearController,
    LinearGain,
    Mlp,
    Policy,
    TabularPolicy,
)
from taskspace.questions import Question
from taskspace.spaces import Points, Reach, Space, log_axes_of
from taskspace.systems.base import System

# Contexts that are selected for at once: their numbers stay in the cache.
STRETCH = 16_384


@dataclass(frozen=True, eq=False)
class PolicyLibrary:
    """Policies, the map from contexts to them, and what is guaranteed where.

    Args:
        entries: the policies' names and sources.
        regions: the map.
        guarantee: what is known of it.
        names: names of the context axes, one per column of a context.
        units: unit of each axis, `""` for a pure number.
        policies: a stack with one leading dim, one policy per entry; None where the
            policies are elsewhere and entries are names only.
        outside: `"refuse"` gives no policy outside the range; `"clamp"` the policy of
            the nearest context inside, and says so.
        fixed: context axes that the range does not vary, and their values.
        rule: how one of several policies that serve was chosen.
        provenance: where it comes from, plain JSON values.
        log_axes: whether each axis is logarithmic; by the borders of a grid if left
            out.
    """

    entries: tuple[Entry, ...]
    regions: Regions
    guarantee: Guarantee
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    policies: Policy | None = None
    outside: Outside = "refuse"
    fixed: Mapping[str, float] = field(default_factory=dict)
    rule: str = "given"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    log_axes: tuple[bool, ...] = ()

    def __post_init__(self):
        if not self.entries:
            raise InvalidInputError(
                "A library needs at least one policy, but got none."
            )
        if self.outside not in get_args(Outside):
            raise UnknownNameError("behaviour outside", self.outside, get_args(Outside))
        if not self.units:
            object.__setattr__(self, "units", ("",) * len(self.names))
        n_axes = len(self.regions.low)
        if not self.log_axes:
            is_log = (False,) * n_axes
            if isinstance(self.regions, GridRegions):
                is_log = self.regions.log_axes
            object.__setattr__(self, "log_axes", is_log)
        if len(self.log_axes) != n_axes or (self.low[list(self.log_axes)] <= 0).any():
            raise InvalidInputError(
                f"Logarithmic axes must be given for all {n_axes} axes and be "
                f"positive, but got log_axes {self.log_axes} and low {self.low}."
            )
        if len(self.names) != n_axes or len(self.units) != n_axes:
            raise InvalidInputError(
                f"There must be one name and one unit for each of {n_axes} axes, but "
                f"got names {self.names} and units {self.units}."
            )
        used = self.regions.policy
        if used.size and not (-1 <= used.min() and used.max() < self.size):
            raise InvalidInputError(
                f"Regions must use policies 0 to {self.size - 1} (−1 for none), but "
                f"use {used.min()} to {used.max()}."
            )
        if self.policies is not None:
            for name, array in self.policies.arrays().items():
                if len(array) != self.size:
                    raise InvalidInputError(
                        f"There must be {self.size} policies, one per entry, but "
                        f"{name} has shape {array.shape}."
                    )
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise InvalidInputError(
                        f"A policy must hold finite numbers, but {name} does not."
                    )

    @classmethod
    def from_policies(
        cls,
        policies: Policy | Sequence[str],
        space: Space,
        assignment: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        outside: Outside = "refuse",
    ) -> "PolicyLibrary":
        """Return a library made by hand: policies at design points, no guarantee.

        Args:
            policies: a stack with one leading dim, or the names of policies that are
                elsewhere.
            space: the design points.
            assignment: number of the policy used at each point, −1 for none; the
                point's own number if left out.
            names: what to call the policies.
            outside: `"refuse"` or `"clamp"` contexts outside the range of the points.

        Examples:
            >>> from taskspace import PolicyLibrary, Points
            >>> points = Points(["k"], [1.0, 3.0])
            >>> made = PolicyLibrary.from_policies(["soft", "stiff"], points)
            >>> made.select({"k": 2.5}).policy
            1
        """
        stack = policies if isinstance(policies, Policy) else None
        titles = names if stack is not None else list(policies)  # type: ignore[arg-type]
        size = len(titles or []) if stack is None else stack.stack_shape[0]
        used = np.arange(space.size) if assignment is None else np.asarray(assignment)
        if used.shape != (space.size,):
            raise InvalidInputError(
                f"There must be one policy per point, but there are {space.size} "
                f"points and the assignment has shape {used.shape}."
            )
        if titles is not None and len(titles) != size:
            raise InvalidInputError(
                f"There must be one name per policy, but there are {size} policies and "
                f"{len(titles)} names."
            )
        contexts = [
            dict(zip(space.names, x, strict=True)) for x in space.points.tolist()
        ]
        entries = tuple(
            Entry(str(title), context=contexts[i] if assignment is None else {})
            for i, title in enumerate(titles or [f"policy {i}" for i in range(size)])
        )
        unknown = np.full(space.size, np.nan)
        regions = regions_of(
            space.points,
            used,
            np.zeros(space.size, bool),
            unknown,
            log_axes=log_axes_of(space),
        )
        return cls(
            entries,
            regions,
            Guarantee(None, "none", "vacuous", "Made by hand; nothing is guaranteed."),
            tuple(space.names),
            policies=stack,
            outside=outside,
            provenance={"made": "by hand"},
        )

    @property
    def size(self) -> int:
        """Number of policies."""
        return len(self.entries)

    @property
    def question(self) -> Question | None:
        """What the library answers."""
        return self.guarantee.question

    @property
    def signal_sizes(self) -> tuple[int, int] | None:
        """How many numbers an observation and an action have; None if not known."""
        stack = self.policies
        if isinstance(stack, LinearGain | LinearController):
            matrix = stack.gain if isinstance(stack, LinearGain) else stack.D
            return matrix.shape[-1], matrix.shape[-2]
        if isinstance(stack, Mlp):
            n_actions = 1 if stack.head == "argmax" else stack.biases[-1].shape[-1]
            return stack.weights[0].shape[-2], n_actions
        return (1, 1) if isinstance(stack, TabularPolicy) else None

    @property
    def low(self) -> Array:
        """Lower corner of the range."""
        return self.regions.low

    @property
    def high(self) -> Array:
        """Upper corner of the range."""
        return self.regions.high

    @property
    def reach(self) -> Reach:
        """The range, with logarithmic axes measured in logarithms."""
        return Reach(self.low, self.high, np.array(self.log_axes, bool))

    @property
    def measured_range(self) -> tuple[Array, Array]:
        """Ends of the contexts that may be measured: the range, wider by the error."""
        error = None if self.question is None else self.question.error
        if error is None or not isinstance(self.regions, GridRegions | BoxRegions):
            return self.low, self.high
        return error.measured_range(self.names, self.low, self.high)

    # --- select -----------------------------------------------------------------

    def select(self, context: Any) -> Selection:
        """Which policy to use, and what is known about it there.

        Args:
            context: one context: a mapping by name, a row of numbers, or the name of
                a target; or many: an array `(context, axis)` or a list of names.

        Examples:
            >>> from taskspace import Points, PolicyLibrary
            >>> points = Points(["k"], [1.0, 3.0])
            >>> library = PolicyLibrary.from_policies(["soft", "stiff"], points)
            >>> library.select({"k": 2.9}).policy
            1
            >>> library.select({"k": 9.0}).status
            <Status.REFUSED: 3>
        """
        if isinstance(self.regions, NamedRegions):
            one = isinstance(context, str)
            places = self.regions.look_up([context] if one else context)
            policy = self.regions.policy[places]
            status = self.statuses()[places]
            many = Selection(policy, status, self.regions.margin[places], places)
            return _first(many) if one else many
        rows = self.rows(context)
        many = self._select(rows.reshape(-1, len(self.names)))
        if rows.ndim == 1:
            return _first(many)
        parts = many.policy, many.status, many.margin, many.region
        shape = rows.shape[:-1]
        held = np.zeros(shape, bool)
        return Selection(*(x.reshape(shape) for x in parts), held=held)

    def _select(self, rows: Array) -> Selection:
        """Select for many contexts, a stretch that fits the cache at a time."""
        parts = [
            self._select_stretch(rows[first : first + STRETCH])
            for first in range(0, max(1, len(rows)), STRETCH)
        ]
        if len(parts) == 1:
            return Selection(*parts[0])
        return Selection(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _select_stretch(self, rows: Array) -> tuple[NDArray, ...]:
        regions = self.regions
        finite, inside = np.ones((2, len(rows)), bool)
        for x, low, high in zip(rows.T, *self.measured_range, strict=True):
            finite &= np.isfinite(x)
            inside &= (x >= low) & (x <= high)
        safe = rows
        if not (inside & self._is_within(rows)).all():
            safe = np.where(finite[:, None], rows, self.low)
            safe = np.clip(safe, self.low, self.high)
        region = regions.locate(safe)
        policy = regions.policy[region]
        status = np.where(inside, np.int64(Status.INSIDE), np.int64(Status.OUTSIDE))
        if self.guarantee.speaks:
            is_known = inside & regions.knows(rows, region)
            status[is_known] = self._statuses[region[is_known]]
        refused = ~finite | (policy < 0)
        if self.outside == "refuse":
            refused |= ~inside
        margin = regions.margin[region]
        if refused.any():
            policy[refused], status[refused] = -1, Status.REFUSED
            margin[refused] = np.nan
        return policy, status, margin, np.where(finite, region, -1)

    def _is_within(self, rows: Array) -> Mask:
        return np.asarray(((rows >= self.low) & (rows <= self.high)).all(1))

    def rows(self, context: Any) -> Array:
        """Contexts as rows in the order of `names`.

        Args:
            context: a mapping by name (of numbers or arrays), or an array whose last
                dim is the axes.
        """
        if isinstance(self.regions, NamedRegions):
            self.regions.locate(np.asarray(context))
        if isinstance(context, Mapping):
            for name, value in context.items():
                if name in self.fixed:
                    if not (np.asarray(value) == self.fixed[name]).all():
                        raise InvalidInputError(
                            f"This library holds for {name} = {self.fixed[name]:g} "
                            f"only, but got {name} = {value}."
                        )
                elif name not in self.names:
                    raise UnknownNameError("context axis", name, self.names)
            missing = [name for name in self.names if name not in context]
            if missing:
                raise InvalidInputError(
                    f"A context must give {', '.join(self.names)}, but "
                    f"{', '.join(missing)} is missing."
                )
            columns = [np.asarray(context[name], float) for name in self.names]
            return np.stack(np.broadcast_arrays(*columns), -1)
        rows = np.asarray(context, np.float64)
        if rows.ndim == 0 or rows.shape[-1] != len(self.names):
            raise InvalidInputError(
                f"A context must have one number each for {', '.join(self.names)}, but "
                f"got shape {rows.shape}."
            )
        return rows

    def contexts(self, system: System, rows: Array) -> Array:
        """Return full context rows of a system, with the library's fixed values.

        Args:
            system: the tasks.
            rows: contexts in the order of `names`, `(context, axis)`.
        """
        fixed = np.tile(list(self.fixed.values()), (len(rows), 1))
        columns = [rows, fixed.reshape(len(rows), -1)]
        names = [*self.names, *self.fixed]
        return system.contexts(Points(names, np.concatenate(columns, axis=1)))

    # --- act --------------------------------------------------------------------

    def act(self, context: Any, observation: ArrayLike) -> NDArray[Any]:
        """Return action of the policy that the context selects.

        Args:
            context: one context or many, as in `select`.
            observation: one observation, or one per context, `(context, …)`.

        Returns:
            The action, or one per context. `OutsideError` where a context is refused.
        """
        chosen = self.select(context)
        if np.any(chosen.status == Status.REFUSED):
            raise OutsideError(self._refusal(context, chosen), chosen)
        return self.act_as(chosen.policy, observation)

    def act_as(self, policy: ArrayLike, observation: ArrayLike) -> NDArray[Any]:
        """Return action of policies by their number.

        Gains are multiplied column by column, in the order in which the exported C
        does, so both give the same bits.

        Args:
            policy: number of the policy, one or many.
            observation: one observation, or one per policy.
        """
        if self.policies is None:
            raise InvalidInputError(
                "This library holds names, not policies, so it cannot act; use the "
                f"name: {self.entries[0].name!r}, …"
            )
        self.check_actions()
        number = np.asarray(policy, np.intp)
        seen = np.asarray(observation)
        if isinstance(self.policies, LinearGain | Mlp) and self.signal_sizes:
            n_seen, _ = self.signal_sizes
            if seen.shape[-1:] != (n_seen,):
                raise InvalidInputError(
                    f"An observation must have {n_seen} numbers, but got shape "
                    f"{seen.shape}."
                )
        if isinstance(self.policies, LinearGain):
            gain = -self.policies.gain[number]
            seen = seen.astype(np.float64, copy=False)
            action = gain[..., 0] * seen[..., :1]
            for j in range(1, gain.shape[-1]):
                action = action + gain[..., j] * seen[..., j : j + 1]
            return action
        if number.ndim == 0:
            return np.asarray(self.policies[int(number)].act(seen))
        flat = number.reshape(-1)
        seen = seen.reshape(len(flat), *seen.shape[number.ndim :])
        parts: list[Any] = [None] * len(flat)
        for p in np.unique(flat):
            one, rows = self.policies[int(p)], np.flatnonzero(flat == p)
            if isinstance(one, Mlp):  # all at once
                actions = one.act(seen[rows])
            else:
                actions = [one.act(seen[i]) for i in rows]
            for i, action in zip(rows, actions, strict=True):
                parts[i] = action
        return np.stack(parts).reshape(*number.shape, *np.shape(parts[0]))

    def require_coordinates(self, what: str, advice: str = "") -> None:
        """Refuse targets that have names and no coordinates.

        Args:
            what: what needs contexts with coordinates, the subject of a sentence.
            advice: what to do instead, a further sentence.
        """
        if isinstance(self.regions, NamedRegions):
            raise InvalidInputError(
                f"{what}, but the targets of this library have names only.{advice}"
            )

    def require_policies(self, what: str) -> Policy:
        """Return the policies; refuse a library that holds only their names.

        Args:
            what: what needs policies, the subject of a sentence.
        """
        if self.policies is None:
            raise InvalidInputError(f"{what}, but this library holds names only.")
        return self.policies

    def check_actions(self) -> None:
        """Refuse to play other policies than those that were proven to serve."""
        stack = self.policies
        if not isinstance(stack, TabularPolicy) or stack.is_deterministic:
            return
        if self.guarantee.kind == "proof":
            raise InvalidInputError(
                "A library plays the most probable action of a state, but these "
                "policies draw their actions at random, and it was proven so. Give "
                "policies with one action per state, or draw by "
                "library.policies.probabilities."
            )

    def _refusal(self, context: Any, chosen: Selection) -> str:
        refused = np.flatnonzero(np.atleast_1d(chosen.status == Status.REFUSED))
        if isinstance(self.regions, NamedRegions):
            return "No policy of this library serves this target."
        row = self.rows(context).reshape(-1, len(self.names))[refused[0]]
        what = ", ".join(
            f"{n} = {x:g}" for n, x in zip(self.names, row.tolist(), strict=True)
        )
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        return (
            f"A context must be served by a policy, which {what}{more} is not: the "
            f"library holds for {self._span}. A library with outside='clamp' uses the "
            "nearest policy and says so."
        )

    @property
    def operation(self) -> str:
        """What is proven of switching, for people; empty if nothing is."""
        return str(self.guarantee.values.get("operation", {}).get("statement", ""))

    @property
    def dwell_time(self) -> float:
        """Time between switches that the proof of stability asks for, 0 for none."""
        return float(self.guarantee.values.get("operation", {}).get("dwell_time") or 0)

    def check_hysteresis(self, hysteresis: float) -> None:
        """Refuse a hysteresis that is none, or beyond that of a proof of switching.

        Args:
            hysteresis: a share of the width of each axis.
        """
        if not 0 <= hysteresis < np.inf:
            raise InvalidInputError(
                f"hysteresis >= 0 must hold, but got hysteresis={hysteresis}."
            )
        operation = self.guarantee.values.get("operation", {})
        proven = operation.get("hysteresis", np.inf)
        if hysteresis > proven:
            raise InvalidInputError(
                f"Switching was proven with hysteresis={proven:g}, which must not be "
                f"exceeded, but got hysteresis={hysteresis:g}. Prove it anew with that "
                "one: with_operation(library, system, hysteresis=...)."
            )

    def tracker(self, hysteresis: float = 0.02) -> Tracker:
        """Return a selector for one context that moves: see `Tracker`.

        Args:
            hysteresis: how far a context may leave the region of the present policy
                before it is changed, as a share of the width of each axis.
        """
        return Tracker(self, hysteresis)

    def with_outside(self, outside: Outside) -> "PolicyLibrary":
        """Return the same library with another behaviour outside its range.

        Args:
            outside: `"refuse"` or `"clamp"`.
        """
        return replace(self, outside=outside)

    def without_policies(self) -> "PolicyLibrary":
        """Return the same library with the names of its policies only."""
        return replace(self, policies=None)

    def save(self, folder: str | Path, *, command: str | None = None) -> Path:
        """Write the library as a folder, see `taskspace.deploy.files`.

        Policies that cannot be written are refused; `without_policies` leaves them
        out.

        Args:
            folder: a folder that does not exist or is empty.
            command: what was typed to make it, kept in the contract.
        """
        from taskspace.deploy.files import save_library

        return save_library(self, folder, command=command)

    @staticmethod
    def load(folder: str | Path) -> "PolicyLibrary":
        """Load the library that `save` wrote; refuse one that was changed.

        Args:
            folder: the folder.
        """
        from taskspace.deploy.files import load_library

        return load_library(folder)

    # --- what it says of itself -------------------------------------------------

    def statuses(self) -> Numbers:
        """Return the `Status` of each region: of its node alone, or anywhere in a box.

        A context near a node, in its region, is `INSIDE`.
        """
        return self._statuses.copy()

    @cached_property
    def _statuses(self) -> Numbers:
        regions = self.regions
        status = np.full(regions.n_regions, np.int64(Status.INSIDE))
        if self.guarantee.speaks:
            status[regions.margin < 0] = Status.FAILING
            status[regions.served] = self.guarantee.status
        status[regions.policy < 0] = Status.REFUSED
        return status

    def shares(self) -> Array:
        """Share of the regions that use each policy: of nodes, or of the volume."""
        weight = np.ones(self.regions.n_regions)
        if isinstance(self.regions, BoxRegions):
            weight = np.prod(self.regions.box_high - self.regions.box_low, axis=1)
        used = self.regions.policy >= 0
        each = np.bincount(
            self.regions.policy[used], weights=weight[used], minlength=self.size
        )
        return each / weight.sum()

    def __repr__(self) -> str:
        axes = f", {self._span}" if self.names else ""
        return (
            f"PolicyLibrary({self.size} policies, {self.regions.n_regions} "
            f"{self.regions.plural}{axes}: {self.guarantee.statement})"
        )

    @property
    def _span(self) -> str:
        """The range for people."""
        limits = zip(self.names, self.low, self.high, strict=True)
        return ", ".join(f"{n} in [{a:g}, {b:g}]" for n, a, b in limits)


def _first(many: Selection) -> Selection:
    return Selection(
        int(many.policy[0]),
        Status(int(many.status[0])),
        float(many.margin[0]),
        int(many.region[0]),
    )
