"""What is designed: a linear family, contexts to serve, a question, free entries."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array, Mask
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.search import N_STAGES, counted_cover
from taskspace.cover import smallest_epsilon
from taskspace.errors import InvalidInputError
from taskspace.performance import evaluate_policies
from taskspace.performance.study import Study
from taskspace.performance.work import TRAINED
from taskspace.questions import Question, as_question
from taskspace.sets import pack
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.trainers.minimax import GainRegion, design_gains, gain_mask

# What `source_kind` says of a designed gain.
DESIGNED = "designed"
MOST_CONTEXTS = 1600
# Numbers in A at contexts between the targets, where gains are tried too.
MOST_BETWEEN = 500_000


def linear_system(system: System) -> LinearSystem:
    """Return the system if its gains can be designed, else say what it takes.

    Args:
        system: the tasks.
    """
    if not isinstance(system, LinearSystem):
        raise InvalidInputError(
            "Gains are designed for linear families, whose cost has a gradient in "
            f"closed form, but {system.id} is none."
        )
    return system


def check_question(question: Question) -> None:
    """Refuse questions that ask for more than the mean cost of a gain at a context.

    Args:
        question: what is asked.
    """
    question.check_single("A design lessens one loss, so it")
    question.check_exact("A design")
    if question.rule.compares_with_home or not question.rule.has_box_bounds:
        raise InvalidInputError(
            "A gain is designed for regret, ratio or cost, but got "
            f"{question.criterion!r}. A designed gain has no source to compare with, "
            "and a design needs the slope of the loss."
        )
    if question.measure != "performance":
        raise InvalidInputError(
            "A gain is designed for its cost, whose slope and bounds over boxes of "
            f"gains are known, but the question is about {question.measure}. Leave "
            "the measure out, and check it of the designed gains: ts.certify."
        )


def can_design(system: System, question: Question) -> bool:
    """Return whether gains can be designed for a question about a system.

    Args:
        system: the tasks.
        question: what is asked.
    """
    try:
        linear_system(system)
        check_question(question)
    except InvalidInputError:
        return False
    return True


def fewer_contexts(space: Space, n: int) -> Space:
    """Return at most n contexts of a space, evenly, with the ends of its axes.

    Args:
        space: contexts.
        n: how many, at most.
    """
    if space.size <= n:
        return space
    if isinstance(space, Grid):
        shape = np.array(space.shape)
        while np.prod(shape) > n:
            shape[shape.argmax()] -= 1
        axes = {
            axis.name: axis.values[np.linspace(0, axis.n - 1, k).round().astype(int)]
            for axis, k in zip(space.axes, shape, strict=True)
        }
        return Grid(**{name: values.tolist() for name, values in axes.items()})
    rows = np.linspace(0, space.size - 1, n).round().astype(int)
    return Points(space.names, space.points[rows])


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """A family, the contexts to serve, a question, and which entries are free.

    Args:
        system: a linear family with the infinite horizon.
        targets: the contexts to serve.
        question: what it means to serve.
        mask: which entries of a gain are free; the others are zero.
    """

    system: LinearSystem
    targets: Space
    question: Question
    mask: Mask

    @classmethod
    def of(
        cls,
        problem: Study | System,
        space: Space | None,
        question: Question | str | None,
        mask: ArrayLike | None = None,
        *,
        needs_bound: bool = True,
    ) -> "DesignProblem":
        """Return what is designed, or say in words what is missing.

        Args:
            problem: a study of a linear family, or the family itself.
            space: the contexts to serve; the study's targets where None.
            question: what it means to serve.
            mask: which entries of a gain are free; all where None.
            needs_bound: whether the question must state a tolerance.
        """
        question = as_question(question, needs_bound=needs_bound)
        check_question(question)
        if not question.has_bound:
            question = question.at(0.0)  # the number of gains is given instead
        if isinstance(problem, Study):
            space = problem.targets if space is None else space
            problem = problem.require_system()
        system = linear_system(problem)
        if space is None:
            raise InvalidInputError(
                "A design needs contexts to serve, but got none. Give a space: "
                "ts.design(system, space, question)."
            )
        return cls(system, space, question, gain_mask(system, mask))

    @cached_property
    def nodes(self) -> Space:
        """The targets, or as many of them as a design looks at."""
        return fewer_contexts(self.targets, MOST_CONTEXTS)

    @cached_property
    def region(self) -> GainRegion:
        """The nodes with their plants."""
        return self.region_of(self.nodes)

    @cached_property
    def pool(self) -> Array:
        """The candidates: the optimal gains of the nodes."""
        optimal, _ = self.system.optimal_gain(self.system.contexts(self.nodes))
        return np.unique(np.where(self.mask, optimal, 0.0), axis=0)

    def region_of(self, space: Space) -> GainRegion:
        """Return contexts with their plants and losses.

        Args:
            space: the contexts; some gain must stabilise each of them.
        """
        contexts, question = self.system.contexts(space), self.question
        if question.rule.is_absolute:
            return GainRegion.of(self.system, contexts)
        optimum = self.system.optimum(contexts)
        assert optimum is not None
        lost = np.flatnonzero(~np.isfinite(optimum))
        if len(lost):
            raise InvalidInputError(
                f"{question.criterion} compares with the optimum, which is not known "
                f"at {len(lost):,} of {len(contexts):,} contexts, the first of them "
                f"{self._words(contexts[lost[0]])}: no gain stabilises it, or the best "
                "loop is on the boundary of stability. Leave these contexts out, or "
                "ask for a level, e.g. cost <= 12."
            )
        scale = -optimum if question.rule.is_relative else 1.0
        return GainRegion.of(self.system, contexts, -optimum, scale)

    @cached_property
    def finer(self) -> Grid | None:
        """A grid with contexts between the nodes of a grid, None for other contexts."""
        if not isinstance(self.targets, Grid):
            return None
        values = [axis.values for axis in self.targets.axes]
        for _ in range(3):
            halved = [
                np.unique(np.concatenate([v, v[1:] / 2 + v[:-1] / 2])) for v in values
            ]
            n_contexts = np.prod([len(v) for v in halved])
            if n_contexts * len(self.system.states) ** 2 > MOST_BETWEEN:
                break
            values = halved
        lists = [v.tolist() for v in values]
        return Grid(**dict(zip(self.targets.names, lists, strict=True)))

    def start(self, k: int | None, clock: Clock, seed: int) -> tuple[Array, int | None]:
        """Return the candidates' best selection, and how many the tolerance needs.

        Args:
            k: how many gains; None for as many as the tolerance needs.
            clock: when to stop in any case.
            seed: of its search.
        """
        limit = np.inf if k is not None else self.question.epsilon
        pool, losses = self._candidates_within(limit)
        if k is None:
            cover = counted_cover(pack(losses <= limit), clock, seed)
            return pool[cover.sources], cover.size
        least = smallest_epsilon(
            losses, k, time_limit=clock.left, seed=seed, max_stages=N_STAGES
        )
        if least.sources:
            return pool[list(least.sources)], None
        raise InvalidInputError(
            f"No {k} gains were found that stabilise all {len(self.region):,} "
            "contexts. Ask for more gains, or for a tolerance instead of a number."
        )

    def _candidates_within(self, limit: float) -> tuple[Array, Array]:
        """Return candidates that serve all nodes, some designed for one, and losses."""
        region, pool = self.region, self.pool
        losses = region.losses(pool)
        for node in np.flatnonzero(~(losses.min(0) <= limit)):
            # A gain of this structure for this context alone, from the next best one.
            best = pool[losses[:, node].argmin()]
            single = design_gains(region.at(np.array([node])), best[None], self.mask)
            if single.worst <= limit and single.worst < np.inf:
                pool = np.concatenate([pool, single.gains])
                losses = np.concatenate([losses, region.losses(single.gains)])
        bad = np.flatnonzero(~(losses.min(0) <= limit))
        if len(bad):
            verb = "stabilises" if limit == np.inf else "serves"
            row = self._words(self.system.contexts(self.nodes)[bad[0]])
            raise InvalidInputError(
                f"No gain of this structure was found that {verb} {len(bad):,} of "
                f"{len(region):,} contexts, the first of them {row}. Use a larger "
                "tolerance, free more entries of the gain, or leave these contexts out."
            )
        return pool, losses

    def study(self, designed: Array, candidates: Array) -> Study:
        """Return a study of the designed gains and of the candidates they replace.

        The source of a gain is the target at which it loses least.

        Args:
            designed: gains, shape `(gain, n_inputs, n_states)`.
            candidates: likewise.
        """
        targets = self.targets
        gains = self.system.gains(np.concatenate([designed, candidates]))
        bare = evaluate_policies(self.system, gains, targets)
        home = self.question.losses(bare).values.argmin(1)
        sources = Points(targets.names, targets.points[home])
        study = evaluate_policies(self.system, gains, targets, sources=sources)
        kinds = np.repeat([DESIGNED, TRAINED], [len(designed), len(candidates)])
        table = study.table.assign_coords(source_kind=("source", kinds))
        return study.with_table(table)

    def _words(self, context: Array) -> str:
        pairs = zip(self.system.axes, context, strict=True)
        return ", ".join(f"{axis.name} = {x:g}" for axis, x in pairs)
