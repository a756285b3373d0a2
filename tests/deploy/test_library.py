# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false
"""What a library selects, promises and does."""

from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import Guarantee, OutsideError, Status
from taskspace.deploy.make import assign
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export.tables import map_table
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, FunctionSystem, PythonPolicies

from .helpers import MAKERS, gains, grid_library, msd, networks, tables


def test_least_loss_serves_and_the_nodes_are_guaranteed():
    study, question = msd(), ts.Question("regret", epsilon=0.3)
    cover = ts.minimum_cover(study, question)
    library = ts.library(study, cover)
    losses = question.losses(study.table).values[cover.sources]
    chosen = library.select(study.targets.points)
    assert (chosen.policy == losses.argmin(0)).all()
    assert (chosen.status == Status.GUARANTEED).all()
    np.testing.assert_array_equal(chosen.margin, 0.3 - losses.min(0))
    assert [e.source for e in library.entries] == cover.sources.tolist()
    assert isinstance(library.policies, LinearGain)
    gains = study.policies.gain[cover.sources, 0]
    np.testing.assert_array_equal(library.policies.gain, gains)
    assert library.units == ("N/m", "N s/m")
    assert library.fixed == {"m": 1.0}
    assert library.guarantee.kind == "proof"
    assert "between targets nothing is known" in library.guarantee.statement
    between = library.select({"k": 3.21, "c": 1.23})
    assert between.status == Status.INSIDE
    assert not between.guaranteed
    assert library.select({"k": 9.0, "c": 1.0}).status == Status.REFUSED
    near = replace(library, outside="clamp").select({"k": 9.0, "c": 1.0})
    assert near.status == Status.OUTSIDE
    assert near.policy == library.select({"k": 8.0, "c": 1.0}).policy


def test_provenance_decides_what_it_is_called():
    for provenance in ("sampled", "given"):
        other = msd().table.assign_attrs(provenance=provenance)
        library = ts.library(other, [0, 5], ts.Question("regret", epsilon=1.0))
        assert library.guarantee.kind == "estimate"


def test_uncovered_targets_get_the_least_loss_and_no_guarantee():
    matrix = [[-1.0, -5.0, -9.0], [-2.0, -6.0, -np.inf]]
    table = ts.performance.table_from_matrix(
        matrix, targets=ts.Points(["x"], [1.0, 2.0, 3.0]), provenance="exact"
    )
    library = ts.library(table, [1], ts.Question("floor", epsilon=4.0))
    chosen = library.select([[1.0], [2.0], [3.0]])
    assert chosen.policy.tolist() == [0, 0, -1]
    assert chosen.status.tolist() == [Status.GUARANTEED, Status.FAILING, Status.REFUSED]
    assert library.guarantee.values["n_served"] == 1
    failing = ts.performance.table_from_matrix([[-np.inf, -np.inf], [0.0, 0.0]])
    with pytest.raises(InvalidInputError, match="fail at every target"):
        ts.library(failing, [0], ts.Question("floor", epsilon=1.0))


def test_judge_best_uses_the_member_that_serves():
    performance = np.array([[[0.0, -9.0], [-9.0, 0.0]], [[-5.0, -5.0], [-5.0, -5.0]]])
    policies = LinearGain(np.arange(4.0).reshape(2, 2, 1, 1))
    table = ts.performance.table_from_matrix(
        performance, targets=ts.Points(["x"], [0.0, 1.0])
    )
    question = ts.Question("regret", "best", epsilon=0.5)
    library = ts.library(ts.Study.of(table, policies=policies), [0], question)
    assert library.act([[0.0], [1.0]], np.ones((2, 1))).ravel().tolist() == [-0.0, -1.0]
    assert library.select([[0.0], [1.0]]).estimated.all()
    assert [e.member for e in library.entries] == [0, 1]
    # judged by the worst member nobody serves anything
    study = ts.Study.of(table, policies=policies)
    assert ts.library(study, [0], "regret <= 0.5").size == 1
    streamed = table.drop_vars("performance").assign(
        best=(("source", "target"), performance.max(1))
    )
    with pytest.raises(InvalidInputError, match="which one that is this table does"):
        ts.library(streamed, [0], question)


def test_judge_worst_with_a_family_deploys_one_member_that_serves():
    system, space = msd().system, ts.Grid(k=(0.1, 8.0, 6), c=(0.1, 8.0, 6))
    study = ts.evaluate(system, ts.trainers.Lqr(n_policies=4, noise=0.05), space)
    library = ts.library(study, ts.greedy_cover(study, "regret <= 0.5"))
    chosen = library.select(space.points)
    assert chosen.guaranteed.all()
    assert isinstance(library.policies, LinearGain)
    one = LinearGain(library.policies.gain[:, None])
    played = system.performance(one, system.contexts(space))[:, 0]
    regret = study.table["best_known"].values - played[chosen.policy, np.arange(36)]
    assert regret.max() <= 0.5
    assert (0.5 - regret >= chosen.margin - 1e-9).all()  # that of the worst member


@pytest.mark.parametrize("seed", range(6))
def test_assignment_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    loss, performance = rng.random((2, 4, 20))
    serves = loss <= 0.5
    policy, served = assign(loss, performance, 0.5)
    assert (served == serves.any(0)).all()
    for t in range(20):
        best = loss[:, t].argmin()
        if served[t]:
            best = max(np.flatnonzero(serves[:, t]), key=lambda p: performance[p, t])
        assert policy[t] == best


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("policies", [gains(4, 2, 3), networks(4), tables(4)])
def test_act_is_the_act_of_the_selected_policy(kind, policies):
    library = MAKERS[kind](policies)
    rng = np.random.default_rng(0)
    rows = rng.uniform(library.low, library.high, (30, len(library.names)))
    seen = rng.standard_normal((30, 3 if policies.kind == "linear-gain" else 4))
    if policies.kind == "tabular":
        seen = rng.integers(0, 7, 30)
    acted = library.act(rows, seen)
    for row, x, action in zip(rows, seen, acted, strict=True):
        own = policies[library.select(row).policy].act(x)
        np.testing.assert_allclose(action, own, rtol=1e-6)
        np.testing.assert_allclose(library.act(row, x), own, rtol=1e-6)


def test_refused_contexts_do_not_act():
    library = grid_library(outside="refuse")
    with pytest.raises(OutsideError, match=r"x = 7, y = 1 \(and 1 more\) is not"):
        library.act([[0.0, 1.0], [7.0, 1.0], [0.0, np.nan]], np.ones((3, 2)))


def test_matrices_have_names_instead_of_policies(tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text("policy,flat,hill,ice\nwalk,9,1,0\nrun,5,8,2\nskate,0,1,9\n")
    table = ts.performance.read_matrix(file)
    question = ts.Question("regret", epsilon=1.0)
    library = ts.library(table, ts.minimum_cover(question.sets(table)), question)
    names = [
        library.entries[p].name for p in library.select(["flat", "hill", "ice"]).policy
    ]
    assert names == ["walk", "run", "skate"]
    one = library.select("ice")
    assert one.estimated  # the numbers are somebody's word
    assert not one.guaranteed
    assert one.inside
    assert library.entries[one.policy].name == "skate"
    with pytest.raises(UnknownNameError, match="Did you mean 'hill'"):
        library.select("hil")
    with pytest.raises(InvalidInputError, match="one number each for target"):
        library.select(np.zeros((1, 2)))
    with pytest.raises(InvalidInputError, match="holds names, not policies"):
        library.act("ice", [1.0])
    with pytest.raises(InvalidInputError, match="names only"):
        library.tracker()


def test_python_policies_act():
    system = FunctionSystem(
        lambda context, policy: -abs(context["x"] - policy(0.0)),
        [ContextAxis("x", 0.0)],
    )
    policies = PythonPolicies([lambda seen: seen + 1.0, lambda seen: seen + 4.0])
    space = ts.Points(["x"], [0.0, 2.0, 4.0])
    study = ts.evaluate_policies(system, policies, space)
    library = ts.library(study, [0, 1], ts.Question("floor", epsilon=1.0))
    assert library.act({"x": 4.0}, 0.5) == 4.5
    assert library.act([[0.0], [4.0]], [0.5, 1.0]).tolist() == [1.5, 5.0]


def test_hysteresis_never_chatters():
    library = grid_library()
    rng = np.random.default_rng(0)
    edges = library.regions.arrays()["borders_0"]
    width = library.high - library.low
    for border in edges:
        track = library.tracker(hysteresis=0.02)
        steps = border + 0.0099 * width[0] * rng.uniform(-1, 1, 200)
        used = [track.select([x, 1.0]).policy for x in steps]
        assert (np.diff(used) != 0).sum() == 0
    assert any(
        library.select([b - 1e-3, 1.0]).policy != library.select([b + 1e-3, 1.0]).policy
        for b in edges
    )


def test_hysteresis_is_bounded_and_marked():
    library = grid_library()
    rng = np.random.default_rng(0)
    track = library.tracker(hysteresis=0.03)
    band = 0.03 * (library.high - library.low)
    row, last, n_held = np.array([0.0, 1.0]), None, 0
    for _ in range(1000):
        row = np.clip(row + band * rng.normal(0, 0.3, 2), library.low, library.high)
        mapped, found = library.select(row), track.select(row)
        if found.held:
            n_held += 1
            assert found.policy != mapped.policy
            assert found.status == Status.INSIDE
            assert (np.abs(row - last) <= band).all()
        else:
            assert (found.policy, found.status) == (mapped.policy, mapped.status)
            last = row
    assert n_held > 7
    at_once = library.tracker(hysteresis=0.0)
    assert not any(
        at_once.select(rng.uniform(library.low, library.high)).held for _ in range(99)
    )


def test_a_refused_context_has_no_policy_and_ends_nothing():
    library = grid_library(outside="refuse")
    track = library.tracker(0.5)
    first = track.select([0.0, 1.0]).policy
    assert track.select([np.nan, 1.0]).policy == -1
    assert track.policy == first
    other = track.select([2.0, 9.0])
    assert not other.held
    assert other.policy == library.select([2.0, 9.0]).policy
    assert first >= 0
    with pytest.raises(OutsideError):
        track.act([np.nan, 1.0], [0.0, 0.0])


def test_made_by_hand():
    library = ts.PolicyLibrary.from_policies(
        gains(3), ts.Points(["k"], [1.0, 2.0, 4.0])
    )
    assert library.select([[1.4], [1.6], [3.1]]).policy.tolist() == [0, 1, 2]
    assert not library.select([2.0]).guaranteed
    space = ts.Points(["k"], [1.0, 2.0, 4.0])
    with pytest.raises(InvalidInputError, match="3 points and 2 policies"):
        ts.PolicyLibrary.from_policies(["a", "b"], space)
    with pytest.raises(InvalidInputError, match="must be 3 policies"):
        ts.PolicyLibrary.from_policies(gains(2), space)


def test_mistakes_are_named():
    study, question = msd(), ts.Question("regret", epsilon=0.3)
    library, table = ts.library(study, [3, 70], question), study.table
    few = {"policies": study.policies[:5]}
    assert library.select({"k": 1.0, "c": 1.0, "m": 1.0}).policy >= 0
    for says, call in (
        ("c is missing", lambda: library.select({"k": 1.0})),
        ("for m = 1 only, but got m = 2",
         lambda: library.select({"k": 1.0, "c": 1.0, "m": 2.0})),
        ("one number each for k, c", lambda: library.select([1.0, 2.0, 3.0])),
        ("An observation must have 2", lambda: library.act([1.0, 1.0], np.ones(3))),
        ("must know what its cover answers", lambda: ts.library(table, [3])),
        ("from 0 to 143", lambda: ts.library(table, [144], question)),
        ("list of sources by number", lambda: ts.library(table, [0.5], question)),
        (r"a study .* but got str", lambda: ts.library("runs/msd", [3], question)),
        ("hysteresis >= 0", lambda: library.tracker(-0.1)),
        ("for all 144 sources",
         lambda: ts.library(ts.Study.of(table, **few), [3], question)),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=says):
            call()
    for says, call in (
        ("context axis 'kk'", lambda: library.select({"kk": 1.0, "c": 2.0})),
        ("behaviour outside", lambda: ts.library(table, [3], question, outside="no")),
        ("scope", lambda: Guarantee(None, "everywhere", "proof", "")),
    ):
        with pytest.raises(UnknownNameError, match=says):
            call()


def test_a_target_that_no_policy_serves_has_a_status_of_its_own():
    """Known to fail is not the same as unknown; `check_exporter` has it in exports."""
    space = ts.Grid(k=(1.0, 4.0, 4))
    scores = [[0.0, -1.0, -9.0, -9.0], [-2.0, -1.0, 0.0, -5.0]]
    table = ts.performance.table_from_matrix(scores, targets=space, provenance="exact")
    library = ts.library(table, [0, 1], ts.Question("floor", epsilon=1.0))
    library = replace(library, policies=LinearGain(np.ones((2, 1, 1))))
    rows = np.array([[1.0], [2.0], [3.0], [4.0], [3.9], [9.0]])
    expected = [0, 0, 0, Status.FAILING, Status.INSIDE, Status.REFUSED]
    chosen = library.select(rows)
    assert chosen.status.tolist() == expected
    assert chosen.margin[3] == -4.0
    assert chosen.policy[3] == 1
    # What a table of regions says is what select says at its nodes.
    assert (library.statuses() == library.select(space.points).status).all()
    assert map_table(library)["status"].tolist() == ["guaranteed"] * 3 + ["failing"]
