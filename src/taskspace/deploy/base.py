"""The policy library: given a context, which policy, and what is known about it.

A library holds the chosen policies, the map from contexts to them, and what is
guaranteed where. `select` answers for any context, one or a million; `act` runs the
policy; `tracker` follows a context that moves without switching to and fro.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Numbers
from taskspace.certificates.statements import CertificateKind
from taskspace.deploy.regions import Regions, regions_of
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import (
    LinearController,
    LinearGain,
    Mlp,
    Policy,
    TabularPolicy,
)
from taskspace.questions import Question
from taskspace.spaces import Points, Space, log_axes_of
from taskspace.systems.base import System

if TYPE_CHECKING:
    from taskspace.deploy.schedules import Lookup, ScheduleLibrary
    from taskspace.deploy.tracker import Tracker

Scope = Literal["nodes", "box", "law", "none"]
Outside = Literal["refuse", "clamp"]
# Contexts that are selected for at once: their numbers stay in the cache.
STRETCH = 16_384


class Status(IntEnum):
    """What a selection may rely on."""

    GUARANTEED = 0
    """A proof or a statement of confidence speaks of this context."""
    INSIDE = 1
    """Within the range, where nothing is known (between nodes, say)."""
    OUTSIDE = 2
    """Outside the range; the policy of the nearest context inside is used."""
    REFUSED = 3
    """No policy: outside of a library that refuses, not a number, or not served."""
    ESTIMATED = 4
    """An estimate says that the policy serves this context: the numbers are
    means of episodes, or a user's word. Nothing is guaranteed."""
    FAILING = 5
    """What is known says that no policy of the library serves this context; the one
    that loses least is used."""


@dataclass(frozen=True, eq=False)
class Selection:
    """What `select` answers: scalars for one context, arrays for many.

    Args:
        policy: index of the policy in the library, −1 where it is refused.
        status: a `Status`.
        margin: ε minus the loss known for the region; a statement about this context
            only where it is guaranteed or estimated.
        region: index of the region, −1 where there is none.
        held: whether hysteresis held another policy than the map's.
    """

    policy: Any
    status: Any
    margin: Any
    region: Any
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


class OutsideError(InvalidInputError):
    """A context has no policy.

    Args:
        message: what must hold, what arrived, what to do.
        selection: the selection that was refused.
    """

    def __init__(self, message: str, selection: "Selection | Lookup"):
        super().__init__(message)
        self.selection = selection


@dataclass(frozen=True)
class Guarantee:
    """What is known of a library, where, and how surely.

    Args:
        question: criterion, judge and ε; None where nothing was asked.
        scope: `"nodes"` (the targets of the table), `"box"` (every context of the
            certified boxes), `"law"` (a random context of a stated law), `"none"`.
        kind: `"proof"`, `"confidence"`, `"estimate"` or `"vacuous"`.
        statement: one sentence for people.
        values: further numbers, plain JSON values; `operation` has what is proven of
            switching.
    """

    question: Question | None
    scope: Scope
    kind: CertificateKind
    statement: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.scope not in get_args(Scope):
            raise UnknownNameError("scope", self.scope, get_args(Scope))
        kinds = get_args(CertificateKind)
        if self.kind not in kinds:
            raise UnknownNameError("kind of a guarantee", self.kind, kinds)

    @property
    def speaks(self) -> bool:
        """Whether something is known of single contexts, if only by an estimate."""
        return self.scope in ("nodes", "box") and self.kind != "vacuous"

    @property
    def status(self) -> Status:
        """What a selection may rely on where the policy is known to serve."""
        if not self.speaks:
            return Status.INSIDE
        return Status.ESTIMATED if self.kind == "estimate" else Status.GUARANTEED

    @property
    def operation(self) -> str:
        """What is proven of switching, for people; empty if nothing is."""
        return str(self.values.get("operation", {}).get("statement", ""))

    @property
    def dwell_time(self) -> float:
        """Time between switches that the proof of stability asks for, 0 for none."""
        return float(self.values.get("operation", {}).get("dwell_time") or 0)

    def check_hysteresis(self, hysteresis: float) -> None:
        """Refuse a hysteresis below zero, or beyond that of a proof of switching.

        Args:
            hysteresis: a share of the width of each axis.
        """
        if not 0 <= hysteresis < np.inf:
            raise InvalidInputError(
                f"hysteresis >= 0 must hold, but got hysteresis={hysteresis}."
            )
        proven = self.values.get("operation", {}).get("hysteresis", np.inf)
        if hysteresis > proven:
            raise InvalidInputError(
                f"Switching was proven with hysteresis={proven:g}, which must not be "
                f"exceeded, but got hysteresis={hysteresis:g}. Prove it anew with that "
                "one: with_operation(library, system, hysteresis=...)."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which `from_dict` reads."""
        question = None if self.question is None else self.question.to_dict()
        rest = {k: getattr(self, k) for k in ("scope", "kind", "statement")}
        return {"question": question, **rest, "values": dict(self.values)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Guarantee":
        """Return the guarantee that `to_dict` wrote.

        Args:
            values: plain values.
        """
        asked = values["question"]
        question = None if asked is None else Question.from_dict(asked)
        rest = {k: values[k] for k in ("scope", "kind", "statement", "values")}
        return cls(question, **rest)


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"context": dict(self.context)}


@dataclass(frozen=True, eq=False)
class PolicyLibrary:
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
        rule: how one of several policies that serve was chosen.
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
    rule: str = "given"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    log_axes: tuple[bool, ...] = ()
    targets: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.entries:
            raise InvalidInputError(
                "A library needs at least one policy, but got none."
            )
        if self.outside not in get_args(Outside):
            raise UnknownNameError("behaviour outside", self.outside, get_args(Outside))
        n_axes = len(self.low)
        for name, blank in (("units", ""), ("log_axes", False)):
            given = getattr(self, name) or (blank,) * n_axes
            object.__setattr__(self, name, tuple(given))
        if {len(self.names), len(self.units), len(self.log_axes)} != {n_axes}:
            raise InvalidInputError(
                f"There must be one name and one unit for each of {n_axes} axes, but "
                f"got names {self.names}, units {self.units} and log_axes "
                f"{self.log_axes}."
            )
        if (self.low[list(self.log_axes)] <= 0).any():
            raise InvalidInputError(
                f"Logarithmic axes must be positive, but begin at {self.low}."
            )
        used = self.regions.policy
        if used.size and not (-1 <= used.min() and used.max() < self.size):
            raise InvalidInputError(
                f"Regions must use policies 0 to {self.size - 1} (−1 for none), but "
                f"use {used.min()} to {used.max()}."
            )
        arrays = {} if self.policies is None else self.policies.arrays()
        for name, array in arrays.items():
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
            assignment: index of the policy used at each point, −1 for none; the
                point's own index if left out.
            names: what to call the policies.
            outside: `"refuse"` or `"clamp"` contexts outside the range of the points.

        Examples:
            >>> from taskspace import PolicyLibrary, Points
            >>> points = Points(["k"], [1.0, 3.0])
            >>> made = PolicyLibrary.from_policies(["soft", "stiff"], points)
            >>> made.select({"k": 2.5}).policy
            1
        """
        stack, titles = (policies, names) if isinstance(policies, Policy) else (
            None,
            list(policies),
        )  # fmt: skip
        size = len(titles or []) if stack is None else stack.stack_shape[0]
        titles = [f"policy {i}" for i in range(size)] if titles is None else titles
        used = np.arange(space.size) if assignment is None else np.asarray(assignment)
        if used.shape != (space.size,):
            raise InvalidInputError(
                f"There must be one policy per point, but there are {space.size} "
                f"points and the assignment has shape {used.shape}."
            )
        if len(titles) != size:
            raise InvalidInputError(
                f"There must be one name per policy, but there are {size} policies and "
                f"{len(titles)} names."
            )
        home = {} if assignment is not None else range(space.size)
        entries = tuple(
            Entry(str(title), context=space.context(i) if i in home else {})
            for i, title in enumerate(titles)
        )
        log_axes = log_axes_of(space)
        unknown = np.full(space.size, np.nan)
        served = np.zeros(space.size, bool)
        return cls(
            entries,
            regions_of(space.points, used, served, unknown, log_axes=log_axes),
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
    def question(self) -> Question | None:
        """What the library answers."""
        return self.guarantee.question

    @property
    def low(self) -> Array:
        """Lower corner of the range."""
        return self.regions.low

    @property
    def high(self) -> Array:
        """Upper corner of the range."""
        return self.regions.high

    @property
    def measured_range(self) -> tuple[Array, Array]:
        """Ends of the contexts that may be measured: the range, wider by the error."""
        return measured_range(self.question, self.names, self.low, self.high)

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
        rows = self.rows(context)
        flat = rows.reshape(-1, len(self.names))
        parts = [
            self._select(flat[first : first + STRETCH])
            for first in range(0, max(1, len(flat)), STRETCH)
        ]
        policy, status, margin, region = map(np.concatenate, zip(*parts, strict=True))
        if rows.ndim == 1:
            status = Status(int(status[0]))
            return Selection(int(policy[0]), status, float(margin[0]), int(region[0]))
        shape = rows.shape[:-1]
        found = (x.reshape(shape) for x in (policy, status, margin, region))
        return Selection(*found, held=np.zeros(shape, bool))

    def _select(self, rows: Array) -> tuple[NDArray[Any], ...]:
        """Return policy, status, margin and region of some contexts."""
        finite, inside = np.ones((2, len(rows)), bool)
        for x, low, high in zip(rows.T, *self.measured_range, strict=True):
            finite &= np.isfinite(x)
            inside &= (x >= low) & (x <= high)
        safe = rows
        if not ((rows >= self.low) & (rows <= self.high)).all():
            safe = np.where(finite[:, None], rows, self.low)
            safe = np.clip(safe, self.low, self.high)
        region = self.regions.locate(safe)
        policy, margin = self.regions.policy[region], self.regions.margin[region]
        status = np.where(inside, np.int64(Status.INSIDE), np.int64(Status.OUTSIDE))
        if self.guarantee.speaks:
            is_known = inside & self.regions.knows(rows, region)
            status[is_known] = self._known[region[is_known]]
        refused = ~finite | (policy < 0)
        if self.outside == "refuse":
            refused |= ~inside
        if refused.any():
            policy[refused], status[refused] = -1, Status.REFUSED
            margin[refused] = np.nan
        return policy, status, margin, np.where(finite, region, -1)

    @cached_property
    def _known(self) -> Numbers:
        """Status of each region where its regions know."""
        status = np.full(len(self.regions.policy), np.int64(Status.INSIDE))
        status[self.regions.margin < 0] = Status.FAILING
        status[self.regions.served] = self.guarantee.status
        return status

    def statuses(self) -> Numbers:
        """Return the status that `select` gives at the centre of each region.

        It is the status of all contexts that the region knows (`Regions.knows`): the
        node alone, or the whole box. Everywhere else inside it is `INSIDE`.
        """
        return np.asarray(self.select(self.regions.centres).status, np.int64)

    def rows(self, context: Any) -> Array:
        """Return contexts as rows in the order of `names`.

        Args:
            context: see `select`.
        """
        if self.targets:
            return self._places(context)
        return context_rows(self.names, self.fixed, context)

    def _places(self, context: Any) -> Array:
        """Return the places of named targets as rows."""
        names = np.asarray(context)
        if names.dtype.kind not in "UO":
            if names.shape[-1:] == (1,):
                return names.astype(np.float64)
            raise InvalidInputError(
                "The targets of this library have names and no coordinates: select by "
                f"name, e.g. {self.targets[0]!r}; but got numbers, shape {names.shape}."
            )
        place = {name: float(i) for i, name in enumerate(self.targets)}
        for name in names.ravel():
            if str(name) not in place:
                raise UnknownNameError("target of this library", name, place)
        found = [place[str(name)] for name in names.ravel()]
        return np.array(found).reshape(*names.shape, 1)

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
        check_served(self, chosen, context)
        return self.act_as(chosen.policy, observation)

    def act_as(self, policy: ArrayLike, observation: ArrayLike) -> NDArray[Any]:
        """Return the action of policies by their index.

        Gains are multiplied column by column, in the order in which the exported C
        does, so both give the same bits.

        Args:
            policy: index of the policy, one or many.
            observation: one observation, or one per policy.
        """
        if self.policies is None:
            raise InvalidInputError(
                "This library holds names, not policies, so it cannot act; use the "
                f"name: {self.entries[0].name!r}, …"
            )
        check_actions(self)
        index, seen = np.asarray(policy, np.intp), np.asarray(observation)
        if isinstance(self.policies, LinearGain | Mlp):
            n_seen, _ = signal_sizes(self.policies) or (0, 0)
            if seen.shape[-1:] != (n_seen,):
                raise InvalidInputError(
                    f"An observation must have {n_seen} numbers, but got shape "
                    f"{seen.shape}."
                )
        if isinstance(self.policies, LinearGain):
            gain = -self.policies.gain[index]
            seen = seen.astype(np.float64, copy=False)
            action = gain[..., 0] * seen[..., :1]
            for j in range(1, gain.shape[-1]):
                action = action + gain[..., j] * seen[..., j : j + 1]
            return action
        if index.ndim == 0:
            return np.asarray(self.policies[int(index)].act(seen))
        flat = index.reshape(-1)
        seen = seen.reshape(len(flat), *seen.shape[index.ndim :])
        parts: list[Any] = [None] * len(flat)
        for p in np.unique(flat):
            one, rows = self.policies[int(p)], np.flatnonzero(flat == p)
            if isinstance(one, Mlp):  # all at once
                actions = one.act(seen[rows])
            else:
                actions = [one.act(seen[i]) for i in rows]
            for i, action in zip(rows, actions, strict=True):
                parts[i] = action
        return np.stack(parts).reshape(*index.shape, *np.shape(parts[0]))

    def tracker(self, hysteresis: float = 0.02) -> "Tracker":
        """Return a selector for one context that moves: see `Tracker`.

        Args:
            hysteresis: how far a context may leave the region of the present policy
                before it is changed, as a share of the width of each axis.
        """
        from taskspace.deploy.tracker import Tracker

        return Tracker(self, hysteresis)

    def save(self, folder: str | Path, *, command: str | None = None) -> Path:
        """Write the library as a folder, see `taskspace.deploy.files`.

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

    def shares(self) -> Array:
        """Return the share of the map that uses each policy: of nodes, or of volume."""
        arrays, used = self.regions.arrays(), self.regions.policy >= 0
        weight = np.ones(len(used))
        if "box_low" in arrays and "nodes" not in arrays:
            weight = np.prod(arrays["box_high"] - arrays["box_low"], axis=1)
        policy = self.regions.policy[used]
        each = np.bincount(policy, weights=weight[used], minlength=self.size)
        return each / weight.sum()

    def __repr__(self) -> str:
        return (
            f"PolicyLibrary({self.size} policies, {len(self.regions.policy)} "
            f"{self.regions.plural}, {span(self)}: {self.guarantee.statement})"
        )


def span(library: "PolicyLibrary | ScheduleLibrary") -> str:
    """Return the range of a library for people.

    Args:
        library: of any kind.
    """
    limits = zip(library.names, library.low, library.high, strict=True)
    return ", ".join(f"{n} in [{a:g}, {b:g}]" for n, a, b in limits)


def measured_range(
    question: Question | None, names: Sequence[str], low: Array, high: Array
) -> tuple[Array, Array]:
    """Return the ends of contexts that may be measured: a range, wider by the error.

    Args:
        question: says the error; None for none.
        names: of the axes.
        low: lower corner of the range.
        high: upper corner.
    """
    if question is None or question.error is None:
        return low, high
    return question.error.measured_range(names, low, high)


def context_rows(
    names: Sequence[str], fixed: Mapping[str, float], context: Any
) -> Array:
    """Return contexts as rows in the order of names.

    Args:
        names: of the axes.
        fixed: axes that a context may name with this value only.
        context: a mapping by name, or rows of numbers.
    """
    if isinstance(context, Mapping):
        for name, value in context.items():
            if name in fixed:
                if not (np.asarray(value) == fixed[name]).all():
                    raise InvalidInputError(
                        f"This library holds for {name} = {fixed[name]:g} "
                        f"only, but got {name} = {value}."
                    )
            elif name not in names:
                raise UnknownNameError("context axis", name, names)
        missing = [name for name in names if name not in context]
        if missing:
            raise InvalidInputError(
                f"A context must give {', '.join(names)}, but "
                f"{', '.join(missing)} is missing."
            )
        columns = [np.asarray(context[name], float) for name in names]
        return np.stack(np.broadcast_arrays(*columns), -1)
    rows = np.asarray(context, np.float64)
    if rows.ndim == 0 or rows.shape[-1] != len(names):
        raise InvalidInputError(
            f"A context must have one number each for {', '.join(names)}, but "
            f"got shape {rows.shape}."
        )
    return rows


def check_served(
    library: "PolicyLibrary | ScheduleLibrary",
    chosen: "Selection | Lookup",
    context: Any,
) -> None:
    """Raise an `OutsideError` where a context is refused.

    Args:
        library: of any kind.
        chosen: what it selected.
        context: for what.
    """
    refused = np.flatnonzero(np.atleast_1d(chosen.status == Status.REFUSED))
    if len(refused):
        row = library.rows(context).reshape(-1, len(library.names))[refused[0]]
        pairs = zip(library.names, row.tolist(), strict=True)
        what = ", ".join(f"{n} = {x:g}" for n, x in pairs)
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise OutsideError(
            f"A context must be served by a policy, which {what}{more} is not: the "
            f"library holds for {span(library)}. A library with outside='clamp' uses "
            "the nearest policy and says so.",
            chosen,
        )


def require_coordinates(library: PolicyLibrary, what: str) -> None:
    """Refuse targets that have names and no coordinates.

    Args:
        library: the library.
        what: what needs contexts with coordinates, the subject of a sentence.
    """
    if library.targets:
        raise InvalidInputError(
            f"{what}, but the targets of this library have names only."
        )


def check_actions(library: PolicyLibrary) -> None:
    """Refuse to play other policies than those that were proven to serve.

    Args:
        library: the library.
    """
    stack = library.policies
    if not isinstance(stack, TabularPolicy) or stack.is_deterministic:
        return
    if library.guarantee.kind == "proof":
        raise InvalidInputError(
            "A library plays the most probable action of a state, but these "
            "policies draw their actions at random, and it was proven so. Give "
            "policies with one action per state, or draw by "
            "library.policies.probabilities."
        )


def signal_sizes(policies: Policy | None) -> tuple[int, int] | None:
    """Return how many numbers an observation and an action have; None if not known.

    Args:
        policies: a policy or a stack.
    """
    if isinstance(policies, LinearGain | LinearController):
        matrix = policies.gain if isinstance(policies, LinearGain) else policies.D
        return matrix.shape[-1], matrix.shape[-2]
    if isinstance(policies, Mlp):
        n_actions = 1 if policies.head == "argmax" else policies.biases[-1].shape[-1]
        return policies.weights[0].shape[-2], n_actions
    return (1, 1) if isinstance(policies, TabularPolicy) else None


def full_contexts(library: PolicyLibrary, system: System, rows: Array) -> Array:
    """Return full context rows of a system, with the library's fixed values.

    Args:
        library: the library.
        system: the tasks.
        rows: contexts in the order of the library's names, `(context, axis)`.
    """
    fixed = np.tile(list(library.fixed.values()), (len(rows), 1))
    columns = [rows, fixed.reshape(len(rows), -1)]
    names = [*library.names, *library.fixed]
    return system.contexts(Points(names, np.concatenate(columns, axis=1)))
