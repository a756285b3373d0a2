"""A library put on trial: off the grid, measured with noise, beside the alternatives.

Contexts are drawn from the range of the library, on logarithmic axes in logarithms.
Means are over these; the worst is also looked for at corners of the range and at nodes.
Every contender is judged by the system itself at the true context: what it loses
against the optimum of that context where that is known, or against the best of all
contenders there. A context that one contender refuses counts for none.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.deploy.base import Status
from taskspace.deploy.policies import PolicyLibrary
from taskspace.deploy.regions import BoxRegions
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.questions import Question
from taskspace.spaces import Points, Reach
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

N_RANDOM = 10
OPTIMUM = "optimum"

Scores = dict[str, tuple[int, Array]]
"""By contender: its number of policies, and J at each context."""


@dataclass(frozen=True)
class Contender:
    """How one way to choose controllers did.

    Args:
        name: what it is.
        n_policies: how many policies it holds; 0 for one per context.
        mean_performance: mean J over the drawn contexts.
        mean_percent: mean of reference − J, in percent of the reference; infinite
            where it failed somewhere.
        worst_percent: the largest of all contexts that were tried.
        failed: share of the drawn contexts where J is −inf.
        refused: share of the drawn contexts for which it gave no policy; they count
            in no other number, of no contender.
        within: share of the drawn contexts served within the library's ε, None if
            there is no question.
    """

    name: str
    n_policies: int
    mean_performance: float
    mean_percent: float
    worst_percent: float
    failed: float
    refused: float
    within: float | None


@dataclass(frozen=True)
class Trial:
    """What came out.

    Args:
        n_contexts: how many contexts were drawn.
        n_tried: how many were tried with corners and nodes.
        n_compared: those of them that no contender refused.
        reference: what losses are against.
        contenders: the library first.
        applied: share of the drawn contexts that the guarantee, or the estimate, spoke
            of.
        spoken: of how many contexts that were tried it spoke.
        held: share of those where it was kept; None if it never spoke.
        violations: contexts where it spoke and was not kept.
        notes: what could not be had, and why.
        n_measured: guaranteed measurements at the ends of the error that were tried.
        n_broken: those whose policy does not serve the true context.
    """

    n_contexts: int
    n_tried: int
    n_compared: int
    reference: str
    contenders: tuple[Contender, ...]
    applied: float
    spoken: int
    held: float | None
    violations: int
    notes: tuple[str, ...] = ()
    n_measured: int = 0
    n_broken: int = 0

    @property
    def line(self) -> str:
        """The worst losses of the table in one sentence; empty if none compare."""
        rows = [c for c in self.contenders if c.name != OPTIMUM]
        if not self.n_compared:
            return ""
        lost = [f"{c.name} ({c.n_policies}) {c.worst_percent:.3g} %" for c in rows]
        least = min(rows, key=lambda c: c.worst_percent).name
        return (
            f"Worst loss of {self.n_compared:,} contexts tried, against "
            f"{self.reference}: {', '.join(lost)}. Least: {least}."
        )

    def sentences(self, word: str) -> list[tuple[bool, str]]:
        """Return what came out in sentences, and whether each tells of a failure.

        Args:
            word: what the library has, a `"guarantee"` or an `"estimate"`.
        """
        said = [(False, f"The {word} spoke of none of these contexts.")]
        if self.held is not None:
            sentence = (
                f"The {word} spoke of {self.spoken:,} of {self.n_tried:,} contexts "
                f"tried and was kept at {self.spoken - self.violations:,} of them."
            )
            said = [(self.violations > 0, sentence)]
        if refused := self.contenders[0].refused:
            share = f"{100 * refused:.3g} % of the drawn contexts"
            sentence = f"The library refused {share}; they are left out of every row."
            said.append((False, sentence))
        if self.n_measured:
            sentence = (
                f"Measured at the ends of the error, {self.n_measured:,} contexts were "
                f"guaranteed; kept at {self.n_measured - self.n_broken:,} of them."
            )
            said.append((self.n_broken > 0, sentence))
        return [*said, (False, self.line)] if self.line else said

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; infinite numbers stay infinite."""
        return asdict(self) | {"line": self.line}


def try_library(
    library: PolicyLibrary,
    system: System,
    *,
    n_contexts: int = 1000,
    seed: int = 0,
    noise: float = 0.0,
    pool: tuple[Points, Policy] | None = None,
) -> Trial:
    """Try a library on contexts off its grid, beside what one could do instead.

    Args:
        library: a library with policies.
        system: the tasks.
        n_contexts: contexts drawn uniformly from the range of the library, on
            logarithmic axes in logarithms. Corners of the range, and nodes of the
            library or corners of its boxes, at most as many, are tried beside them.
        seed: of all that is drawn.
        noise: standard deviation of the measured context, as a share of the width of
            each axis (of its logarithm); the library selects by what is measured.
        pool: other policies to make uniform and random libraries of: the contexts they
            were made for, and a stack with one leading dim. Linear systems with gains
            of the state need none.

    Examples:
        >>> import taskspace as ts
        >>> system = ts.systems.MassSpringDamper()
        >>> space = ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3))
        >>> gains, _ = system.optimal_gain(system.contexts(space))
        >>> library = ts.PolicyLibrary.from_policies(LinearGain(gains), space)
        >>> trial = try_library(library, system, n_contexts=50)
        >>> trial.contenders[0].failed, trial.applied
        (0.0, 0.0)
    """
    if library.policies is None:
        raise InvalidInputError(
            "A trial plays policies, but this library holds names only."
        )
    library.require_coordinates("A trial draws contexts from a range")
    if not (0 <= noise < np.inf and n_contexts >= 1):
        raise InvalidInputError(
            "noise >= 0 and n_contexts >= 1 must hold, but got "
            f"noise={noise} and n_contexts={n_contexts}."
        )
    rng = np.random.default_rng(seed)
    reach = Reach(library.low, library.high, np.array(library.log_axes, bool))
    drawn = reach.at(rng.random((n_contexts, len(reach.low))))
    rows = np.concatenate([_landmarks(library, n_contexts), drawn])
    is_drawn = np.arange(len(rows)) >= len(rows) - n_contexts
    measured = rows
    if noise > 0:
        blur = noise * rng.standard_normal(rows.shape)
        measured = reach.at(reach.share(rows) + blur)
    contexts = library.full_contexts(system, rows)
    chosen = library.select(measured)
    policy, status = np.asarray(chosen.policy), np.asarray(chosen.status)
    own = scores_of(system, library.policies, contexts)
    scores: Scores = {"library": (library.size, _taken(own, policy))}
    scores["one policy of it"] = (1, own[_best_mean(own[:, is_drawn])[-1]])
    notes: list[str] = []
    design = _designer(library, system, reach, pool)
    if design is None:
        notes.append(
            "Uniform and random libraries need policies made for other contexts: give "
            "a run in place of the system."
        )
    else:
        seen = np.clip(measured, library.low, library.high)

        def nearest(points: Array) -> Array:
            """J of policies designed at some points, the nearest used."""
            played = scores_of(system, design(points), contexts)
            return _taken(played, _nearest(points, seen, reach))

        points = uniform_design(reach, library.size)
        scores["uniform library"] = (len(points), nearest(points))
        designs = reach.at(rng.random((N_RANDOM, library.size, len(reach.low))))
        draws = np.array([nearest(points) for points in designs])
        middle = _best_mean(draws[:, is_drawn])[N_RANDOM // 2]
        scores["random library"] = (library.size, draws[middle])
        notes.append(f"The random library is the middle one of {N_RANDOM}, by mean J.")
        counts = _counts(library.size, len(reach.low), least=2)
        is_linear = isinstance(system, LinearSystem)
        if counts and is_linear and isinstance(library.policies, LinearGain):
            gains = _interpolated(design, reach, counts, seen)
            played = system.home_performance(LinearGain(gains[:, None]), contexts)
            scores["interpolated gains"] = (int(np.prod(counts)), played[:, 0])
    reference, against = _reference(system, contexts, scores)
    # The same contexts in every row: what one refuses is left out of all.
    all_scores = np.array([score for _, score in scores.values()])
    refused = np.asarray(np.isnan(all_scores).any(0))
    judge = _Judge(library, system, contexts, reference, ~refused, is_drawn)
    contenders = [
        judge.judge(name, size, score, policy if name == "library" else None)
        for name, (size, score) in scores.items()
    ]
    spoke = (status == Status.GUARANTEED) | (status == Status.ESTIMATED)
    served = judge.within(scores["library"][1], policy)
    held, violations = None, 0
    if served is not None and spoke.any():
        held, violations = float(served[spoke].mean()), int((~served[spoke]).sum())
    n_measured, n_broken = _try_errors(judge, own, rows)
    return Trial(
        n_contexts=n_contexts,
        n_tried=len(rows),
        n_compared=int((~refused).sum()),
        reference=against,
        contenders=tuple(contenders),
        applied=float(spoke[is_drawn].mean()),
        spoken=int(spoke.sum()),
        held=held,
        violations=violations,
        notes=tuple(notes),
        n_measured=n_measured,
        n_broken=n_broken,
    )


def _reference(system: System, contexts: Array, scores: Scores) -> tuple[Array, str]:
    """Return the J that losses are against, and what it is.

    Where the optimum is known everywhere, it joins the contenders.
    """
    best = np.nanmax([score for _, score in scores.values()], axis=0)
    optimum = system.optimum(contexts)
    if optimum is None or np.isnan(optimum).all():
        return best, "the best of all contenders"
    if not np.isnan(optimum).any():
        scores[OPTIMUM] = (0, optimum)
        return optimum, "the optimum of each context"
    against = "the optimum where it is known, else the best of all contenders"
    return np.where(np.isnan(optimum), best, optimum), against


def _landmarks(library: PolicyLibrary, n_nodes: int) -> Array:
    """Return contexts where a library may do worst: corners, nodes or boxes."""
    ends = np.stack([library.low, library.high], 1)
    corners = np.array([library.low, library.high])
    if len(ends) <= 8:  # of more axes there are too many
        corners = np.array(list(product(*ends)))
    regions, nodes = library.regions, library.regions.centres
    if isinstance(regions, BoxRegions) and regions.nodes is None:
        nodes = np.concatenate([regions.box_low, regions.box_high])
    some = np.linspace(0, len(nodes) - 1, min(len(nodes), n_nodes)).astype(int)
    rows = np.concatenate([corners, nodes[some]])
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


# --- other designs of the same size -------------------------------------------------


def _designer(
    library: PolicyLibrary,
    system: System,
    reach: Reach,
    pool: tuple[Points, Policy] | None,
) -> Callable[[Array], Policy] | None:
    """Return what makes policies for contexts of the library; None if nothing can."""
    if isinstance(system, LinearSystem) and isinstance(library.policies, LinearGain):
        return lambda points: LinearGain(
            system.optimal_gain(library.full_contexts(system, points))[0]
        )
    if pool is None:
        return None
    space, policies = pool
    columns = [list(space.names).index(name) for name in library.names]
    places = space.points[:, columns]
    return lambda points: policies[_nearest(places, points, reach)]


def _interpolated(
    design: Callable[[Array], Policy],
    reach: Reach,
    counts: tuple[int, ...],
    rows: Array,
) -> Array:
    """Return the gain of each context between a grid of designs, multilinear."""
    axes = [np.linspace(0.0, 1.0, n) for n in counts]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(counts))
    gains = np.asarray(design(reach.at(mesh)).arrays()["gain"])
    table = gains.reshape(*counts, *gains.shape[1:])
    share = np.clip(reach.share(rows), 0.0, 1.0)
    return RegularGridInterpolator(axes, table)(share)


def uniform_design(reach: Reach, size: int) -> Array:
    """Return the middles of a grid of equal boxes, as many as `size` allows.

    Args:
        reach: the range.
        size: boxes at most.
    """
    counts = _counts(size, len(reach.low), least=1)
    assert counts is not None
    axes = [(np.arange(n) + 0.5) / n for n in counts]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    return reach.at(mesh.reshape(-1, len(counts)))


def _counts(size: int, d: int, *, least: int) -> tuple[int, ...] | None:
    """Return numbers per axis with the largest product up to `size`, most evenly."""
    if least**d > size:
        return None
    top = max(least, size // least ** (d - 1))
    ranges = [range(least, min(top, 40) + 1)] * d
    fitting = (c for c in product(*ranges) if np.prod(c) <= size)
    return max(fitting, key=lambda c: (np.prod(c), -max(c), c))


def _nearest(points: Array, rows: Array, reach: Reach) -> Numbers:
    """Return the point nearest to each context, axes in widths of the range."""
    apart = reach.share(rows)[:, None] - reach.share(points)[None]
    return (apart**2).sum(-1).argmin(1)


# --- how a contender did ------------------------------------------------------------


def scores_of(
    system: System, policies: Policy, contexts: Array, measure: str = "performance"
) -> Array:
    """Return a score of every policy at every context, `(policy, context)`.

    Args:
        system: the tasks.
        policies: a stack with one leading dim.
        contexts: full context rows.
        measure: J, or the measure of a criterion.
    """
    return system.scores(measure, policies[:, None], contexts)[:, 0]


def _taken(scores: Array, policy: NDArray[Any]) -> Array:
    """Return the score of one policy at each context, NaN where there is none."""
    taken = scores[np.maximum(policy, 0), np.arange(scores.shape[1])]
    return np.where(policy < 0, np.nan, taken)


def _best_mean(scores: Array) -> Numbers:
    """Return the rows in ascending order of mean J; rows that fail often come first."""
    failed = np.isinf(scores).mean(1)
    mean = np.where(np.isfinite(scores), scores, 0.0).mean(1)
    return np.lexsort([mean, -failed])


@dataclass(frozen=True, eq=False)
class _Judge:
    """Judges contenders by what they lose, and by the question of a library.

    Args:
        library: whose question.
        system: the tasks.
        contexts: full context rows.
        reference: J that losses are against, of each context.
        compared: contexts that no contender refuses.
        is_drawn: contexts that were drawn, and that means are over.
    """

    library: PolicyLibrary
    system: System
    contexts: Array
    reference: Array
    compared: Mask
    is_drawn: Mask

    def judge(
        self, name: str, size: int, score: Array, policy: Numbers | None
    ) -> Contender:
        """Return how a contender did; `policy` is as in `within`."""
        within, is_drawn = self.within(score, policy), self.is_drawn & self.compared
        reference = self.reference
        with np.errstate(divide="ignore", invalid="ignore"):  # both −inf: it failed
            percent = 100 * (reference - score) / np.abs(reference)
        percent = np.where(score == reference, 0.0, percent)
        percent = np.where(np.isneginf(score), np.inf, percent)
        return Contender(
            name,
            size,
            _mean(score[is_drawn]),
            _mean(percent[is_drawn]),
            float(percent[self.compared].max(initial=-np.inf)),
            _mean(np.isneginf(score[is_drawn])),
            _mean(np.isnan(score[self.is_drawn])),
            None if within is None else _mean(within[is_drawn]),
        )

    def within(self, score: Array, policy: Numbers | None = None) -> Mask | None:
        """Return where every demand is met, None where that is not known.

        Args:
            score: J of the contender at each context.
            policy: index of the library's policy that it uses at each context; None
                for a contender with other policies.
        """
        if self.library.question is None:
            return None
        met = [self._meets(d, score, policy) for d in self.library.question.demands]
        decided = [one for one in met if one is not None]
        return np.logical_and.reduce(decided) if len(decided) == len(met) else None

    def _meets(
        self, question: Question, score: Array, policy: Numbers | None
    ) -> Mask | None:
        """Return where one demand is met, None where that is not known."""
        rule, policies = question.rule, self.library.policies
        if rule.compares_with_home:
            return None  # a context off the grid is no source
        if rule.measure != "performance":
            # Another score than J is known of the library's own policies only.
            if policy is None or policies is None:
                return None
            scores = scores_of(self.system, policies, self.contexts, rule.measure)
            score = _taken(scores, policy)
            score = np.where(np.isnan(score), -np.inf, score)  # refused, or not known
        against = rule.against(best=lambda: self.reference, home=lambda: np.zeros(1))
        with np.errstate(invalid="ignore"):  # refused contexts are NaN: not within
            return rule.served(score, against, question.epsilon)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else float("nan")


# --- measured at the ends of the error ----------------------------------------------


def _try_errors(judge: _Judge, own_scores: Array, rows: Array) -> tuple[int, int]:
    """Return guaranteed measurements at the ends of the error, and broken ones."""
    library, n_measured, n_broken = judge.library, 0, 0
    if library.question is None or library.question.error is None:
        return 0, 0
    columns = library.question.error.columns(library.names)
    for signs in product((-1.0, 1.0), repeat=len(columns)):
        measured = rows.copy()
        for column, (axis, sign) in enumerate(zip(columns, signs, strict=True)):
            x = rows[:, column]
            if axis is None:
                continue
            if axis.is_relative:
                # |θ − m| = p |m|: the true context is at the end of the window of m.
                share = sign * np.where(x < 0, -1.0, 1.0) * axis.amount / 100
                measured[:, column] = x / (1 - share)
            else:
                measured[:, column] = x + sign * axis.amount
        chosen = library.select(rows + (measured - rows) * (1 - 1e-9))
        policy = np.asarray(chosen.policy)
        served = judge.within(_taken(own_scores, policy), policy)
        sure = np.asarray(chosen.status) == Status.GUARANTEED
        n_measured += int(sure.sum())
        n_broken += 0 if served is None else int((sure & ~served).sum())
    return n_measured, n_broken
