"""A library put on trial: off the grid, measured with noise, beside the alternatives.

Contexts are drawn from the range of the library, on logarithmic axes in logarithms.
Means are over these; the worst is also looked for at corners of the range and at nodes.
Every contender is judged by the system itself at the true context: what it loses
against the optimum of that context where that is known, or against the best of all
contenders there. A context that one contender refuses counts for none.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import Status
from taskspace.deploy.regions import BoxRegions
from taskspace.deploy.trial.contenders import (
    Designer,
    best_few,
    nearest_design,
    scores_of,
    uniform_design,
)
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.questions import Question
from taskspace.spaces import Points
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

N_RANDOM = 10
FEW = (1, 2, 3, 5)
# Corners of the range that are tried at most: those of eight axes.
MAX_CORNERS = 256

Scores = dict[str, tuple[int, Array]]
"""By contender: its number of policies, and J `(repeat, context)`."""


@dataclass(frozen=True)
class Contender:
    """How one way to choose controllers did.

    Args:
        name: what it is.
        n_policies: how many policies it holds; 0 for one per context.
        mean_performance: mean J over the drawn contexts.
        mean_loss: mean of reference − J; infinite where it failed somewhere.
        worst_loss: largest reference − J of all contexts that were tried.
        mean_percent: mean loss in percent of the reference.
        worst_percent: largest loss in percent of all contexts that were tried.
        failed: share of the drawn contexts where J is −inf.
        refused: share of the drawn contexts for which it gave no policy; they count
            in no other number, of no contender.
        within: share of the drawn contexts served within the library's ε, None if
            there is no question.
        n_repeats: of how many draws this is the one in the middle, by mean J.
        spread: least and largest `mean_performance`, `mean_percent`, `worst_percent`
            and `within` of all of them; empty for one.
    """

    name: str
    n_policies: int
    mean_performance: float
    mean_loss: float
    worst_loss: float
    mean_percent: float
    worst_percent: float
    failed: float
    refused: float
    within: float | None
    n_repeats: int = 1
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """What came out.

    Args:
        n_contexts: how many contexts were drawn.
        n_tried: how many were tried with corners and nodes.
        n_compared: those of them that no contender refused.
        seed: of the draw.
        noise: standard deviation of the measured context, in widths of the range.
        reference: what losses are against.
        contenders: the library first.
        applied: share of the drawn contexts that the guarantee, or the estimate, spoke
            of.
        spoken: of how many contexts that were tried it spoke.
        held: share of those where it was kept; None if it never spoke.
        violations: contexts where it spoke and was not kept.
        outside: share of the drawn contexts that were measured outside the range.
        few: the worst loss in percent of the best 1, 2, 3, … policies, of the compared
            contexts.
        notes: what could not be had, and why.
        thing: what one policy is called: a gain, say.
        n_measured: guaranteed measurements at the ends of the error that were tried.
        n_broken: those whose policy does not serve the true context.
    """

    n_contexts: int
    n_tried: int
    n_compared: int
    seed: int
    noise: float
    reference: str
    contenders: tuple[Contender, ...]
    applied: float
    spoken: int
    held: float | None
    violations: int
    outside: float
    few: Mapping[int, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    thing: str = "policy"
    n_measured: int = 0
    n_broken: int = 0

    @property
    def line(self) -> str:
        """What schedule users ask for first: one loses x %, three lose y %."""
        words = {1: f"one {self.thing} loses", 2: "two lose", 3: "three lose"}
        words[5] = "five lose"
        parts = [
            f"{words.get(n, f'{n} lose')} {_percent(lost)}"
            for n, lost in self.few.items()
        ]
        if not parts:
            return ""
        text = f"In the worst of {self.n_compared:,} contexts tried {', '.join(parts)}"
        return f"{text} against {self.reference}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values; infinite numbers stay infinite."""
        values = asdict(self)
        values["few"] = {str(n): lost for n, lost in self.few.items()}
        values["line"] = self.line
        return values


def _percent(value: float) -> str:
    return "everything" if np.isinf(value) else f"{value:.3g} %"


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
            were made for, and a stack with one leading dim. Linear systems need none.

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
    policies = library.require_policies("A trial plays policies")
    _check(library, noise, n_contexts)
    rng = np.random.default_rng(seed)
    reach = library.reach
    drawn = reach.at(rng.random((n_contexts, len(reach.low))))
    rows = np.concatenate([_landmarks(library, n_contexts), drawn])
    is_drawn = np.arange(len(rows)) >= len(rows) - n_contexts
    measured = rows
    if noise > 0:
        blur = noise * rng.standard_normal(rows.shape)
        measured = reach.at(reach.share(rows) + blur)
    seen = np.clip(measured, library.low, library.high)
    contexts = library.contexts(system, rows)
    notes: list[str] = []
    chosen = library.select(measured)
    policy, status = np.asarray(chosen.policy), np.asarray(chosen.status)
    own_scores = scores_of(system, policies, contexts)
    scores: Scores = {"library": (library.size, _taken(own_scores, policy)[None])}
    scores["library, best choice"] = (library.size, own_scores.max(0)[None])
    single = _finite_mean(own_scores[:, is_drawn]).argmax()
    scores["one policy of it"] = (1, own_scores[single][None])
    designer = Designer.of(library, system, pool)
    if designer is None:
        notes.append(
            "Uniform and random libraries need policies made for other contexts: give "
            "the run with --run."
        )
    else:
        scores |= _other_designs(designer, seen, contexts, rng)
    reference, against, note = _reference(system, contexts, scores)
    notes += [note] if note else []
    # The same contexts in every row: what one refuses is left out of all.
    refused = np.isnan(np.concatenate([s for _, s in scores.values()]))
    compared: Mask = ~np.asarray(refused.any(0))
    judge = _Judge(library, system, contexts, reference, compared, is_drawn)
    contenders = []
    for name, (size, repeats) in scores.items():
        number = policy if name == "library" else None
        judged = [judge.judge(name, size, score, number) for score in repeats]
        contenders.append(_middle(judged))
    spoke = (status == Status.GUARANTEED) | (status == Status.ESTIMATED)
    served = judge.within(scores["library"][1][0], policy)
    held, violations = None, 0
    if served is not None and spoke.any():
        held, violations = float(served[spoke].mean()), int((~served[spoke]).sum())
    few: dict[int, float] = {}
    if compared.any():
        few = best_few(
            library, system, designer, FEW, contexts[compared], reference[compared]
        )
    n_measured, n_broken = _try_errors(judge, own_scores, rows)
    beyond = (measured < library.low) | (measured > library.high)
    return Trial(
        n_contexts=n_contexts,
        n_tried=len(rows),
        n_compared=int(compared.sum()),
        seed=seed,
        noise=noise,
        reference=against,
        contenders=tuple(contenders),
        applied=float(spoke[is_drawn].mean()),
        spoken=int(spoke.sum()),
        held=held,
        violations=violations,
        outside=float(beyond[is_drawn].max(1).mean()),
        few=few,
        notes=tuple(notes),
        thing="gain" if isinstance(policies, LinearGain) else "policy",
        n_measured=n_measured,
        n_broken=n_broken,
    )


def _reference(
    system: System, contexts: Array, scores: Scores
) -> tuple[Array, str, str]:
    """Return the J that losses are against, what it is, and a note on it.

    Where the optimum is known everywhere, it joins the contenders.
    """
    best = np.nanmax(np.concatenate([score for _, score in scores.values()]), axis=0)
    optimum = system.optimum(contexts)
    if optimum is None or np.isnan(optimum).all():
        note = "The optimum of a context is not known for this system."
        return best, "the best of all contenders", note
    is_known = ~np.isnan(optimum)
    if is_known.all():
        scores["optimum"] = (0, optimum[None])
        return optimum, "the optimum of each context", ""
    return (
        np.where(is_known, optimum, best),
        "the optimum where it is known, else the best of all contenders",
        f"The optimum is known at {is_known.sum():,} of these contexts.",
    )


def _measured_near(library: PolicyLibrary, rows: Array) -> list[Array]:
    """Return what may be measured of true contexts: all ends of the error."""
    question = library.question
    if question is None or question.error is None:
        return [rows]
    columns = question.error.columns(library.names)
    readings = []
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
        readings.append(rows + (measured - rows) * (1 - 1e-9))
    return readings


def _try_errors(judge: "_Judge", own_scores: Array, rows: Array) -> tuple[int, int]:
    """Return guaranteed measurements at the ends of the error, and broken ones."""
    library, n_measured, n_broken = judge.library, 0, 0
    if library.question is None or library.question.error is None:
        return 0, 0
    for measured in _measured_near(library, rows):
        chosen = library.select(measured)
        policy = np.asarray(chosen.policy)
        served = judge.within(_taken(own_scores, policy), policy)
        sure = np.asarray(chosen.status) == Status.GUARANTEED
        n_measured += int(sure.sum())
        n_broken += 0 if served is None else int((sure & ~served).sum())
    return n_measured, n_broken


def _middle(repeats: list[Contender]) -> Contender:
    """Return the one in the middle by mean J, with the spread of all."""
    order = sorted(repeats, key=lambda one: one.mean_performance)
    if len(order) == 1:
        return order[0]
    spread = {}
    for name in ("mean_performance", "mean_percent", "worst_percent", "within"):
        values = [getattr(one, name) for one in order]
        if None not in values:
            spread[name] = (min(values), max(values))
    chosen = order[len(order) // 2]
    return replace(chosen, n_repeats=len(order), spread=spread)


def _check(library: PolicyLibrary, noise: float, n_contexts: int) -> None:
    library.require_coordinates("A trial draws contexts from a range")
    if not 0 <= noise < np.inf:
        raise InvalidInputError(f"noise >= 0 must hold, but got noise={noise}.")
    if n_contexts < 1:
        raise InvalidInputError(f"n_contexts >= 1 must hold, but got {n_contexts}.")


def _landmarks(library: PolicyLibrary, n_nodes: int) -> Array:
    """Return contexts where a library may do worst: corners, nodes or boxes.

    Args:
        library: whose contexts have coordinates.
        n_nodes: how many nodes, or corners of boxes, at most; evenly thinned.
    """
    ends = np.stack([library.low, library.high], 1)
    corners = np.array([library.low, library.high])
    if 2 ** len(ends) <= MAX_CORNERS:
        corners = np.array(list(product(*ends)))
    nodes = library.regions.centres
    if isinstance(library.regions, BoxRegions):
        nodes = np.concatenate([library.regions.box_low, library.regions.box_high])
    some = np.linspace(0, len(nodes) - 1, min(len(nodes), n_nodes)).astype(int)
    rows = np.concatenate([corners, nodes[some]])
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


def _other_designs(
    designer: Designer, seen: Array, contexts: Array, rng: np.random.Generator
) -> Scores:
    """Return uniform and random libraries of the same size, and interpolated gains."""
    library, system, reach = designer.library, designer.system, designer.library.reach

    def nearest(points: Array) -> Array:
        scores = scores_of(system, designer(points), contexts)
        return _taken(scores, nearest_design(points, seen, reach))

    points = uniform_design(reach, library.size)
    scores: Scores = {"uniform library": (len(points), nearest(points)[None])}
    shape = library.size, len(reach.low)
    drawn = [nearest(reach.at(rng.random(shape))) for _ in range(N_RANDOM)]
    scores["random library"] = (library.size, np.array(drawn))
    if isinstance(system, LinearSystem) and designer.pool is None:
        gains, n = designer.interpolated(seen)
        if n:
            score = system.home_performance(LinearGain(gains[:, None]), contexts)[:, 0]
            scores["interpolated gains"] = (n, score[None])
    return scores


def _taken(scores: Array, policy: NDArray[Any]) -> Array:
    taken = scores[np.maximum(policy, 0), np.arange(scores.shape[1])]
    return np.where(policy < 0, np.nan, taken)


def _finite_mean(scores: Array) -> Array:
    """Mean J of each row, −inf where it fails anywhere; then by how often."""
    failed = np.isinf(scores).mean(1)
    mean = np.where(np.isfinite(scores), scores, 0.0).mean(1)
    return np.where(failed > 0, -1e300 * failed, mean)


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
        """Return how a contender did.

        Args:
            name: what it is.
            size: how many policies it holds.
            score: J of it at each context.
            policy: see `within`.
        """
        within, refused = self.within(score, policy), np.isnan(score[self.is_drawn])
        if within is not None:
            within = within[self.compared & self.is_drawn]
        drawn, reference = self.is_drawn[self.compared], self.reference[self.compared]
        score = score[self.compared]
        failed = np.isneginf(score)
        with np.errstate(invalid="ignore"):  # both −inf: it failed
            loss = np.where(failed, np.inf, reference - score)
        percent = np.where(failed, np.inf, 100 * _share(loss, reference))
        return Contender(
            name,
            size,
            _mean(score[drawn]),
            _mean(loss[drawn]),
            float(loss.max(initial=-np.inf)),
            _mean(percent[drawn]),
            float(percent.max(initial=-np.inf)),
            _mean(failed[drawn]),
            float(refused.mean()),
            None if within is None else _mean(within),
        )

    def within(self, score: Array, policy: Numbers | None = None) -> Mask | None:
        """Return where every demand is met, None where that is not known.

        Args:
            score: J of the contender at each context.
            policy: number of the library's policy that it uses at each context; None
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
            # Only the library's policies have a home to be compared with.
            if policy is None or any(not e.context for e in self.library.entries):
                return None
            loss = rule.loss(score, self._home_scores[np.maximum(policy, 0)])
            return np.where(policy < 0, np.inf, loss) <= question.epsilon
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

    @cached_property
    def _home_scores(self) -> Array:
        """J of each policy of the library at its own source."""
        entries = self.library.entries
        names = list(entries[0].context)
        fixed = {n: x for n, x in self.library.fixed.items() if n not in names}
        rows = [[*(e.context[n] for n in names), *fixed.values()] for e in entries]
        contexts = self.system.contexts(Points([*names, *fixed], rows))
        assert self.library.policies is not None
        return self.system.home_performance(self.library.policies[:, None], contexts)[
            :, 0
        ]


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _share(loss: Array, reference: Array) -> Array:
    """Loss over the size of the reference, 0 where both are zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(loss == 0, 0.0, loss / np.abs(reference))
