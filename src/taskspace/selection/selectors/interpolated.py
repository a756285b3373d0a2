"""More candidates than trainings: policies blended between trained contexts.

A few contexts are trained at Chebyshev nodes of the box. Where the parameters of the
policies are smooth in the context, a polynomial through them gives a policy for every
other context, at the price of an evaluation. All candidates are screened by evaluation;
the fewest that serve everything enter the table as sources of their own kind. A target
that none serves is trained for, and the polynomial is fitted again.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Numbers
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.performance import make_table
from taskspace.performance.ledger import Ledger
from taskspace.performance.store.base import TRAINED
from taskspace.performance.work import TrainedBlock
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.selection.selectors.base import Offer, Selector, distances
from taskspace.sets import PackedSets
from taskspace.spaces import Points, Space
from taskspace.trainers.base import Trained

INTERPOLATED = "interpolated"
"""The kind of a source whose policies are blended from trained ones."""

# Nodes per axis, by number of axes: at most 16 trainings to begin with.
NODES = {1: 5, 2: 3, 3: 2, 4: 2}
# Candidates are screened in blocks of about this many cells.
BLOCK_CELLS = 2_000_000
COVER_SECONDS = 20.0


@dataclass(frozen=True)
class _Screen:
    """What all candidates serve, by evaluation."""

    sets: PackedSets
    policies: TrainedBlock
    made_from: tuple[int, ...]


class Interpolated(Selector):
    """Trains Chebyshev nodes, then where no blend serves; offers the fewest blends.

    Args:
        space: contexts at which blends are tried.
        seed: of the search for a small cover.
    """

    name: ClassVar[str] = INTERPOLATED

    def __init__(self, space: Space, seed: int = 0):
        super().__init__(space, seed)
        self._screens: dict[tuple[int, ...], _Screen] = {}
        self._spent = 0

    def propose(self, ledger: Ledger, question: Question, n: int) -> Array:
        """Return nodes that are left, then homes of targets that no blend serves.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
            n: how many contexts, at most.
        """
        seen = self.look(ledger, question)
        nodes = chebyshev_nodes(self)
        planned = {tuple(row) for row in seen.planned}
        remaining = [row for row in nodes if tuple(row) not in planned]
        if remaining:
            return np.array(remaining[:n])
        none = np.empty((0, nodes.shape[1]))
        if len(seen.pending) or not len(seen.losses):
            return none
        unserved = ~(self._screen(ledger, question).sets.coverable | seen.covered)
        if not unserved.any():
            return none
        targets = ledger.target_space.points[unserved]
        homes = np.unique(self.homes(targets))
        homes = homes[self.candidates.left(seen.planned)[homes]]
        sources = self.candidates.units_of(seen.planned)
        chosen: list[int] = []
        for _ in range(min(n, len(homes))):
            gaps = distances(self.candidates.unit[homes], sources).min(1)
            best = int(homes[gaps.argmax()])
            chosen.append(best)
            sources = np.concatenate([sources, self.candidates.unit[[best]]])
        return self.candidates.points[chosen]

    def offer(self, ledger: Ledger, question: Question) -> Offer | None:
        """Offer the fewest blends that, with what is trained, serve all they can.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        seen = self.look(ledger, question)
        if not seen.trained.any():
            return None
        screen = self._screen(ledger, question)
        own = PackedSets.from_bool(seen.served)
        both = PackedSets(np.concatenate([own.words, screen.sets.words]), own.n_targets)
        gain = (both.coverable & ~seen.covered).any()
        if not gain:
            return None
        cover = minimum_cover(both, time_limit=COVER_SECONDS, seed=self.seed)
        chosen = np.sort(cover.sources[cover.sources >= own.n_sources])
        chosen = chosen - own.n_sources
        if not len(chosen):
            return None
        return Offer(
            INTERPOLATED,
            self.candidates.points[chosen],
            screen.policies[chosen],
            screen.made_from,
        )

    def spent(self) -> int:
        """Return evaluations of the screens since this was last asked."""
        spent, self._spent = self._spent, 0
        return spent

    def _screen(self, ledger: Ledger, question: Question) -> _Screen:
        kinds = np.array(ledger.kinds)
        numbers = np.flatnonzero((kinds == TRAINED) & ledger.evaluated)
        # Of several trainings of a context, the last: a retry replaces what was bad.
        last = {tuple(ledger.sources.points[number]): number for number in numbers}
        numbers = np.array(sorted(last.values()), np.int64)
        key = tuple(numbers.tolist())
        if key not in self._screens:
            self._screens = {key: self._evaluate(ledger, question, numbers)}
        return self._screens[key]

    def _evaluate(
        self, ledger: Ledger, question: Question, numbers: Numbers
    ) -> _Screen:
        """Return blend for every candidate, and look what each serves."""
        task, space = ledger.task, self.candidates.space
        blended = made_policies(
            ledger, numbers, self.candidates.points, self.candidates.units_of
        )
        reference, kind = ledger.best_seen()
        per_row = len(task.targets) * task.trainer.n_policies
        step = max(1, BLOCK_CELLS // per_row)
        parts = []
        for first in range(0, space.size, step):
            block = blended[slice(first, min(first + step, space.size))]
            rows = task.rows(block)
            table = make_table(
                {
                    **rows.variables,
                    "home_performance": block.home,
                    "best_known": reference,
                },
                None,
                None,
                {"best_known_kind": kind, "provenance": task.system.provenance},
            )
            parts.append(question.sets(table).to_packed().words)
        self._spent += space.size * per_row
        sets = PackedSets(np.concatenate(parts), len(task.targets))
        return _Screen(sets, blended, tuple(numbers.tolist()))


def chebyshev_nodes(selector: Selector) -> Array:
    """Return contexts to train first: Chebyshev nodes of the candidates' box.

    Args:
        selector: whose candidates.
    """
    candidates = selector.candidates
    varies = np.ptp(candidates.unit, axis=0) > 0
    n_axes = int(varies.sum())
    if n_axes > max(NODES):
        raise InvalidInputError(
            f"Interpolation is made for at most {max(NODES)} axes, but there are "
            f"{n_axes}. Use another selector."
        )
    count = NODES.get(n_axes, 1)
    roots = 0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    choices = [roots if each else np.zeros(1) for each in varies]
    return candidates.points_of(np.array(list(itertools.product(*choices))))


def made_policies(
    ledger: Ledger,
    numbers: Numbers,
    contexts: Array,
    units_of: Callable[[Array], Array],
) -> TrainedBlock:
    """Blend trained sources at other contexts, with their scores at home.

    Args:
        ledger: holds the trained sources.
        numbers: which of its sources to blend.
        contexts: where to make policies, one row each.
        units_of: gives coordinates in the unit box.
    """
    stack = ledger.store.read([ledger.store.sources[number] for number in numbers])
    like = stack[np.zeros(len(contexts), np.int64)].trained
    policies = blend(
        stack.trained.policies,
        units_of(ledger.sources.points[numbers]),
        units_of(contexts),
    )
    trained = Trained(
        policies,
        np.zeros_like(like.environment_steps),
        {name: np.zeros_like(values) for name, values in like.log.items()},
    )
    rows = ledger.task.system.contexts(Points(ledger.target_space.names, contexts))
    home = ledger.task.system.home_performance(policies, rows)
    return TrainedBlock(trained, home)


def blend(policies: Policy, sources: Array, wanted: Array) -> Policy:
    """Return policies at other contexts, by a polynomial through those that there are.

    The polynomial has the degree of the Chebyshev nodes on each axis; what it leaves
    at further sources is corrected by radial functions, so a blend at a trained
    context is the policy that was trained there.

    Args:
        policies: a stack `(source, policy)`, smooth in the context.
        sources: coordinates of its sources in the unit box.
        wanted: coordinates where policies are wanted.
    """
    if not policies.is_smooth:
        raise InvalidInputError(
            "Policies must be smooth in the context to be blended, but "
            f"{policies.kind} is not known to be. Use another selector, or set "
            "is_smooth on your policy."
        )
    varies = np.ptp(sources, axis=0) > 0
    here, there = 2 * sources[:, varies] - 1, 2 * wanted[:, varies] - 1
    count = NODES.get(int(varies.sum()), 1)
    count = count if count ** int(varies.sum()) <= len(here) else 1
    powers = list(itertools.product(range(count), repeat=int(varies.sum())))

    def terms(units: Array) -> Array:
        if not varies.any():
            return np.ones((len(units), 1))
        values = [np.polynomial.chebyshev.chebvander(u, count - 1) for u in units.T]
        columns = [
            np.prod([v[:, p] for v, p in zip(values, power, strict=True)], axis=0)
            for power in powers
        ]
        return np.stack(np.broadcast_arrays(*columns), axis=1).reshape(len(units), -1)

    def through(values: NDArray) -> NDArray:
        flat = values.reshape(len(here), -1).astype(np.float64)
        coefficients, *_ = np.linalg.lstsq(terms(here), flat, rcond=None)
        residual = flat - terms(here) @ coefficients
        out = _combined(terms(there), coefficients)
        if len(here) > 1:
            # Linear radial functions never make a singular system of distinct points.
            weights = np.linalg.lstsq(_apart(here, here), residual, rcond=None)[0]
            out = out + _combined(_apart(there, here), weights)
        return out.reshape(len(there), *values.shape[1:]).astype(values.dtype)

    arrays = {name: through(values) for name, values in policies.arrays().items()}
    return type(policies).from_arrays(arrays, policies.settings())


def _combined(factors: Array, values: NDArray[np.floating]) -> Array:
    """Multiply matrices so that no row depends, bit by bit, on the rows around."""
    out = np.zeros((len(factors), values.shape[1]))
    for column, row in zip(factors.T, values, strict=True):
        out += column[:, None] * row
    return out


def _apart(some: Array, others: Array) -> Array:
    """Return distances, likewise row by row."""
    square = np.zeros((len(some), len(others)))
    for mine, theirs in zip(some.T, others.T, strict=True):
        square += (mine[:, None] - theirs) ** 2
    return np.sqrt(square)
