"""The interface of a system: physics, context axes, and performance in bulk."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import plain
from taskspace._util.lazy import Registry
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import Policy
from taskspace.spaces import Space

if TYPE_CHECKING:
    from taskspace.systems.linear.measures import Measure

NORMS = "taskspace.systems.linear.norms"
MEASURES: "Registry[Measure]" = Registry(
    {
        "decay_rate": f"{NORMS}:DECAY_RATE",
        "hinf": f"{NORMS}:HINF",
        "channel_norm": f"{NORMS}:CHANNEL_NORM",
        "sensitivity": f"{NORMS}:SENSITIVITY",
        "complementary_sensitivity": f"{NORMS}:COMPLEMENTARY",
        "disk_margin": f"{NORMS}:DISK_MARGIN",
    }
)
"""Scores beside J that a criterion may read, by name."""

Provenance = Literal["exact", "computed", "sampled", "given"]
"""Where numbers come from: closed form or solver, episodes, or a user's word."""


class ProvenanceWords(NamedTuple):
    """What statements say of the numbers that they rest on.

    Args:
        table: the table that holds them.
        scope: what must be said beside "proven"; empty for exact numbers.
        basis: by what a statement holds.
        scores: what J is; a mean has a place for `n_episodes`.
        caution: a sentence that an estimate ends with; empty for exact numbers.
    """

    table: str
    scope: str
    basis: str
    scores: str
    caution: str


PROVENANCE_WORDS: dict[str, ProvenanceWords] = {
    "exact": ProvenanceWords(
        "the table", "", "by the exact numbers of the table", "J is exact", ""
    ),
    "computed": ProvenanceWords(
        "the table in double precision",
        "on the table in double precision",
        "by numbers computed in double precision",
        "J is computed in double precision",
        "Its numbers are computed in double precision, so it is an estimate.",
    ),
    "sampled": ProvenanceWords(
        "the estimated table",
        "on the estimated table",
        "by means of sampled episodes",
        "J is a mean of {n_episodes} episodes",
        "J is a mean over episodes, so this is an estimate.",
    ),
    "given": ProvenanceWords(
        "the given table",
        "on the given table",
        "by the numbers of the given table",
        "J is as given",
        "It rests on the given table, so it is an estimate.",
    ),
}


@dataclass(frozen=True)
class ContextAxis:
    """A parameter of the physics that a context may set.

    Args:
        name: name of the parameter.
        default: value where a space does not vary it.
        unit: unit of the value, `""` for a pure number.
        low: smallest value that the physics allows.
        high: largest value that the physics allows.
        low_open: `low` itself is not allowed (a mass must be positive).
        description: one line for people.
    """

    name: str
    default: float
    unit: str = ""
    low: float = -np.inf
    high: float = np.inf
    low_open: bool = False
    description: str = ""

    @classmethod
    def positive(
        cls, name: str, default: float, unit: str = "", description: str = ""
    ) -> "ContextAxis":
        """Return an axis whose values are above zero.

        Args:
            name: name of the parameter.
            default: value where a space does not vary it.
            unit: unit of the value.
            description: one line for people.
        """
        return cls(name, default, unit, 0.0, low_open=True, description=description)

    @property
    def label(self) -> str:
        """Name and unit, for the axis of a figure; a mere letter is explained."""
        words = self.name.replace("_", " ")
        if len(words) == 1 and self.description:
            words = f"{self.description} {words}"
        return f"{words} [{self.unit}]" if self.unit else words

    def allows(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which values are finite and within the bounds of the physics.

        Args:
            values: values of this axis.
        """
        above = values > self.low if self.low_open else values >= self.low
        return above & (values <= self.high) & np.isfinite(values)

    @property
    def bounds(self) -> str:
        """The bounds as an inequality, e.g. `0 < mass`."""
        left = f"{self.low:g} {'<' if self.low_open else '<='} "
        right = f" <= {self.high:g}"
        return (
            (left if np.isfinite(self.low) else "")
            + self.name
            + (right if np.isfinite(self.high) else "")
        )


Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Objective:
    """What J is; a system that says little leaves the data out.

    Args:
        statement: what J is, in one sentence.
        states: names of the states, in their order, a unit in brackets.
        inputs: names of the inputs, likewise.
        initial_covariance: Σ = E[x0 x0ᵀ], over which a cost is a mean; None where J is
            no such mean.
        Q: state weight; at the default context where it depends on it.
        R: input weight; likewise.
        varying: which of Q and R depend on the context.
        time: `"continuous"`, `"discrete"`, or empty.
        horizon: time or number of steps; `inf` for no end, None where it has none.
    """

    statement: str
    states: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    initial_covariance: Matrix | None = None
    Q: Matrix | None = None
    R: Matrix | None = None
    varying: tuple[str, ...] = ()
    time: str = ""
    horizon: float | None = None

    @property
    def caution(self) -> str:
        """A clause for statements about costs that are means; empty for others."""
        if self.initial_covariance is None:
            return ""
        sigma = matrix_words(np.array(self.initial_covariance))
        mean_over = f"initial states with E[x0 x0ᵀ] = {sigma}"
        return f"costs are means over {mean_over}, not those of the worst one"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an infinite horizon is the text `"inf"`."""
        values = {k: v for k, v in asdict(self).items() if v not in (None, (), "")}
        return plain(values, nonfinite="text")


def matrix_words(matrix: NDArray[np.float64]) -> str:
    """Return a matrix in a few words: `the identity`, `diag(10, 4)`, or its rows.

    Args:
        matrix: any matrix.
    """
    if matrix.shape == (1, 1):
        return f"{matrix[0, 0]:g}"
    if np.array_equal(matrix, np.eye(len(matrix))):
        return "the identity"
    if np.array_equal(matrix, np.diag(np.diagonal(matrix))):
        return f"diag({', '.join(f'{x:g}' for x in np.diagonal(matrix))})"
    return str([[float(f"{x:.6g}") for x in row] for row in matrix.tolist()])


REDUCED: tuple[str, ...] = ("worst", "best", "gap_worst", "gap_best")
"""What criteria need of a family's performance, each `(source, target)`: `worst` and
`best` are the smallest and largest J(target, π) over the family, `gap_worst` and
`gap_best` the largest and smallest J(source, π) − J(target, π)."""


# What a class may redefine without a change of J.
FREE = frozenset(
    {"axes", "settings", "solved_return", "contexts", "environment"}
    | {"objective", "states", "inputs", "varying_weights", "output_matrix", "outputs"}
)
# Faster ways to what `performance` gives: of no use beside another `performance`.
SHORTCUTS = ("home_performance", "reduce_family", "within_regret")


def overridden(cls: type, base: type) -> str | None:
    """Return the first thing that a class computes in another way than its bases do.

    To implement what is abstract is no override, nor is a description (`axes`,
    `settings`).

    Args:
        cls: a class.
        base: a class that it is derived from; what `base` itself overrides is left
            out.

    Returns:
        Its name, e.g. `"Worn.performance"`; None where nothing is overridden.
    """
    mro = cls.__mro__
    for place, owner in enumerate(mro[: mro.index(base)]):
        for name, value in vars(owner).items():
            if name.startswith("__") or name in FREE or not _computes(value):
                continue
            before = [vars(b)[name] for b in mro[place + 1 :] if name in vars(b)]
            if before and not getattr(before[0], "__isabstractmethod__", False):
                return f"{owner.__name__}.{name}"
    return None


def _computes(value: Any) -> bool:
    return callable(value) or hasattr(value, "__get__")


def _definer(cls: type, name: str) -> int:
    """How far up among its bases a class finds a name."""
    return next(i for i, owner in enumerate(cls.__mro__) if name in vars(owner))


class System(ABC):
    """A family of tasks indexed by a context, with its performance J.

    Larger J is always better. A closed loop that is unstable or a rollout that
    failed has J = −inf; J is never NaN. Implementations are frozen dataclasses
    whose fields are the settings of the physics, so a system can be written to a
    file and built again.
    """

    id: ClassVar[str]
    """Versioned name, e.g. `"msd-v1"`; the number goes up when J would change."""
    provenance: ClassVar[Provenance] = "given"
    """What J may be called later: `exact` allows proofs, the others do not. It is
    about the class that states it: one that computes anything in another way than its
    `exact` base is `given`, with a warning, until it states `exact` itself."""
    measures: ClassVar[tuple[str, ...]] = ("performance",)
    """Variables of a table that `measure` gives."""
    fills_processors: ClassVar[bool] = True
    """Whether one process uses them all; otherwise a run starts several."""
    n_episodes: int = 0
    """Episodes that make up one value of J; 0 where it is not a mean."""

    def __init_subclass__(cls, **options: Any):
        """Take back what bases promise of another J, and say so in a warning.

        A class that states its `provenance` itself has decided, and is not warned.
        """
        super().__init_subclass__(**options)
        stated = next(owner for owner in cls.__mro__ if "provenance" in vars(owner))
        what = f"{cls.__mro__[_definer(cls, 'performance')].__name__}.performance"
        lost = []
        stale = [name for name in SHORTCUTS if cls._is_stale(name)]
        if cls.provenance == "exact" and (changed := overridden(cls, stated)):
            cls.provenance, what = "given", changed
            lost.append("its J counts as given, not exact, so nothing is proven of it")
            stale += [name for name in ("optimum", "scores") if cls._is_stale(name)]
        for name in stale:
            setattr(cls, name, getattr(System, name))
        if stale:
            lost.append(f"the inherited {', '.join(stale)} are not used")
        if lost and stated is not cls:
            warnings.warn(
                f"{what} replaces what a base class of {cls.__name__} computes: "
                f"{'; '.join(lost)}. State provenance in {cls.__name__}: "
                '"exact" if its numbers are, "given" if not.',
                stacklevel=2,
            )

    @classmethod
    def _is_stale(cls, name: str) -> bool:
        """Whether a method is inherited, and about another `performance`."""
        inherited = _definer(cls, "performance") < _definer(cls, name)
        return inherited and getattr(cls, name) is not getattr(System, name)

    @property
    def solved_return(self) -> float | None:
        """J from which a task counts as solved, where that is agreed."""
        return None

    @property
    def objective(self) -> Objective:
        """What J is, in words and as far as it goes as data."""
        mean = f" is a mean of {self.n_episodes} episodes" if self.n_episodes else ""
        return Objective(f"J of {self.id}{mean}; larger is better.")

    @property
    @abstractmethod
    def axes(self) -> tuple[ContextAxis, ...]:
        """All context axes, in the order of the columns of a context array."""

    @abstractmethod
    def performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """J of every policy at every context.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            J with dims `(source, policy, target)`.
        """

    def scores(
        self, measure: str, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a score of every policy at every context: J, or another measure.

        Args:
            measure: `"performance"`, or the `measure` of a criterion.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            Scores with dims `(source, policy, target)`; larger is better, −inf for a
            failure, NaN where the score is not known.
        """
        if measure == "performance":
            return self.performance(policies, contexts)
        if measure in MEASURES and MEASURES[measure].is_of_any_system:
            return MEASURES[measure].scores(self, policies, contexts)
        raise InvalidInputError(
            f"The score {measure!r} is known of linear systems with a quadratic cost, "
            f"but the system is {self.id}. Use the criterion regret, ratio, floor or "
            "signed."
        )

    def measure(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> dict[str, NDArray[Any]]:
        """Everything that a table keeps of playing policies at contexts.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            The variables that `measures` names, `performance` among them.
        """
        return {"performance": self.performance(policies, contexts)}

    def home_performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """J of every policy at its own source, dims `(source, policy)`.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            contexts: the sources' full context rows, shape `(source, len(axes))`.
        """
        rows = [
            self.performance(policies[i : i + 1], contexts[i : i + 1])[0, :, 0]
            for i in range(len(contexts))
        ]
        return np.stack(rows)

    def reduce_family(
        self,
        policies: Policy,
        home: NDArray[np.float64],
        contexts: NDArray[np.float64],
        names: Collection[str] = REDUCED,
    ) -> dict[str, NDArray[np.float64]]:
        """Worst and best over the family, without keeping J of every policy.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            home: `home_performance` of the stack, dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.
            names: which of `REDUCED` are wanted.
        """
        return reduce_family(self.performance(policies, contexts), home, names)

    def optimum(self, contexts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Largest J that any policy can reach at each context, NaN where not known.

        Args:
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            One value per context (−inf where every policy fails), or None where the
            system knows it nowhere.
        """
        del contexts
        return None

    def within_regret(
        self,
        policies: Policy,
        contexts: NDArray[np.float64],
        reference: NDArray[np.float64],
        epsilon: float,
    ) -> NDArray[np.uint64] | None:
        """Bits of the targets where `reference − J <= epsilon`, one row per source.

        Target `t` is bit `t % 64` of word `t // 64`; exactly the bits that
        `performance` would give, only faster.

        Args:
            policies: a stack with leading dims `(source, policy)`, one policy each.
            contexts: full context rows, shape `(target, len(axes))`.
            reference: J to compare with, one per target, finite.
            epsilon: the tolerance, `>= 0`.

        Returns:
            Shape `(source, ceil(target / 64))`; None where a system has no faster way.
        """
        del policies, contexts, reference, epsilon
        return None

    def settings(self) -> dict[str, Any]:
        """Return the fields of the system, as plain values for a manifest."""
        if not is_dataclass(self):
            return {}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def contexts(self, space: Space) -> NDArray[np.float64]:
        """Full context rows of a space: defaults where it does not vary an axis.

        Args:
            space: contexts over any subset of the system's axes.

        Returns:
            Shape `(space.size, len(axes))`, checked against the physics.
        """
        known = [axis.name for axis in self.axes]
        for name in space.names:
            if name not in known:
                raise UnknownNameError(f"context axis of {self.id}", name, known)
        rows = np.empty((space.size, len(self.axes)))
        for column, axis in enumerate(self.axes):
            if axis.name not in space.names:
                rows[:, column] = axis.default
                continue
            values = space.points[:, space.names.index(axis.name)]
            wrong = ~axis.allows(values)
            if wrong.any():
                raise InvalidInputError(
                    f"{axis.bounds} must hold in {self.id}, but the space has "
                    f"{axis.name}={values[wrong][0]:g}."
                )
            rows[:, column] = values
        return rows


def gap(home: NDArray[np.float64], away: NDArray[np.float64]) -> NDArray[np.float64]:
    """J(source, π) − J(target, π), with equal scores (also −inf) having no gap.

    Args:
        home: J(source, π).
        away: J(target, π), of a shape that broadcasts with `home`.
    """
    with np.errstate(invalid="ignore"):
        return np.where(home == away, 0.0, home - away)


def reduce_family(
    performance: NDArray[np.float64],
    home: NDArray[np.float64],
    names: Collection[str] = REDUCED,
) -> dict[str, NDArray[np.float64]]:
    """Reduce J over the family.

    Args:
        performance: dims `(source, policy, target)`.
        home: J at each policy's own source, dims `(source, policy)`.
        names: which of `REDUCED` are wanted.
    """
    found: dict[str, NDArray[np.float64]] = {}
    if "worst" in names:
        found["worst"] = performance.min(1)
    if "best" in names:
        found["best"] = performance.max(1)
    if "gap_worst" in names or "gap_best" in names:
        gaps = gap(home[:, :, None], performance)
        found |= {"gap_worst": gaps.max(1), "gap_best": gaps.min(1)}
    return {name: found[name] for name in names}
