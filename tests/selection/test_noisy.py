"""Choosing between points and regions, on trainers whose luck is known."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.selection.noisy import (
    LIMIT,
    Trial,
    choose_kind,
    slice_steps,
)
from tests.selection.worlds import Copy, Line, Middle

BUDGET = 1000


@dataclass(frozen=True)
class World:
    """A training on a region covers all with some chance, one at a point a few.

    A region needs its steps, in one training or in several that go on.

    Args:
        n: number of targets.
        region: chance, and steps.
        point: chance, steps, and how many targets it covers.
    """

    n: int
    region: tuple[float, int]
    point: tuple[float, int, int]

    def play(self, rng, kind, trials, uncovered):
        side = "points" if kind in ("point", "retry") else "regions"
        chance, steps, *reach = self.point if side == "points" else self.region
        if kind == "continue":
            before = [t for t in trials if t.kind in ("region", "continue")]
            first = max(k for k, t in enumerate(before) if t.kind == "region")
            steps -= sum(t.steps for t in before[first:])
        room = slice_steps(trials, BUDGET, side)
        if room < steps:
            return Trial(kind, uncovered, 0, room, True, side == "regions")
        new = min(uncovered, *reach, uncovered) if rng.random() < chance else 0
        return Trial(kind, uncovered, new, steps, room == steps)

    def planned(self, only=("region", "point")):
        """Least expected cost, by dynamic programming over what is uncovered."""

        @cache
        def cost(uncovered):
            if uncovered == 0:
                return 0.0
            ways = []
            for chance, steps, *reach in (getattr(self, way) for way in only):
                after = uncovered - min(uncovered, *reach, uncovered)
                # A failure leaves everything as it is: cost = steps + (1-p) cost + ...
                ways.append(steps / chance + cost(after))
            return min(ways)

        return cost(self.n)

    def chosen(self, rng, only=None):
        uncovered, trials = self.n, []
        while uncovered and len(trials) < 100:
            kind = only or choose_kind(trials, budget=BUDGET)
            trials.append(self.play(rng, kind, trials, uncovered))
            uncovered -= trials[-1].new
        return trials


WORLDS = {
    "regions win": World(20, (0.9, 200), (0.9, 200, 2)),
    "points win": World(12, (0.05, 1000), (0.9, 60, 4)),
    "regions cannot": World(12, (1e-9, 1000), (0.7, 100, 3)),
    "points cannot": World(12, (0.5, 500), (1e-9, 1000, 1)),
    "both fail often": World(10, (0.3, 400), (0.4, 200, 3)),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_cost_against_planning_with_all_knowledge(rng, world):
    """Close to the best plan; never far from the better way alone."""
    totals = [sum(t.steps for t in world.chosen(rng)) for _ in range(200)]
    best = min(world.planned(only=(way,)) for way in ("region", "point"))
    assert world.planned() <= best
    # Beside the bound of `LIMIT`, the last training may be one of the other way.
    assert np.mean(totals) <= (1 + LIMIT) * best + BUDGET
    assert np.mean(totals) >= 0.95 * world.planned()  # no plan is cheaper
    assert np.mean(totals) <= 2.6 * world.planned()  # as the docs say, with room


@pytest.mark.parametrize(
    ("way", "world"), [("region", "points win"), ("point", "points cannot")]
)
def test_one_way_alone_costs_far_more_somewhere(rng, way, world):
    """The negative control of the test above."""
    runs = [WORLDS[world].chosen(rng, only=way) for _ in range(30)]
    totals = [sum(trial.steps for trial in run) for run in runs]
    assert np.mean(totals) > 10 * WORLDS[world].planned()


def test_planning_equals_simulated_plans(rng):
    """The dynamic programme itself, against plans that are played."""
    world = World(10, (0.3, 200), (0.4, 80, 3))
    for way in ("region", "point"):
        totals = []
        for _ in range(1000):
            uncovered, total = world.n, 0
            while uncovered:
                trial = world.play(rng, way, [], uncovered)
                uncovered, total = uncovered - trial.new, total + trial.steps
            totals.append(total)
        error = np.std(totals) / np.sqrt(len(totals))
        assert abs(np.mean(totals) - world.planned(only=(way,))) < 4 * error


def test_neither_way_starves(rng):
    """Where nothing ever helps, both ways spend alike, up to the limit."""
    world = World(5, (1e-12, 700), (1e-12, 90, 1))
    trials = []
    for _ in range(400):
        kind = choose_kind(trials, budget=BUDGET)
        trials.append(world.play(rng, kind, trials, 5))
    spent = [
        sum(t.steps for t in trials if (t.kind in ("region", "continue")) == is_region)
        for is_region in (True, False)
    ]
    assert max(spent) <= LIMIT * (min(spent) + 0.25 * BUDGET) + BUDGET


def test_what_a_side_does():
    rising = Trial("region", 10, 6, 250, True, goes_on=True)
    assert choose_kind([rising], budget=BUDGET) == "continue"
    assert choose_kind([Trial("region", 10, 6, 250)], budget=BUDGET) == "region"
    flat = Trial("region", 10, 0, 250, is_cut=True)
    assert choose_kind([flat], budget=BUDGET) == "point"
    assert choose_kind([flat], budget=BUDGET, is_fresh=False) == "retry"
    # A region of one target is a point, however good regions were.
    assert choose_kind([rising], budget=BUDGET, is_single=True) == "point"
    # Once its own context has failed, all targets are tried again, as long as they
    # have spent less since the last success.
    first, home = Trial("region", 10, 9, 250), Trial("point", 1, 0, 250, is_cut=True)
    region, long = Trial("region", 1, 0, 100), Trial("region", 1, 0, 300)
    for trials, expected in (
        ([first, home], "again"),
        ([first, home, region], "again"),
        ([first, home, long], "retry"),
    ):
        options = {"is_single": True, "is_fresh": False}
        assert choose_kind(trials, budget=BUDGET, **options) == expected
    slices = [slice_steps([flat] * n, BUDGET, "regions") for n in range(4)]
    assert slices == [250, 500, 1000, 1000]
    # What was not spent does not lengthen the next; ways have slices of their own.
    easy = Trial("point", 10, 1, 100)
    assert slice_steps([easy] * 3, BUDGET, "points") == 250
    assert slice_steps([flat] * 3, BUDGET, "points") == 250


SPACE = ts.Grid(x0=(0.0, 10.0, 11))


def select(selector, epsilon, trainer, **options):
    question = ts.Question("regret", epsilon=epsilon)
    return ts.select(
        Line(), trainer, SPACE, question, seed=0, selector=selector, **options
    )


def test_one_region_serves_all_where_it_can():
    found = select("regions", 5.0, Middle(total_steps=1000))
    assert (found.stop_reason, found.trainings, found.cover.size) == ("covered", 1, 1)
    # Eleven contexts of 10 steps, within the first slice of 250.
    assert found.environment_steps == 110
    assert found.study.table["source_kind"].values.tolist() == ["region"]
    # Home is the whole region: the mean distance to the middle.
    home = -np.abs(np.arange(11) - 5.0).mean()
    assert found.study.table["home_performance"].values.item() == pytest.approx(home)


def test_a_region_that_was_cut_is_continued_and_every_step_counted():
    found = select("regions", 5.0, Middle(total_steps=200))
    # A slice of 50 is too short for 110 steps; the next, of 100, goes on from it.
    assert [entry["environment_steps"] for entry in found.history] == [50, 150]
    assert found.stop_reason == "covered"
    assert found.trainings == 2
    assert found.cover.size == 1


@pytest.mark.parametrize("chance", [1.0, 0.4])
def test_points_and_regions_cover_what_no_single_policy_can(chance):
    found = select("noisy", 1.0, Middle(total_steps=120, steps=11, chance=chance))
    assert found.stop_reason == "covered"
    kinds = found.study.table["source_kind"].values.tolist()
    assert {"region", "trained"} <= set(kinds)
    assert found.environment_steps == found.study.table["environment_steps"].sum()
    again = select("noisy", 1.0, Middle(total_steps=120, steps=11, chance=chance))
    assert again.history == found.history
    assert found.cover.size >= 4  # eleven targets, at most three each


@dataclass(frozen=True)
class Thorough(Middle):
    """Spends all that it may at a single context."""

    def train_region(self, system, region, *, seed, start=None):
        trained = super().train_region(system, region, seed=seed, start=start)
        if len(region.contexts) > 1:
            return trained
        return replace(trained, environment_steps=np.array([[self.total_steps]]))


def test_the_last_target_is_trained_in_the_slices_of_points():
    """A long training of a region does not lengthen those of a single context."""
    space = ts.Points(("x0",), np.array([[*range(10), 30.0]]).T)
    trainer = Thorough(total_steps=176, steps=4)
    question = ts.Question("regret", epsilon=7.0)
    found = ts.select(Line(), trainer, space, question, seed=0, selector="noisy")
    table = found.study.table
    # The region of eleven takes its whole slice; its mean, 6.8, serves all but one.
    assert table["source_kind"].values.tolist() == ["region", "trained"]
    assert table["environment_steps"].values.ravel().tolist() == [44, 44]
    assert found.stop_reason == "covered"


def test_a_budget_holds_for_regions_too():
    found = select("regions", 0.1, Middle(total_steps=1000), budget=3)
    assert found.stop_reason == "budget of trainings spent"
    assert found.trainings == 3


def test_region_boosting_gives_up_where_nothing_helps():
    found = select("regions", 0.1, Middle(chance=0.0), patience=4)
    assert found.stop_reason == "no candidate is expected to help"


def test_a_trainer_of_points_is_refused():
    with pytest.raises(InvalidInputError, match="RegionTrainer"):
        select("noisy", 1.0, Copy())
