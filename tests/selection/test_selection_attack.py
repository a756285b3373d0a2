"""Selections against random tables, lying evaluators and selectors that misbehave."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.policies import LinearGain
from taskspace.selection import Selector, coverage
from taskspace.systems.base import ContextAxis, System
from taskspace.trainers.base import Trained, Trainer
from tests.selection.worlds import PROPOSING


@dataclass(frozen=True, eq=False)
class Told(System):
    """J is a table `(source, policy, target)`; a policy is its place in it."""

    scores: Any = None
    best: Any = None
    id: ClassVar[str] = "told-v1"
    provenance: ClassVar[Any] = "exact"

    @property
    def axes(self):
        return (ContextAxis("x", 0.0),)

    def performance(self, policies, contexts):
        assert isinstance(policies, LinearGain)
        places = policies.gain[..., 0, :].astype(int)
        columns = contexts[:, 0].astype(int)
        return self.scores[places[..., 0], places[..., 1]][..., columns]

    def optimum(self, contexts):
        return None if self.best is None else self.best[contexts[:, 0].astype(int)]


@dataclass(frozen=True)
class Lookup(Trainer):
    """The policies of a source are its rows of the table; fails where told."""

    n_policies: int = 1
    fails: frozenset[int] = frozenset()
    steps: int = 7
    id: ClassVar[str] = "lookup"

    @property
    def steps_per_source(self):
        return self.steps * self.n_policies

    def train(self, system, contexts, *, seed, progress=None):
        gains = np.empty((len(contexts), self.n_policies, 1, 2))
        for i, (x,) in enumerate(contexts):
            if int(x) in self.fails:
                raise RuntimeError("no luck")
            gains[i, :, 0, 0] = x
            gains[i, :, 0, 1] = np.arange(self.n_policies)
        shape = gains.shape[:2]
        return Trained(LinearGain(gains), np.full(shape, self.steps, np.int64))


def line(n):
    return ts.Points(("x",), np.arange(float(n)))


def near(n):
    """J falls by one per step from the source."""
    return -np.abs(np.arange(n)[:, None, None] - np.arange(n)) * 1.0


def select(scores, trainer=None, *, space=None, epsilon=1.0, **options):
    """Select against a level: score >= −epsilon."""
    question = ts.Question("floor", epsilon=epsilon)
    trainer, space = trainer or Lookup(), space or line(len(scores))
    return ts.select(Told(scores), trainer, space, question, seed=0, **options)


def brute_force(scores, rows, criterion, judge, epsilon, columns, best):
    """Which targets some trained source serves, by a plain loop over cells."""
    n_targets = scores.shape[2]
    tops = [-np.inf if best is None else best[t] for t in range(n_targets)]
    for row in rows:
        for t in range(n_targets):
            if t in columns[row]:
                tops[t] = max(tops[t], scores[row, :, t].max())
    covered = np.zeros(n_targets, bool)
    for row in rows:
        for t in columns[row]:
            losses = []
            for policy in range(scores.shape[1]):
                j = scores[row, policy, t]
                home = scores[row, policy, row]
                if criterion == "signed" and j == home:
                    losses.append(0.0)  # by its definition, also of two failures
                elif j == -np.inf:
                    losses.append(np.inf)
                elif criterion == "floor":
                    losses.append(-j)
                elif criterion == "signed":
                    losses.append(home - j)
                else:
                    losses.append(tops[t] - j)
            loss = max(losses) if judge == "worst" else min(losses)
            covered[t] |= loss <= epsilon
    return covered


@st.composite
def worlds(draw):
    n = draw(st.integers(1, 9))
    n_policies = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["whole", "smooth"]))
    scores = rng.integers(-4, 1, (n, n_policies, n)).astype(float)
    if kind == "smooth":
        away = np.abs(np.arange(n)[:, None] - np.arange(n))
        scores = -1.0 * away[:, None] - rng.integers(0, 2, (n, n_policies, 1))
        scores = scores + np.zeros((n, n_policies, n))
    if draw(st.booleans()):
        scores[rng.random(scores.shape) < 0.15] = -np.inf
    options = {
        "selector": draw(st.sampled_from(sorted(PROPOSING))),
        "n_parallel": draw(st.sampled_from([1, 2, 12])),
        "patience": draw(st.integers(1, 3)),
        "budget": draw(st.one_of(st.none(), st.integers(0, 5))),
        "seed": draw(st.integers(0, 3)),
    }
    criterion = draw(st.sampled_from(["regret", "floor", "signed"]))
    judge = draw(st.sampled_from(["worst", "best"]))
    best = scores.max((0, 1)) if draw(st.booleans()) else None
    if best is not None and not np.isfinite(best).all():
        best = None
    fails = frozenset(np.flatnonzero(rng.random(n) < 0.2).tolist())
    fails = fails if draw(st.booleans()) else frozenset()
    epsilon = float(draw(st.integers(0, 3)))
    return scores, criterion, judge, epsilon, best, fails, options


def reference_moves(criterion, best):
    return criterion == "regret" and best is None


def has_reference(scores, rows):
    """Targets with a policy of their own that works, of the rows that were trained.

    Where no policy works nothing is served, by any reference.
    """
    n = len(scores)
    own = np.array([t in rows and (scores[t, :, t] > -np.inf).any() for t in range(n)])
    return own | (scores[rows].max((0, 1)) == -np.inf)


@settings(deadline=None, max_examples=60)
@given(worlds())
def test_covered_is_never_claimed_falsely(world):
    """Whatever the table, what a selection says is what a plain loop finds."""
    scores, criterion, judge, epsilon, best, fails, options = world
    n, n_policies = scores.shape[:2]
    question = ts.Question(criterion, judge, epsilon=epsilon)
    result = ts.select(
        Told(scores, best), Lookup(n_policies, fails), line(n), question, **options
    )
    rows, columns = [], {}
    if result.table is not None:
        rows = result.table["source_x"].values.astype(int).tolist()
        J = result.table["performance"].values
        for place, row in enumerate(rows):
            assert (J[place] == scores[row]).all()
            columns[row] = list(range(n))
    covered = brute_force(scores, rows, criterion, judge, epsilon, columns, best)
    judged = np.ones(n, bool)
    if reference_moves(criterion, best) and rows:
        judged = has_reference(scores, rows)
    covered &= judged
    assert result.coverage == (covered.mean() if judged.all() else None)
    assert result.covered_at_least == covered.mean()
    assert result.unserved.tolist() == np.flatnonzero(judged & ~covered).tolist()
    assert result.without_reference.tolist() == np.flatnonzero(~judged).tolist()
    assert (result.stop_reason == "covered") <= covered.all()
    if result.table is not None:
        losses = question.losses(result.table).values
        chosen = result.cover.sources
        assert ((losses[chosen] <= epsilon).any(0) == covered).all()
    # Nothing twice, nothing above the budget, every failure named.
    assert len(set(rows)) == len(rows)
    assert not set(rows) & fails
    failed = [f for f in result.failures if f["state"] == "failed"]
    assert result.trainings == len(rows) + len(failed) <= n
    if options["budget"] is not None:
        assert result.trainings <= options["budget"]
    assert result.environment_steps <= 7 * n_policies * result.trainings
    assert result.evaluations == len(rows) * n * n_policies
    # It ends for a reason that holds.
    if result.stop_reason == "every candidate is trained":
        assert result.trainings == n or options["selector"] == "coverage"
    if result.stop_reason == "budget of trainings spent":
        assert result.trainings == options["budget"]


@settings(deadline=None, max_examples=15)
@given(worlds())
def test_the_sequence_forgets_who_was_first(world):
    """Here and now, or all at once in threads: the same rows in the same order."""
    from concurrent.futures import ThreadPoolExecutor

    scores, criterion, judge, epsilon, best, fails, options = world
    n, n_policies = scores.shape[:2]
    system, trainer = Told(scores, best), Lookup(n_policies, fails)
    question = ts.Question(criterion, judge, epsilon=epsilon)
    here = ts.select(system, trainer, line(n), question, **options)
    with ThreadPoolExecutor(4) as pool:
        there = ts.select(system, trainer, line(n), question, executor=pool, **options)
    assert here.history == there.history
    assert here.failures == there.failures
    assert here.stop_reason == there.stop_reason


@pytest.mark.parametrize("n_parallel", [1, 2, 3, 7])
def test_a_reference_that_moves_while_others_run(n_parallel):
    """Each source is better than all before it, at every target but its own home."""
    n, how = 7, {"n_parallel": n_parallel, "patience": 2}
    scores = np.repeat(10.0 * np.arange(n), n).reshape(n, 1, n)
    scores[np.arange(n), 0, np.arange(n)] = -5.0
    system, question = Told(scores), ts.Question("regret", epsilon=1.0)
    for name in PROPOSING:
        result = ts.select(system, Lookup(), line(n), question, selector=name, **how)
        rows = result.table["source_x"].values.astype(int)
        tops = scores[rows, 0].max(0)
        truly = (tops - scores[rows, 0] <= 1.0).any(0)
        judged = np.isin(np.arange(n), rows)
        assert result.covered_at_least == (truly & judged).mean(), name
        assert (result.coverage is None) == (not judged.all())
        assert (result.stop_reason == "covered") == (truly & judged).all()


class Stubborn(Selector):
    """Always proposes the same context."""

    name: ClassVar[str] = "stubborn"

    def propose(self, ledger, question, n):
        return np.tile([[2.0]], (n, 1))


class Broken(Selector):
    """Proposes what is no context."""

    name: ClassVar[str] = "broken"
    rows: Any = ((np.nan,),)

    def propose(self, ledger, question, n):
        return np.array(self.rows)


@pytest.mark.parametrize("n_parallel", [1, 3])
def test_a_selector_that_repeats_itself_does_not_train_forever(n_parallel):
    result = select(near(5), selector=Stubborn(line(5)), n_parallel=n_parallel)
    assert result.trainings == 1
    assert result.unserved.tolist() == [0, 4]
    assert result.stop_reason == "every candidate is trained"


@pytest.mark.parametrize("rows", [((np.nan,),), ((np.inf,),), ((1.0, 2.0),), (1.0,)])
def test_proposals_that_are_no_contexts_are_refused(rows):
    selector = Broken(line(3))
    selector.rows = rows
    with pytest.raises(InvalidInputError, match="'broken' proposed"):
        select(np.zeros((3, 1, 3)), selector=selector)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", [0, 3])
def test_a_score_that_is_no_number_is_refused(value, where):
    scores = np.zeros((4, 1, 4))
    scores[:, 0, where] = value
    with pytest.raises(TaskspaceError):
        select(scores)


@pytest.mark.parametrize("name", PROPOSING)
def test_when_every_training_fails(name):
    trainer = Lookup(fails=frozenset(range(4)))
    result = select(np.zeros((4, 1, 4)), trainer, selector=name, n_parallel=2)
    assert result.coverage == 0.0
    assert result.table is None
    assert result.stop_reason != "covered"
    assert len(result.failures) == result.trainings
    assert all("no luck" in failure["reason"] for failure in result.failures)
    assert result.unserved.tolist() == [0, 1, 2, 3]
    assert result.record()["cover"]["size"] == 0


@pytest.mark.parametrize("name", PROPOSING)
@pytest.mark.parametrize("n_parallel", [1, 9])
def test_one_candidate_one_target_and_more_workers_than_candidates(name, n_parallel):
    how = {"selector": name, "n_parallel": n_parallel}
    for score, is_covered in ((0.0, True), (-np.inf, False)):
        result = select(np.full((1, 1, 1), score), epsilon=0.0, **how)
        assert result.trainings == 1
        assert (result.stop_reason == "covered") == is_covered
    # One candidate in the middle of many targets, and the other way round.
    one = select(near(5), space=ts.Points(("x",), [2.0]), targets=line(5), **how)
    assert one.unserved.tolist() == [0, 4]
    last = select(near(5), targets=ts.Points(("x",), [4.0]), **how)
    assert last.unserved.tolist() == []


@pytest.mark.parametrize("n_parallel", [1, 2, 5])
@pytest.mark.parametrize("room", [0, 6, 7, 13, 14, 15, 34, 35])
def test_steps_are_kept_to_the_unit(room, n_parallel):
    """Seven steps a training; J serves nothing, so the budget alone ends it."""
    how = {"environment_steps": room, "n_parallel": n_parallel, "patience": 50}
    result = select(np.full((9, 1, 9), -1e3), selector="random", **how)
    assert result.environment_steps == room // 7 * 7
    assert result.trainings == room // 7
    assert result.stop_reason == "budget of environment steps spent"


def test_the_best_of_a_family_is_one_policy_a_target():
    """Two policies, each good at half: `best` is served by both, `worst` by none."""
    scores = np.full((2, 2, 2), -10.0)
    scores[0, 0, 0] = scores[0, 1, 1] = 0.0
    for judge, share, trainings in (("best", 1.0, 1), ("worst", 0.0, 2)):
        question = ts.Question("floor", judge, epsilon=1.0)
        result = ts.select(
            Told(scores), Lookup(2), line(2), question, selector="uniform"
        )
        assert (result.coverage, result.trainings) == (share, trainings)


def test_many_candidates_in_parallel(monkeypatch):
    """More candidates than a plan considers, and nothing predicted to stay open."""
    monkeypatch.setattr(coverage, "MAX_CANDIDATES", 200)
    space = ts.Grid(k=(0.1, 8.0, 20), c=(0.1, 8.0, 20))
    system, trainer = ts.systems.MassSpringDamper(), ts.trainers.Lqr()
    found = ts.select(system, trainer, space, "regret <= 0.3", n_parallel=2)
    assert found.stop_reason == "covered"


def test_a_negative_control():
    """The check above can fail: claims of a spoiled table are caught by it."""
    scores = near(5)
    result = select(scores)
    rows = result.table["source_x"].values.astype(int).tolist()
    every = {row: list(range(5)) for row in rows}
    assert brute_force(scores, rows, "floor", "worst", 1.0, every, None).all()
    assert not brute_force(scores - 1, rows, "floor", "worst", 1.0, every, None).all()
