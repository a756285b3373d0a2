"""The policy library: given a context, which policy, and what is known about it.

A library holds the chosen policies, the map from contexts to them, and what is
guaranteed where. `select` answers for any context, one or a million; `act` runs the
policy; `tracker` follows a context that moves without switching to and fro.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Numbers
from taskspace.deploy.base import (
    Guarantee,
    Library,
    Outside,
    Status,
    check_observation,
    gain_action,
)
from taskspace.deploy.regions import GridRegions, Regions, regions_of
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearController, LinearGain, Mlp, Policy, TabularPolicy
from taskspace.spaces import Space, log_axes_of


@dataclass(frozen=True, eq=False)
class Selection:
    """What `select` answers: scalars for one context, arrays for many.

    Args:
        policy: index of the policy in the library, −1 where it is refused.
        status: a `Status`.
        margin: ε minus the loss known for the region; a statement about this context
            only where it is guaranteed or estimated.
        held: whether hysteresis held another policy than the map's.
    """

    policy: Any
    status: Any
    margin: Any
    held: Any = False

    @property
    def guaranteed(self) -> Any:
        """Whether a proof or a statement of confidence speaks of the context."""
        return self.status == Status.GUARANTEED

    @property
    def estimated(self) -> Any:
        """Whether an estimate says that the policy serves the context."""
        return self.status == Status.ESTIMATED

    @property
    def inside(self) -> Any:
        """Whether the context lies within the range of the library."""
        return (self.status != Status.OUTSIDE) & (self.status != Status.REFUSED)


@dataclass(frozen=True)
class Entry:
    """One policy of a library: where it comes from.

    Args:
        name: what to call it.
        source: index of its source in the table, −1 if it has none.
        member: index in the family of that source.
        context: its source's context by name, empty if it has none.
    """

    name: str
    source: int = -1
    member: int = 0
    context: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PolicyLibrary(Library):
    """Policies, the map from contexts to them, and what is guaranteed where.

    `dataclasses.replace(library, outside="clamp")` gives a library that clamps,
    `dataclasses.replace(library, policies=None)` one of names only.

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
        provenance: where it comes from, plain JSON values.
        log_axes: whether each axis is logarithmic; none is if left out.
        targets: names of targets that have no coordinates. A target's context is its
            place in this list, on one axis.
    """

    entries: tuple[Entry, ...]
    regions: Regions
    guarantee: Guarantee
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    policies: Policy | None = None
    outside: Outside = "refuse"
    fixed: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    log_axes: tuple[bool, ...] = ()
    targets: tuple[str, ...] = ()

    def __post_init__(self):
        for name, blank in (("units", ""), ("log_axes", False)):
            given = getattr(self, name) or (blank,) * len(self.low)
            object.__setattr__(self, name, tuple(given))
        self.check()
        fits = len(self.log_axes) == len(self.low)
        if not fits or (self.low[list(self.log_axes)] <= 0).any():
            raise InvalidInputError(
                "log_axes must say of each axis whether it is logarithmic, and such an "
                f"axis must be positive, but got {self.log_axes} from {self.low}."
            )
        used = self.regions.policy
        if not (-1 <= used.min() and used.max() < self.size):
            raise InvalidInputError(
                f"Regions must use policies 0 to {self.size - 1} (−1 for none), but "
                f"use {used.min()} to {used.max()}."
            )
        arrays = {} if self.policies is None else self.policies.arrays()
        for name, array in arrays.items():
            is_finite = array.dtype.kind != "f" or np.isfinite(array).all()
            if len(array) != self.size or not is_finite:
                raise InvalidInputError(
                    f"There must be {self.size} policies of finite numbers, one per "
                    f"entry, but {name} has shape {array.shape}."
                )

    @classmethod
    def from_policies(
        cls,
        policies: Policy | Sequence[str],
        space: Space,
        *,
        outside: Outside = "refuse",
    ) -> "PolicyLibrary":
        """Return a library made by hand: one policy per design point, no guarantee.

        Args:
            policies: a stack with one leading dim, or the names of policies that are
                elsewhere.
            space: the design points.
            outside: `"refuse"` or `"clamp"` contexts outside the range of the points.

        Examples:
            >>> from taskspace import PolicyLibrary, Points
            >>> points = Points(["k"], [1.0, 3.0])
            >>> made = PolicyLibrary.from_policies(["soft", "stiff"], points)
            >>> made.select({"k": 2.5}).policy
            1
        """
        stack, titles = None, [] if isinstance(policies, Policy) else list(policies)
        if isinstance(policies, Policy):
            stack, titles = policies, [f"policy {i}" for i in range(space.size)]
        if len(titles) != space.size:
            raise InvalidInputError(
                f"There must be one policy per point, but there are {space.size} "
                f"points and {len(titles)} policies."
            )
        log_axes, unknown = log_axes_of(space), np.full(space.size, np.nan)
        facts = np.arange(space.size), np.zeros(space.size, bool), unknown
        return cls(
            tuple(Entry(t, context=space.context(i)) for i, t in enumerate(titles)),
            regions_of(space.points, *facts, log_axes=log_axes),
            Guarantee(None, "none", "vacuous", "Made by hand; nothing is guaranteed."),
            tuple(space.names),
            policies=stack,
            outside=outside,
            provenance={"made": "by hand"},
            log_axes=tuple(log_axes),
        )

    @property
    def size(self) -> int:
        """Number of policies."""
        return len(self.entries)

    @property
    def low(self) -> Array:  # type: ignore[override]
        """Lower corner of the range."""
        return self.regions.low

    @property
    def high(self) -> Array:  # type: ignore[override]
        """Upper corner of the range."""
        return self.regions.high

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
        return None

    # --- select -----------------------------------------------------------------

    def select(self, context: Any) -> Selection:
        """Return which policy to use, and what is known about it there.

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
        given, regions = self.rows(context), self.regions
        rows = given.reshape(-1, len(self.names))
        finite, inside = self.finite_inside(rows)
        safe = np.clip(np.where(finite[:, None], rows, self.low), self.low, self.high)
        region = regions.locate(safe)
        policy, margin = regions.policy[region], regions.margin[region]
        status = np.where(inside, np.int64(Status.INSIDE), np.int64(Status.OUTSIDE))
        if self.guarantee.status != Status.INSIDE:
            known = inside & regions.knows(rows, region)
            status[known & (margin < 0)] = Status.FAILING
            status[known & regions.served[region]] = self.guarantee.status
        refused = ~finite | (policy < 0) | (region < 0)
        if self.outside == "refuse":
            refused |= ~inside
        policy[refused], status[refused], margin[refused] = -1, Status.REFUSED, np.nan
        if given.ndim == 1:
            return Selection(int(policy[0]), Status(int(status[0])), float(margin[0]))
        found = (x.reshape(given.shape[:-1]) for x in (policy, status, margin))
        return Selection(*found, held=np.zeros(given.shape[:-1], bool))

    def statuses(self) -> Numbers:
        """Return the status that `select` gives at the centre of each region.

        It is the status of all contexts that the region knows (see `knows`): the
        node alone, or the whole box. Everywhere else inside it is `INSIDE`.
        """
        return np.asarray(self.select(self.regions.centres).status, np.int64)

    def rows(self, context: Any) -> Array:
        """Return contexts as rows in the order of `names`.

        Args:
            context: see `select`.
        """
        names = np.asarray(context) if self.targets else np.empty(0)
        if names.dtype.kind not in "UO":
            return super().rows(context)
        place = {name: float(i) for i, name in enumerate(self.targets)}
        for name in names.ravel():
            if str(name) not in place:
                raise UnknownNameError("target of this library", name, place)
        found = [place[str(name)] for name in names.ravel()]
        return np.array(found).reshape(*names.shape, 1)

    def require_coordinates(self, what: str) -> None:
        """Refuse targets that have names and no coordinates.

        Args:
            what: what needs contexts with coordinates, the subject of a sentence.
        """
        if self.targets:
            raise InvalidInputError(
                f"{what}, but the targets of this library have names only."
            )

    # --- act --------------------------------------------------------------------

    def act(self, context: Any, observation: ArrayLike) -> NDArray[Any]:
        """Return the action of the policy that the context selects.

        Args:
            context: one context or many, as in `select`.
            observation: one observation, or one per context, `(context, …)`.

        Returns:
            The action, or one per context. `OutsideError` where a context is refused.
        """
        chosen = self.select(context)
        self.check_served(chosen.status, context)
        return self.act_as(chosen.policy, observation)

    def act_as(self, policy: ArrayLike, observation: ArrayLike) -> NDArray[Any]:
        """Return the action of policies by their index.

        Args:
            policy: index of the policy, one or many.
            observation: one observation, or one per policy.
        """
        if self.policies is None:
            raise InvalidInputError(
                "This library holds names, not policies, so it cannot act; use the "
                f"name: {self.entries[0].name!r}, …"
            )
        stack = self.policies
        is_random = isinstance(stack, TabularPolicy) and not stack.is_deterministic
        if is_random and self.guarantee.kind == "proof":
            raise InvalidInputError(
                "A library plays the most probable action of a state, but these "
                "policies draw their actions at random, and it was proven so. Give "
                "policies with one action per state, or draw by "
                "library.policies.probabilities."
            )
        index, seen = np.asarray(policy, np.intp), np.asarray(observation)
        if isinstance(stack, LinearGain | Mlp) and self.signal_sizes:
            check_observation(seen, self.signal_sizes[0])
        if isinstance(stack, LinearGain):
            return gain_action(stack.gain[index], seen.astype(np.float64))
        if index.ndim == 0:
            return np.asarray(stack[int(index)].act(seen))
        seen = seen.reshape(index.size, *seen.shape[index.ndim :])
        pairs = zip(index.ravel().tolist(), seen, strict=True)
        actions = np.stack([stack[p].act(x) for p, x in pairs])
        return actions.reshape(*index.shape, *actions.shape[1:])

    def tracker(self, hysteresis: float = 0.02) -> "Tracker":
        """Return a selector for one context that moves: see `Tracker`.

        Args:
            hysteresis: how far a context may leave the region of the present policy
                before it is changed, as a share of the width of each axis.
        """
        return Tracker(self, hysteresis)

    # --- contract ---------------------------------------------------------------

    def terms(self) -> dict[str, Any]:
        """Return the parts of the contract that a policy library has."""
        regions, provenance = self.regions, self.provenance
        objective = provenance.get("objective", {})
        signals: list[dict[str, Any]] = [{"size": n} for n in self.signal_sizes or ()]
        if isinstance(self.policies, LinearGain):
            signals[1]["law"] = "u = -K x"
            for signal, key in zip(signals, ("states", "inputs"), strict=True):
                signal["names"] = list(objective.get(key, ()))
        observation, action = signals or (None, None)
        selection: dict[str, Any] = {
            "law": regions.law,
            "kind": regions.kind,
            "regions": len(regions.policy),
        }
        if isinstance(regions, GridRegions):
            borders = zip(self.names, regions.borders, strict=True)
            selection["borders"] = {name: x.tolist() for name, x in borders}
        inputs: dict[str, Any] = {"observation": observation}
        if self.targets:
            inputs["context"] = [{"name": "target", "values": list(self.targets)}]
        return {
            "inputs": inputs,
            "outputs": {
                "policy": {"values": [e.name for e in self.entries], "none": -1},
                "action": action,
            },
            "selection": selection,
            "objective": objective or {"statement": provenance.get("cost", "")},
        }

    def __repr__(self) -> str:
        return (
            f"PolicyLibrary({self.size} policies, {len(self.regions.policy)} "
            f"{self.regions.plural}, {self.span}: {self.guarantee.statement})"
        )


class Tracker:
    """Follows one context and changes the policy only when it must.

    While the map gives the present policy, the context becomes the anchor. When the
    map gives another one, the present policy is held as long as the context is within
    `hysteresis` of the anchor on every axis. So a measurement that wobbles by less than
    that around a border never switches back and forth, and no policy is used farther
    than that beyond its own region. A held policy is not guaranteed.

    Where the stability of a library is proven for switches that lie a dwell time apart,
    a policy is also held until that time has passed since the last switch.

    A reading that is refused (not a number, out of the range) gives no policy and
    changes nothing else: the present policy, its anchor and its age are kept.

    Args:
        library: the library.
        hysteresis: share of the width of each axis, at least 0.

    Examples:
        >>> from taskspace import Points, PolicyLibrary
        >>> points = Points(["k"], [1.0, 3.0])
        >>> library = PolicyLibrary.from_policies(["soft", "stiff"], points)
        >>> track = library.tracker(hysteresis=0.1)
        >>> [track.select([k]).policy for k in (1.95, 2.05, 1.95, 2.05, 2.3, 2.15)]
        [0, 0, 0, 0, 1, 1]
    """

    def __init__(self, library: PolicyLibrary, hysteresis: float):
        library.guarantee.check_hysteresis(hysteresis)
        library.require_coordinates("Hysteresis needs contexts with coordinates")
        self.library = library
        self.band = hysteresis * (library.high - library.low)
        self.dwell_time = library.guarantee.dwell_time
        self.reset()

    def reset(self) -> None:
        """Forget the present policy."""
        self.policy = -1
        self.age = 0.0
        self.anchor = np.full(len(self.library.names), np.nan)

    def select(self, context: Any, elapsed: float = np.inf) -> Selection:
        """Return the policy to use now.

        Args:
            context: one context, a mapping by name or a row.
            elapsed: time since the last call, in the unit of the dwell time; where it
                is left out, no policy is held for the sake of a dwell time.
        """
        row = self.library.rows(context)
        if row.ndim != 1:
            raise InvalidInputError(
                f"A tracker follows one context, but got shape {row.shape}."
            )
        chosen = self.library.select(row)
        if elapsed > 0:
            self.age += elapsed
        if chosen.policy < 0:
            return chosen
        if chosen.policy != self.policy:
            near = bool((np.abs(row - self.anchor) <= self.band).all())
            if self.policy >= 0 and (near or self.age < self.dwell_time):
                status = Status.INSIDE if chosen.inside else Status.OUTSIDE
                return Selection(self.policy, status, float("nan"), held=True)
            self.age = 0.0
        self.policy, self.anchor = chosen.policy, row
        return chosen

    def act(self, context: Any, observation: Any, elapsed: float = np.inf) -> Any:
        """Return the action of the policy to use now.

        Args:
            context: one context.
            observation: one observation.
            elapsed: time since the last call.
        """
        chosen = self.select(context, elapsed)
        self.library.check_served(chosen.status, context)
        return self.library.act_as(chosen.policy, observation)
