"""The trial of a library: what it reports against brute force."""

from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import try_library
from taskspace.deploy.trial import uniform_design
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.spaces import Reach
from taskspace.systems import ContextAxis

from .helpers import gains, grid_library, msd, networks


def _shape(policies):
    return policies.gain.shape[:2]


class _Flat(ts.systems.System):
    """J is −1 everywhere; remembers the contexts that it is asked for."""

    id = "flat"

    @property
    def axes(self):
        return ContextAxis("x", 1.0), ContextAxis("y", 1.0)

    def __init__(self):
        self.seen = []

    def performance(self, policies, contexts):
        self.seen.append(contexts)
        return np.full((*_shape(policies), len(contexts)), -1.0)


@pytest.fixture(scope="module")
def library():
    return ts.library(msd(), ts.greedy_cover(msd(), "regret <= 0.5"))


def test_the_library_is_judged_at_the_true_context(library):
    system = msd().system
    trial = try_library(library, system, n_contexts=200, seed=3)
    rng = np.random.default_rng(3)
    rows = 0.1 + 7.9 * rng.random((200, 2))
    policy = library.select(rows).policy
    contexts = np.column_stack([rows, np.ones(200)])
    gains = library.policies.gain[policy][:, None]
    played = system.home_performance(LinearGain(gains), contexts)[:, 0]
    best = system.optimum(contexts)
    loss = best - played
    found = {c.name: c for c in trial.contenders}
    assert found["library"].mean_performance == pytest.approx(played.mean())
    # The worst is also looked for at the nodes, corners among them.
    nodes = library.regions.centres
    at_nodes = np.column_stack([nodes, np.ones(144)])
    gains = library.policies.gain[library.select(nodes).policy][:, None]
    there = system.home_performance(LinearGain(gains), at_nodes)[:, 0]
    best_there = system.optimum(at_nodes)
    worst = max((-loss / best).max(), ((there - best_there) / best_there).max())
    assert found["library"].worst_percent == pytest.approx(100 * worst)
    assert (trial.n_contexts, trial.n_tried, trial.n_compared) == (200, 344, 344)
    assert found["library"].within == np.mean(loss <= 0.5)
    best = -np.inf
    for gain in library.policies.gain:
        alone = system.home_performance(
            LinearGain(np.tile(gain, (200, 1, 1, 1))), contexts
        )[:, 0]
        best = max(best, alone.mean())
    assert found["one policy of it"].mean_performance == pytest.approx(best)
    assert found["optimum"].worst_percent == 0
    assert trial.reference == "the optimum of each context"
    # Nodes are guaranteed, and none was drawn.
    assert trial.applied == 0
    assert (trial.spoken, trial.held, trial.violations) == (144, 1.0, 0)
    assert found["interpolated gains"].n_policies <= library.size


def test_the_last_sentence_agrees_with_the_table(library):
    """Every number and the winner of the sentence are those of the rows."""
    trial = try_library(library, msd().system, n_contexts=100)
    # All four corners, 100 of the 144 nodes with four corners among them, 100 drawn.
    assert trial.line.startswith("Worst loss of 200 contexts tried, against the opt")
    rows = {c.name: c for c in trial.contenders}
    names = ["library", "one policy of it", "uniform library", "random library"]
    names.append("interpolated gains")
    for name in names:
        row = rows[name]
        assert f"{name} ({row.n_policies}) {row.worst_percent:.3g} %" in trial.line
    least = min(names, key=lambda name: rows[name].worst_percent)
    assert trial.line.endswith(f"Least: {least}.")
    assert trial.to_dict()["line"] == trial.line


def test_the_worst_is_looked_for_at_the_corners():
    """A peak at one corner that no draw of the inside comes near."""

    class Peak(_Flat):
        def performance(self, policies, contexts):
            lost = 1000.0 * (contexts == 1.0).all(1)
            return np.broadcast_to(-1.0 - lost, (*_shape(policies), len(contexts)))

    library = ts.PolicyLibrary.from_policies(
        gains(3), ts.Points(["x", "y"], np.eye(3, 2) * 0.9 + 0.1)
    )
    trial = try_library(library, Peak(), n_contexts=20)
    # (0.1, 0.1), (1, 0.1), (0.1, 1) are nodes; (1, 1) is only a corner.
    assert [c.worst_percent for c in trial.contenders] == [0.0] * 2
    assert trial.n_tried == 24

    class Known(Peak):
        def optimum(self, contexts):
            return np.full(len(contexts), -1.0)

    trial = try_library(library, Known(), n_contexts=20)
    assert trial.contenders[0].worst_percent == pytest.approx(1e5)
    assert trial.contenders[0].mean_percent == 0


def test_logarithmic_axes_are_drawn_in_logarithms(tmp_path):
    """Half of the draws below the geometric middle, in memory and from a file."""
    space = ts.Grid(x=(1e-3, 1e3, 7, "log"), y=(1.0, 2.0, 3))
    library = ts.PolicyLibrary.from_policies(gains(21), space)
    assert library.log_axes == (True, False)
    library.save(tmp_path / "lib")
    for made in (library, ts.PolicyLibrary.load(tmp_path / "lib")):
        system = _Flat()
        try_library(made, system, n_contexts=1000)
        drawn = system.seen[0][-1000:]
        assert abs((drawn[:, 0] < 1.0).mean() - 0.5) < 0.06
        assert abs((drawn[:, 1] < 1.5).mean() - 0.5) < 0.06
    even = ts.PolicyLibrary.from_policies(
        gains(21), ts.Grid(x=(1e-3, 1e3, 7), y=(1.0, 2.0, 3))
    )
    system = _Flat()
    try_library(even, system, n_contexts=1000)
    assert (system.seen[0][-1000:, 0] < 1.0).mean() < 0.02


def test_shares_of_a_range_stay_within_it():
    rng = np.random.default_rng(0)
    low = rng.uniform(1e-6, 1.0, 400)
    high = low * rng.uniform(1.0, 1e6, 400)
    is_log = rng.random(400) < 0.5
    reach = Reach(low, high, is_log)
    np.testing.assert_allclose(reach.at(np.zeros(400)), low, rtol=1e-12)
    np.testing.assert_allclose(reach.at(np.ones(400)), high, rtol=1e-12)
    share = rng.random((50, 400))
    rows = reach.at(share)
    assert ((rows >= low) & (rows <= high)).all()
    np.testing.assert_allclose(reach.share(rows), share, atol=1e-9)
    middle = reach.at(np.full(400, 0.5))
    np.testing.assert_allclose(
        middle, np.where(is_log, np.sqrt(low * high), low / 2 + high / 2)
    )


def test_every_row_has_the_same_contexts(library):
    """What the library refuses counts for nobody: it cannot beat the optimum."""
    system = msd().system
    trial = try_library(library, system, n_contexts=300, noise=0.3, seed=2)
    found = {c.name: c for c in trial.contenders}
    assert found["library"].refused > 0.2
    assert trial.n_compared < trial.n_tried
    for one in trial.contenders:
        assert one.mean_performance <= found["optimum"].mean_performance
        assert one.within <= found["optimum"].within == 1.0
    # Negative control: over all that each one played the library would win.
    rng = np.random.default_rng(2)
    rows = 0.1 + 7.9 * rng.random((300, 2))
    optimum = system.optimum(np.column_stack([rows, np.ones(300)]))
    assert found["library"].mean_performance > optimum.mean()


def test_a_guarantee_at_measured_contexts(library):
    """With noise the guarantee speaks of what is measured; violations are counted."""
    system = msd().system
    small = ts.library(msd(), range(0, 144, 7), "regret <= 0.001")
    # Nodes of a table are points: no draw meets one.
    assert try_library(small, system, n_contexts=50, noise=0.1).applied == 0
    trial = try_library(library, system, n_contexts=300, noise=0.2)
    assert trial.contenders[0].refused > 0.1
    assert np.isfinite(trial.contenders[0].mean_performance)
    clamps = replace(library, outside="clamp")
    noisy = try_library(clamps, system, n_contexts=300, noise=0.2).contenders[0]
    assert noisy.refused == 0
    calm = try_library(clamps, system, n_contexts=300).contenders[0]
    assert calm.mean_percent < noisy.mean_percent


def test_discrete_time_and_one_axis():
    family = ts.systems.LinearFamily(
        context_axes=[ContextAxis("a", 0.5)],
        A=lambda a: [[a]], B=lambda a: [[1.0]], Q=[[1.0]], R=[[1.0]],
        time="discrete",
    )  # fmt: skip
    space = ts.Grid(a=(0.2, 1.5, 8))
    study = ts.evaluate(family, ts.trainers.Lqr(), space)
    library = ts.library(study, [2, 6], "ratio <= 20 %")
    trial = try_library(library, family, n_contexts=50)
    assert trial.contenders[0].failed == 0


def test_networks_on_a_simulated_system():
    system = ts.systems.CartPole(horizon=40, n_episodes=2)
    space = ts.Grid(pole_length=(0.4, 1.0, 2))
    library = ts.PolicyLibrary.from_policies(networks(2), space)
    trial = try_library(library, system, n_contexts=4)
    assert trial.reference == "the best of all contenders"
    assert any("give a run" in note for note in trial.notes)
    pool = (ts.Points(["pole_length"], [0.4, 0.7, 1.0]), networks(3, seed=1))
    pooled = try_library(library, system, n_contexts=4, pool=pool)
    assert "random library" in {c.name for c in pooled.contenders}


def test_a_uniform_design_is_the_middles_of_equal_boxes():
    reach = Reach(np.array([0.0, 0.0]), np.array([1.0, 2.0]), np.zeros(2, bool))
    points = uniform_design(reach, 4)
    assert points.tolist() == [[0.25, 0.5], [0.25, 1.5], [0.75, 0.5], [0.75, 1.5]]


def test_mistakes_are_named():
    system = msd().system
    with pytest.raises(InvalidInputError, match="names only"):
        try_library(
            ts.PolicyLibrary.from_policies(["a"], ts.Points(["k"], [1.0])), system
        )
    for option in ({"noise": -1.0}, {"noise": np.nan}, {"n_contexts": 0}):
        with pytest.raises(InvalidInputError, match=r">= 0|>= 1"):
            try_library(grid_library(), system, **option)


class _PartlyKnown(ts.systems.MassSpringDamper):
    """Knows the optimum only of stiff contexts, or of none."""

    least, provenance = 4.0, "given"

    def optimum(self, contexts):
        best = super().optimum(contexts)
        assert best is not None
        return np.where(contexts[:, 0] > self.least, best, np.nan)


class _Unknown(_PartlyKnown):
    least = np.inf


def test_an_unknown_optimum_falls_back_to_the_best_known(library):
    whole = try_library(library, msd().system, n_contexts=200)
    part = try_library(library, _PartlyKnown(), n_contexts=200)
    none = try_library(library, _Unknown(), n_contexts=200)
    for trial in (part, none):
        assert "optimum" not in {c.name for c in trial.contenders}
        for one in trial.contenders:
            assert np.isfinite([one.mean_percent, one.worst_percent]).all()
            assert one.refused == 0
    # Losses against the best of the contenders are no larger than against the optimum.
    assert none.contenders[0].mean_percent <= part.contenders[0].mean_percent
    assert part.contenders[0].mean_percent <= whole.contenders[0].mean_percent
    assert none.reference == "the best of all contenders"
    assert "where it is known" in part.reference
