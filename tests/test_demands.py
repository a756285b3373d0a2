"""Several demands at once: intersections by brute force, in every room."""

import itertools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.certificates.boxes.enclosures import AllOf, Boxes, enclosure_for
from taskspace.cli import app
from taskspace.cover.cover import unmet_targets
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController
from taskspace.systems import ContextAxis, LinearFamily, Pi
from taskspace.systems.linear.measures import MEASURES

FAMILY = LinearFamily(
    [ContextAxis("k", 1.0, low=0.0)],
    A=lambda k: [[0, 1], [-k, -1]],
    B=lambda k: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[1.0, 0.0]],
)
SPACE = ts.Grid(k=(0.3, 3.0, 12))
FIRST = ts.Question("ratio", epsilon=0.8)
SECOND = ts.Question("disk_margin >= 0.8")
THIRD = ts.Question("decay_rate >= 0.1")
ALL = ts.Question(all_of=[FIRST, SECOND, THIRD])


@pytest.fixture(scope="module")
def study() -> ts.Study:
    gain = 0.1 + 0.6 * SPACE.points[:, 0]
    return ts.evaluate_policies(FAMILY, Pi(gain, 0.4 * gain), SPACE, sources=SPACE)


def served(study, question) -> np.ndarray:
    return ts.loss(study, question).values <= question.epsilon


def fewest(covers: np.ndarray) -> int:
    need = np.asarray(covers.any(0))
    for n in range(1, len(covers) + 1):
        for rows in itertools.combinations(range(len(covers)), n):
            if np.asarray(covers[list(rows)].any(0))[need].all():
                return n
    return 0


def test_sets_are_the_intersection(study):
    parts = [served(study, q) for q in (FIRST, SECOND, THIRD)]
    both = np.logical_and.reduce(parts)
    assert (served(study, ALL) == both).all()
    assert 0 < both.sum() < min(part.sum() for part in parts)
    cover = ts.minimum_cover(study, ALL)
    assert cover.optimal
    assert cover.size == fewest(both)
    hit = np.arange(SPACE.size)[cover.assignment >= 0]
    assert all(both[cover.assignment[t], t] for t in hit)
    assert sorted(cover.uncoverable.tolist()) == np.flatnonzero(~both.any(0)).tolist()
    losses = ts.loss(study, ALL).values
    alone = ts.loss(study, FIRST).values
    others = parts[1] & parts[2]
    assert (losses[others] == alone[others]).all()
    assert np.isinf(losses[~others]).all()


def test_profile_is_over_the_first_tolerance(study):
    asked = ts.Question(all_of=[FIRST, ts.Question("floor", epsilon=4.4)])
    points = ts.complexity_profile(study, asked, epsilons=[0.45, 0.6, 0.8, 1.5])
    others = served(study, asked.also[0])
    assert not others.all()
    for point in points:
        both = (ts.loss(study, FIRST).values <= point.epsilon) & others
        assert point.n_uncoverable == (~both.any(0)).sum()
        if both.any(0).all():
            assert point.upper == fewest(both)
    assert points[0].n_uncoverable > 0
    assert points[-1].upper is not None


def test_each_demand_is_told(study):
    answer = ts.minimum_cover(study, ALL)
    unmet = unmet_targets(ALL, study, answer.uncoverable)
    parts = [served(study, q) for q in (FIRST, SECOND, THIRD)]
    lost = answer.uncoverable
    expected = [int((~part[:, lost].any(0)).sum()) for part in parts]
    assert list(unmet.values())[:3] == expected
    alone = np.logical_and.reduce([part[:, lost].any(0) for part in parts])
    assert unmet["together"] == alone.sum()


def test_boxes_hold_for_all_of_them():
    stack = FAMILY.stacked(Pi([0.5, 1.5], [0.2, 0.5]))
    costs = ts.Question(all_of=[FIRST, ts.Question("floor", epsilon=4.0)])
    bounds = enclosure_for(FAMILY, stack, np.array([[0.5], [1.5]]), costs)
    assert isinstance(bounds, AllOf)
    edges = np.linspace(0.3, 3.0, 28)
    boxes = Boxes(edges[:-1, None], edges[1:, None])
    low, high = bounds.bounds(boxes)
    inside = np.linspace(boxes.low, boxes.high, 9)  # (place, box, axis)
    rng = np.random.default_rng(0)
    n_served = 0
    for s, b in itertools.product(range(2), range(len(boxes))):
        contexts = inside[:, b]
        cost = -FAMILY.performance(stack[s : s + 1], contexts)[0, 0]
        ratio = cost / -FAMILY.optimum(contexts) - 1
        loss = np.where(cost <= 4.0, ratio, np.inf)
        assert (low[s, b] - 1e-9 <= loss).all()
        assert (loss <= high[s, b] + 1e-9).all()
        n_served += np.isfinite(high[s, b])
    assert 5 < n_served < 2 * len(boxes)
    pairs = bounds.pair_bounds(boxes, rng.integers(0, 2, len(boxes)))
    assert np.isfinite(pairs[1]).any()
    assert (bounds.subset([1]).bounds(boxes)[1] == high[1:]).all()
    # A demand that is left out is found missing.
    alone = enclosure_for(FAMILY, stack, np.array([[0.5], [1.5]]), FIRST)
    assert (alone.bounds(boxes)[1] < high).any()


def test_a_cover_of_the_box_meets_all_of_them(study):
    asked = ts.Question("ratio <= 200 % and cost <= 6")
    result = ts.certify(study, asked, time_limit=20)
    found = {c.name: c for c in result.certificates}
    assert found["continuum cover"].holds
    assert "has a cost of at most 6" in found["continuum cover"].why
    library = ts.library(study, result.continuum)
    assert library.question == asked


def test_a_measure_of_ones_own_claims_nothing_between_targets(study):
    ts.measure("trace", larger_is_better=True)(lambda loop: np.trace(loop.F))
    try:
        own = ts.Question("floor", measure="trace", epsilon=1e9)
        result = ts.certify(study, ts.Question(all_of=[FIRST, own]), time_limit=5)
    finally:
        del MEASURES["trace"]
    found = {c.name: c for c in result.certificates}
    assert found["continuum cover"].kind == "vacuous"
    assert not found["continuum cover"].holds


def test_libraries_serve_what_meets_all(study):
    cover = ts.minimum_cover(study, ALL)
    library = ts.library(study, cover)
    assert library.question == ALL
    served_nodes = np.asarray(library.regions.served)
    assert (served_nodes == (cover.assignment >= 0)).all()


def test_words_and_plain_values():
    assert ts.Question.from_dict(ALL.to_dict()) == ALL
    assert json.loads(json.dumps(ALL.to_dict())) == ALL.to_dict()
    assert ALL.at(0.3).demands[0].epsilon == 0.3
    assert ALL.at(0.3).also == ALL.also
    assert ALL.statement.count(" and ") == 2
    assert ALL != FIRST
    assert ALL.key != FIRST.key
    for wrong in (
        {"all_of": []},
        {"all_of": [FIRST], "epsilon": 0.1},
        {"all_of": [FIRST, "ratio"]},
        {"epsilon": 0.1, "also": (ALL,)},
    ):
        with pytest.raises(InvalidInputError):
            ts.Question(**wrong)


def test_one_policy_of_a_family_must_meet_all_demands():
    gains = np.array([[0.5, 3.0], [1.5, 0.2], [0.3, 2.2]])
    study = ts.evaluate_policies(
        FAMILY, Pi(gains, 0.3 * gains), SPACE, sources=ts.Grid(k=[0.5, 1.0, 2.0])
    )
    # Brute force: every policy as a source of its own, then the best of each family.
    single = ts.evaluate_policies(
        FAMILY, Pi(gains.reshape(-1, 1), 0.3 * gains.reshape(-1, 1)), SPACE
    )
    first, other = (ts.Question(f"{q} best") for q in (FIRST, THIRD))
    asked = ts.Question(all_of=[first, other])
    alone = ts.loss(single, asked).values.reshape(3, 2, -1)
    assert (ts.loss(study, asked).values == alone.min(1)).all()
    each = [ts.loss(study, q).values <= q.epsilon for q in (first, other)]
    together = ts.loss(study, asked).values <= asked.epsilon
    assert (together <= each[0] & each[1]).all()
    assert (together < each[0] & each[1]).any()  # not the same policy for both
    library = ts.library(study, [0, 1, 2], question=asked)
    assert isinstance(library.policies, LinearController)
    assert library.policies.parameters is not None
    served = np.asarray(library.regions.served)
    assert (served == together.any(0)).all()
    for t in np.flatnonzero(served):
        entry = library.entries[int(library.regions.policy[t])]
        member = (
            gains[entry.source]
            .tolist()
            .index(library.policies.parameters[int(library.regions.policy[t])][0])
        )
        assert alone[entry.source, member, t] <= asked.epsilon
    proofs = ts.certify(study, asked, time_limit=2.0).certificates
    assert "one policy per source" in " ".join(c.why for c in proofs)
    # Where a table keeps the best of a family alone, nobody knows whose score it is.
    table = study.table.drop_vars("performance").assign(
        best=study.table["performance"].max("policy"),
        worst=study.table["performance"].min("policy"),
    )
    with pytest.raises(InvalidInputError, match="one policy must meet"):
        ts.loss(table, asked)


def test_a_lipschitz_constant_is_about_one_demand():
    study = ts.evaluate_policies(FAMILY, Pi([0.5], [0.2]), SPACE)
    with pytest.raises(InvalidInputError, match="A Lipschitz constant answers one"):
        ts.certify(study, ALL, rates=1.0)


def test_commands_and_experiments(tmp_path):
    experiment = tmp_path / "demands.toml"
    experiment.write_text(
        """
name = "demands"
seed = 0
ask = "ratio <= 10 % and decay_rate >= 1"
[system]
id = "msd-v1"
[trainer]
id = "lqr"
n_policies = 1
noise = 0.0
[space]
k = [0.5, 4.0, 6]
c = [0.5, 4.0, 6]
"""
    )
    runner, out = CliRunner(), str(tmp_path / "run")
    ran = runner.invoke(app, ["run", str(experiment), "--out", out, "--format", "json"])
    assert ran.exit_code == 0, ran.output
    asked = ["cover", out, "--format", "json"]
    own = runner.invoke(app, [*asked, "--method", "minimum"])
    record = json.loads(own.stdout)
    assert record["ask"] == "ratio <= 10 % and decay_rate >= 1"
    study = ts.open(out)
    both = served(study, ts.Question("ratio <= 10 % and decay_rate >= 1"))
    assert record["size"] == fewest(both)
    demand = ["--ask", "ratio <= 10 % and decay_rate >= 1.5"]
    again = runner.invoke(app, [*asked, *demand])
    assert json.loads(again.stdout)["ask"].endswith("decay_rate >= 1.5")
