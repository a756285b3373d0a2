"""The loop: when it stops, what it spends, and what it may call covered."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearGain
from taskspace.selection import Selector
from tests.selection.worlds import PROPOSING, Copy, Line

LINE = ts.Grid(x0=(0.0, 20.0, 21))
PLANE = ts.Grid(x0=(0.0, 10.0, 11), x1=(0.0, 4.0, 5))
QUESTION = ts.Question("regret", epsilon=2.0)


def select(trainer=None, **options):
    return ts.select(Line(), trainer or Copy(), LINE, QUESTION, **options)


def sequence(result):
    names = [str(n) for n in result.table.coords if str(n).startswith("source_x")]
    return np.stack([result.table[n].values for n in names], 1).tolist()


def fresh_coverage(result, system, space):
    """Coverage by another road: policies of the table's contexts, tried anew."""
    contexts = np.array(sequence(result))
    policies = LinearGain(contexts[:, None, None, :])
    losses = -system.performance(policies, space.points)[:, 0]
    return (losses <= result.question.epsilon).any(0).mean()


@pytest.mark.parametrize("name", PROPOSING)
def test_every_selector_covers_and_covered_is_evaluated(name):
    result = ts.select(Line(2), Copy(), PLANE, QUESTION, seed=1, selector=name)
    assert result.stop_reason == "covered"
    assert result.coverage == 1.0 == fresh_coverage(result, Line(2), PLANE)
    assert result.cover.coverage == 1.0
    assert result.cover.size <= result.table.sizes["source"]
    shares = [entry["coverage"] for entry in result.history]
    assert shares == sorted(shares)
    assert result.history[-1]["trainings"] == result.trainings
    # The one before last was not enough: it stops as soon as it may.
    assert shares[-1] == 1.0
    assert all(share < 1.0 for share in shares[:-1])
    assert result.evaluations == result.trainings * PLANE.size


class Liar(Selector):
    """Claims nothing and proposes one corner, then nothing."""

    name: ClassVar[str] = "liar"

    def propose(self, ledger, question, n):
        if ledger.n_sources:
            return np.empty((0, 2))
        return np.array([[0.0, 0.0]])


def test_a_selector_cannot_talk_its_way_to_covered():
    result = ts.select(Line(2), Copy(), PLANE, QUESTION, seed=0, selector=Liar(PLANE))
    assert result.stop_reason == "every candidate is trained"
    assert result.coverage == fresh_coverage(result, Line(2), PLANE) < 1
    assert result.unserved.size == (1 - result.coverage) * PLANE.size


@pytest.mark.parametrize("budget", [0, 1, 2, 3])
@pytest.mark.parametrize("n_parallel", [1, 4])
def test_the_budget_of_trainings_is_kept_to_the_unit(budget, n_parallel):
    result = select(budget=budget, n_parallel=n_parallel)
    assert result.trainings == budget
    assert result.stop_reason == "budget of trainings spent"
    assert len(result.history) == budget


@pytest.mark.parametrize("tells", [True, False])
def test_the_budget_of_steps_is_never_exceeded(tells):
    trainer = Copy(steps=100, tells_steps=tells)
    for room, fits in ((350, 3), (300, 3), (299, 2)):
        result = select(trainer, environment_steps=room, n_parallel=2)
        assert (result.trainings, result.environment_steps) == (fits, 100 * fits)
        assert result.stop_reason == "budget of environment steps spent"
    if tells:
        none = select(trainer, environment_steps=99)
        assert none.trainings == 0
        assert none.table is None
        assert none.record()["cover"]["size"] == 0


@pytest.mark.parametrize("name", ["farthest", "coverage", "random"])
def test_an_unservable_target_is_named_and_the_loop_ends(name):
    system = Line(forbidden=(5.0,))
    result = ts.select(system, Copy(), LINE, QUESTION, seed=0, selector=name)
    assert result.unserved.tolist() == [5]
    assert result.cover.uncoverable.tolist() == [5]
    assert result.coverage == 20 / 21
    assert result.stop_reason in (
        "no candidate is expected to help",
        "every candidate is trained",
    )
    if name != "random":
        assert result.trainings <= 5 + 1 + 2 * 3


@dataclass(frozen=True)
class Late(Line):
    """J is 1 at the home of 20 only for the policy trained there: it comes last."""

    id: ClassVar[str] = "late-v1"

    def performance(self, policies, contexts):
        gains = policies.gain[..., 0, 0]
        late = (gains == 20.0)[:, :, None]
        return np.where(late, 10.0, 0.0) + np.zeros(len(contexts))

    def optimum(self, contexts):
        return None


@pytest.mark.parametrize("name", ["farthest", "coverage"])
@pytest.mark.parametrize("n_parallel", [1, 5])
def test_a_moving_reference_leaves_no_target_falsely_covered(name, n_parallel):
    """Against the best seen, one policy covers all until a better one is trained."""
    question = ts.Question("regret", epsilon=1.0)
    how = {"selector": name, "n_parallel": n_parallel, "patience": 20}
    result = ts.select(Late(), Copy(), LINE, question, **how)
    assert result.reference == "best of the table"
    losses = question.losses(result.table).values
    assert (losses <= 1.0).any(0).mean() == result.coverage
    assert [20.0] in sequence(result)  # it was looked for beyond the first
    assert result.coverage == 1.0
    assert result.cover.sources.tolist() == [sequence(result).index([20.0])]
    # At first only the home of the first policy has a reference.
    assert result.history[0]["coverage"] == 1 / 21
    assert result.history[0]["against_seen"] == 1.0
    assert result.history[-1]["coverage"] == 1.0
    # A stated reference does not move: the policies of the others never count.
    stated = ts.select(
        Late(), Copy(), LINE, question, seed=0, selector=name, reference=10.0
    )
    assert stated.reference == "stated reference"
    assert [20.0] in sequence(stated)
    assert stated.coverage == 1.0


def test_the_floor_criterion_needs_no_reference():
    question = ts.Question("floor", epsilon=2.0)  # J >= −2
    system = Line(optimum_known=False)
    result = ts.select(system, Copy(), LINE, question, seed=0)
    assert result.stop_reason == "covered"
    assert fresh_coverage(result, Line(), LINE) == 1.0
    assert 5 <= result.trainings <= 8


@pytest.mark.parametrize("name", ["coverage", "random"])
def test_workers_do_not_change_the_sequence(name):
    """Slow first trainings: threads finish out of order, the sequence is the same."""

    @dataclass(frozen=True)
    class Slow(Copy):
        def train(self, system, contexts, *, seed, progress=None):
            time.sleep(0.02 if contexts[0, 0] < 5 else 0.0)
            return Copy.train(self, system, contexts, seed=seed)

    kwargs = {"seed": 0, "selector": name, "n_parallel": 3}
    here = ts.select(Line(2), Slow(), PLANE, QUESTION, **kwargs)
    with ThreadPoolExecutor(3) as pool:
        there = ts.select(Line(2), Slow(), PLANE, QUESTION, executor=pool, **kwargs)
    assert sequence(here) == sequence(there)
    assert here.history == there.history


def test_processes_give_the_same_sequence():
    kwargs = {"seed": 0, "selector": "coverage", "n_parallel": 2}
    here = ts.select(Line(2), Copy(), PLANE, QUESTION, **kwargs)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        there = ts.select(Line(2), Copy(), PLANE, QUESTION, executor=pool, **kwargs)
    assert sequence(here) == sequence(there)


def test_proposals_know_of_each_other():
    assert select(n_parallel=4).trainings <= select().trainings + 3


def test_failed_trainings_are_reported_and_others_found():
    result = select(Copy(fails_at=(10.0,)), selector="farthest")
    assert result.stop_reason == "covered"
    (failure,) = result.failures
    assert failure["state"] == "failed"
    assert failure["context"] == {"x0": 10.0}
    assert "the simulator crashed" in failure["reason"]
    assert [10.0] not in sequence(result)


def test_the_signed_criterion_is_planned_by_what_it_is():
    """Easy targets are served from hard ones: few sources, and few trainings."""
    space = ts.Grid(k=(0.1, 8.0, 8), c=(0.1, 8.0, 8))
    system, trainer = ts.systems.MassSpringDamper(), ts.trainers.Lqr()
    whole = ts.evaluate(system, trainer, space)
    greedy = ts.greedy_cover(whole, "signed <= 0.1").size
    found = ts.select(system, trainer, space, "signed <= 0.1")
    assert found.stop_reason == "covered"
    assert found.trainings <= greedy + 2


def test_units_change_nothing():
    """J in other units, with ε likewise: the same trainings."""
    found = []
    for scale in (1.0, 1e-9, 1e12):
        system, question = (
            Line(2, scale=scale),
            ts.Question("regret", epsilon=2 * scale),
        )
        found.append(sequence(ts.select(system, Copy(), PLANE, question)))
    assert found[0] == found[1] == found[2]


def test_bad_input_is_refused():
    for kwargs, error in (
        ({"selector": "covrage"}, UnknownNameError),
        ({"budget": -1}, InvalidInputError),
        ({"budget": 2.5}, InvalidInputError),
        ({"n_parallel": 0}, InvalidInputError),
        ({"environment_steps": -1}, InvalidInputError),
        ({"patience": 0}, InvalidInputError),
        ({"reference": np.inf}, InvalidInputError),
    ):
        with pytest.raises(error):
            select(**kwargs)
