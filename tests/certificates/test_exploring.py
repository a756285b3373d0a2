"""A pilot before a cover is chosen: sources, episodes, and the cover."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.certificates.pilot import least_assignment, play_pilot, shortlist
from taskspace.errors import InvalidInputError
from taskspace.systems.episodic import FIRST_FRESH, standard_error
from tests.certificates.test_confidence import Lottery, asked, lottery

FLOOR = ts.Question("floor", epsilon=-0.8)


def floors(losses):
    """A table whose `floor` losses are these, dims (source, target)."""
    losses = np.asarray(losses, float)
    return ts.performance.table_from_matrix(-losses)


def test_a_shortlist_is_one_cover_after_another():
    # Served: source 0 {0, 1, 2}, 1 {3}, 2 {2, 3}, 3 {0, 1}, 4 nothing.
    served = np.array(
        [[1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], bool
    )
    table, question = floors(np.where(served, -1.0, 0.0)), FLOOR
    # First 0, then of 1 and 2, which add one target each, the one that serves more.
    assert shortlist(table, question, 1).tolist() == [0]
    assert shortlist(table, question, 2).tolist() == [0, 2]
    # A second cover, of what is left; the useless one comes last.
    assert shortlist(table, question, 3).tolist() == [0, 2, 3]
    assert shortlist(table, question, 4).tolist() == [0, 1, 2, 3]
    assert shortlist(table, question, 9).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InvalidInputError, match="n >= 1"):
        shortlist(table, question, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 6))
def test_the_least_assignment_is_that_of_brute_force(seed, n_sources, n_targets):
    rng = np.random.default_rng(seed)
    losses = rng.integers(-4, 5, (n_sources, n_targets)) / 4.0
    question = ts.Question("floor", epsilon=float(rng.integers(-4, 4)) / 4)
    found = least_assignment(floors(losses), question)
    can = (losses <= question.epsilon).any(0)
    if not can.any():
        np.testing.assert_array_equal(found, losses.argmin(0))
        return
    inner = losses[:, can]
    for size in range(1, n_sources + 1):
        worst = [
            inner[list(chosen)].min(0).max()
            for chosen in combinations(range(n_sources), size)
        ]
        if min(worst) <= question.epsilon:
            break
    left = losses[found, np.arange(n_targets)]
    assert len(np.unique(found)) <= size
    assert left[can].max() == min(worst)
    # Each target has the selected source of least loss, also where none serves.
    assert (left == losses[np.unique(found)].min(0)).all()


def test_a_pilot_plays_other_episodes(monkeypatch):
    seen = []
    system, policies, table = lottery([0.0, 0.5, 1.0], [0.0, 0.5, 1.0])
    original = Lottery.returns

    def spy(self, policies, contexts, *, episodes=None):
        seen.extend(self.episode_numbers(episodes).tolist())
        return original(self, policies, contexts, episodes=episodes)

    monkeypatch.setattr(Lottery, "returns", spy)
    found = play_pilot(table, FLOOR, system, policies, n_sources=2, n_episodes=40)
    assert set(seen) == set(range(16, 56))
    assert len(found.sources) == 2
    returns = original(
        system,
        policies[found.sources],
        table["target_x"].values[:, None],
        episodes=range(16, 56),
    )
    np.testing.assert_allclose(found.table["performance"], returns.mean(-1))
    np.testing.assert_allclose(found.table["standard_error"], standard_error(returns))
    assert found.table.attrs["provenance"] == "sampled"
    assert found.table.attrs["n_episodes"] == 40
    np.testing.assert_array_equal(found.table["best_known"], table["best_known"])
    np.testing.assert_array_equal(
        found.table["source_x"], table["source_x"][found.sources]
    )
    home = np.stack([returns[i, :, s].mean(-1) for i, s in enumerate(found.sources)])
    np.testing.assert_allclose(found.table["home_performance"], home)


def test_a_pilot_ends_in_time_and_before_what_judges():
    system, policies, table = lottery([0.0, 0.5, 1.0], [0.0, 0.5, 1.0])
    short = play_pilot(table, FLOOR, system, policies, n_sources=3, time_limit=0.0)
    assert len(short.sources) == short.table.sizes["source"] == 1
    for n in (1, FIRST_FRESH):
        with pytest.raises(InvalidInputError, match="2 <= n_episodes <= "):
            play_pilot(table, FLOOR, system, policies, n_episodes=n)


def certified(pilot, seed):
    # One source of mean 0.99 among thirty of mean 0.82, on four episodes each.
    gains = np.append(0.18 + 1e-6 * np.arange(30), 0.01)
    system, policies, table = lottery(
        gains, [0.0, 1e-9, 2e-9], n_episodes=4, episode_seed=seed
    )
    question = ts.Question("floor", epsilon=-0.93)
    options = {"max_episodes": 1024, "pilot": pilot, "time_limit": 20}
    return asked(system, policies, table, question, **options)["fresh episodes"]


def test_a_pilot_finds_what_the_table_could_not():
    """On four episodes a third of the bad sources look as good as the good one."""
    with_pilot = [certified((31, 256), seed) for seed in range(3)]
    assert [found.values["n_certified"] for found in with_pilot] == [3, 3, 3]
    assert [found.values["sources"] for found in with_pilot] == [[30]] * 3
    assert with_pilot[0].values["shortlist"] == list(range(31))
    assert with_pilot[0].values["source_contexts"] == [{"x": 0.01}]
    assert "of a shortlist of 31, on 256 other episodes" in with_pilot[0].why
    without = [certified(None, seed) for seed in range(3)]
    assert sum(found.values["n_certified"] for found in without) < 9
    assert all("shortlist" not in found.values for found in without)


def test_sources_are_numbered_as_in_the_whole_table():
    """The assignment after a pilot is one of the table's own rows."""
    system, policies, table = lottery([0.5, 0.0, 0.5], [0.0, 0.05])
    result = asked(system, policies, table, FLOOR, pilot=(1, 64), time_limit=20)
    assert result.fresh.assignment.tolist() == [1, 1]
    assert result["fresh episodes"].values["shortlist"] == [1]
    assert result["fresh episodes"].holds
