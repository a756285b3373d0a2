"""The criterion for every initial state: closed forms, units, 50 digits, boxes."""

import json
import sys

import mpmath as mp
import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import certify
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    LinearEnclosure,
    enclosure_for,
)
from taskspace.deploy.trial.trial import try_library
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.show.page.build import collect
from taskspace.systems import LinearFamily, MassSpringDamper, Pendulum, ScalarLqr
from tests.certificates.exact import cost_matrix, every_start, least_matrix
from tests.certificates.plants import PLANTS, axes
from tests.helpers import taskspace

MEASURES = ["every_start"]
# The function of the same name hides the module.
WORK = sys.modules["taskspace.performance.work"]
SPACE = ts.Grid(k=(0.5, 4.0, 4), c=(0.5, 4.0, 3))


def lqr_table(system, space=SPACE, **options):
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    return ts.evaluate(
        system, trainer, space, seed=0, measures=MEASURES, **options
    ).table


def stack(system, contexts):
    return LinearGain(system.optimal_gain(contexts)[0][:, None])


def test_one_state_has_a_closed_form():
    """P_K / P* − 1, and no difference to `ratio`: there is one initial state."""
    space = ts.Grid(b=(0.3, 1.0, 6))
    table = lqr_table(ScalarLqr(), space)
    b = space.points[:, 0]
    k = (1 + np.sqrt(1 + b**2)) / b  # of Q = R = a = 1
    least = (1 + np.sqrt(1 + b**2)) / b**2
    with np.errstate(divide="ignore"):
        cost = (1 + k[:, None] ** 2) / (2 * (b * k[:, None] - 1))
    wanted = np.where(b * k[:, None] > 1, cost / least - 1, np.inf)
    found = ts.loss(table, ts.Question("every_start", epsilon=0.0)).values
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(
        found, ts.loss(table, ts.Question("ratio", epsilon=0.0)).values, atol=1e-14
    )


@pytest.mark.parametrize("name", PLANTS)
def test_table_agrees_with_fifty_digits(name):
    system, low, high = PLANTS[name]
    rng = np.random.default_rng(1)
    contexts = np.exp(rng.uniform(np.log(low), np.log(high), (3, len(low))))
    gains = system.optimal_gain(contexts[:2])[0] * [[[1.0]], [[1.2]]]
    scores = system.scores("every_start", LinearGain(gains[:, None]), contexts)
    for i in range(2):
        for j in range(3):
            true = float(every_start(system, gains[i], contexts[j]))
            assert -scores[i, 0, j] == pytest.approx(true, rel=1e-8, abs=1e-13)


def test_average_hides_what_the_worst_start_loses():
    table = lqr_table(MassSpringDamper())
    average, worst = (
        ts.loss(table, ts.Question(c, epsilon=0.0)).values
        for c in ("ratio", "every_start")
    )
    assert (worst >= average - 1e-12).all()
    assert (worst > 1.5 * average).sum() > 20


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_units_of_the_states_do_not_matter(time):
    """x → Tx changes neither table nor bounds; `ratio` with Σ = I changes."""
    plant = PLANTS["spring" if time == "continuous" else "discrete"][0]
    rng = np.random.default_rng(0)
    T = np.diag([1e-5, 1e4]) @ (np.eye(2) + 0.3 * rng.normal(size=(2, 2)))
    back = np.linalg.inv(T)
    inverse = back.tolist()
    other = LinearFamily(
        plant.context_axes,
        A=lambda k, c: T @ np.array(plant.A(k=k, c=c)) @ np.array(inverse),
        B=lambda k, c: T @ np.array(plant.B(k=k, c=c)),
        Q=back.T @ np.asarray(plant.Q) @ back,
        R=plant.R,
        time=time,
    )
    contexts = plant.contexts(SPACE)
    gains = stack(plant, contexts)
    moved = LinearGain(gains.gain @ back)
    here = plant.scores("every_start", gains, contexts)
    there = other.scores("every_start", moved, contexts)
    np.testing.assert_allclose(here, there, rtol=1e-7, atol=1e-12)
    mean = [
        f.performance(g, contexts) / f.optimum(contexts) - 1
        for f, g in ((plant, gains), (other, moved))
    ]
    assert np.abs(mean[0] - mean[1]).max() > 0.1
    boxes = Boxes(np.array([[1.0, 1.0]]), np.array([[1.05, 1.04]]))
    bounds = [
        LinearEnclosure(f, g, contexts, ts.Question("every_start", epsilon=0.0)).bounds(
            boxes
        )
        for f, g in ((plant, gains), (other, moved))
    ]
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-4, atol=1e-6)


def test_no_initial_state_exceeds_a_proven_bound():
    """x₀ᵀ P_K x₀ ≤ (1 + ε) x₀ᵀ P* x₀ with 50 digits; `ratio` bounds are refuted."""
    system, low, high = PLANTS["spring"]
    rng = np.random.default_rng(2)
    sources = np.exp(rng.uniform(np.log(low), np.log(high), (3, 2)))
    gains = stack(system, sources)
    corner = np.exp(rng.uniform(np.log(low), np.log(high), (4, 2)))
    boxes = Boxes(corner, 1.02 * corner)
    high_of = {
        criterion: LinearEnclosure(
            system, gains, sources, ts.Question(criterion, epsilon=0.0)
        ).bounds(boxes)[1]
        for criterion in ("every_start", "ratio")
    }
    exceeded = dict.fromkeys(high_of, 0)
    for b in range(len(boxes)):
        context = boxes.low[b] + rng.uniform(size=2) * (boxes.high[b] - boxes.low[b])
        least = least_matrix(system, context)
        for s in range(len(sources)):
            p = cost_matrix(system, gains.gain[s, 0], context)
            for _ in range(30):
                start = mp.matrix(rng.normal(size=2).tolist())
                here, best = ((start.T * m * start)[0] for m in (p, least))
                for criterion, bound in high_of.items():
                    exceeded[criterion] += here > (1 + mp.mpf(bound[s, b])) * best
    assert exceeded["every_start"] == 0
    assert exceeded["ratio"] > 50


def test_scalar_boxes_are_those_of_ratio():
    system = ScalarLqr()
    sources = system.contexts(ts.Grid(b=(0.3, 1.0, 4)))
    gains = stack(system, sources)
    boxes = Boxes(
        np.array([[0.5, 0.9], [0.6, 1.0]]), np.array([[0.52, 1.0], [0.61, 1.0]])
    )
    found = {
        criterion: enclosure_for(
            system, gains, sources, ts.Question(criterion, epsilon=0.0)
        ).bounds(boxes)
        for criterion in ("every_start", "ratio")
    }
    for one, two in zip(found["every_start"], found["ratio"], strict=True):
        np.testing.assert_allclose(one, two, rtol=0.01)


def test_points_are_enclosed_tightly():
    """At a point both ends are the loss itself, to rounding."""
    system = MassSpringDamper()
    contexts = system.contexts(SPACE)
    gains = stack(system, contexts)
    low, high = enclosure_for(
        system, gains, contexts, ts.Question("every_start", epsilon=0.0)
    ).bounds(Boxes.points(contexts))
    table = -system.scores("every_start", gains, contexts)[:, 0]
    assert (low <= table + 1e-9).all()
    assert (table <= high + 1e-9).all()
    assert (high - low).max() < 1e-8


def test_families_and_their_judges(monkeypatch):
    trainer = ts.trainers.Lqr(n_policies=3, noise=0.2)
    system = MassSpringDamper()
    full = ts.evaluate(system, trainer, SPACE, seed=0, measures=MEASURES).table
    members = -full["every_start"].values
    worst, best = (
        ts.loss(full, ts.Question("every_start", j, epsilon=0.0)).values
        for j in ("worst", "best")
    )
    np.testing.assert_array_equal(worst, members.max(1))
    np.testing.assert_array_equal(best, members.min(1))
    monkeypatch.setattr(WORK, "FULL_TABLE_CELLS", 10)
    reduced = ts.evaluate(system, trainer, SPACE, seed=0, measures=MEASURES).table
    assert "performance" not in reduced
    for judge, wanted in (("worst", worst), ("best", best)):
        found = ts.loss(reduced, ts.Question("every_start", judge, epsilon=0.0)).values
        np.testing.assert_array_equal(found, wanted)


def test_a_table_gets_the_score_later():
    system, trainer = MassSpringDamper(), ts.trainers.Lqr(n_policies=1, noise=0.0)
    plain = ts.evaluate(system, trainer, SPACE, seed=0).table
    with pytest.raises(InvalidInputError, match=r"measures=\['every_start'\]"):
        ts.loss(plain, ts.Question("every_start", epsilon=0.0))
    gains = stack(system, system.contexts(SPACE))
    later = ts.Study.of(plain, system=system, policies=gains)
    assert later.scored("every_start", "worst").provenance == "exact"
    np.testing.assert_array_equal(
        ts.loss(later, ts.Question("every_start", epsilon=0.0)),
        ts.loss(lqr_table(system), ts.Question("every_start", epsilon=0.0)),
    )


def test_what_has_no_such_score_is_refused():
    finite = MassSpringDamper(horizon=5.0)
    gains = stack(MassSpringDamper(), finite.contexts(SPACE))
    with pytest.raises(InvalidInputError, match="infinite horizon"):
        finite.scores("every_start", gains, finite.contexts(SPACE))
    with pytest.raises(InvalidInputError, match="linear systems"):
        Pendulum().scores("every_start", gains, np.zeros((1, 1)))
    # A state that costs nothing: the quotient has no meaning.
    blind = LinearFamily(
        axes("k"),
        A=lambda k: [[-k, 0], [0, -1]],
        B=lambda k: [[1], [0]],
        Q=np.diag([1.0, 0.0]),
        R=[[1.0]],
    )
    table = lqr_table(blind, ts.Grid(k=(0.5, 2.0, 3)))
    with pytest.raises(InvalidInputError, match="some initial state costs nothing"):
        ts.loss(table, ts.Question("every_start", epsilon=0.0))


def test_unstable_loops_lose_everything():
    plant = PLANTS["unstable"][0]
    contexts = plant.contexts(ts.Grid(k=(0.5, 9.0, 3), c=(0.2, 8.0, 3)))
    gains = stack(plant, contexts)
    excess = -plant.scores("every_start", gains, contexts)[:, 0]
    failed = np.isneginf(plant.performance(gains, contexts)[:, 0])
    assert failed.any()
    np.testing.assert_array_equal(np.isinf(excess), failed)


def test_certify_proves_every_start_on_the_whole_box():
    system = MassSpringDamper()
    space = ts.Grid(k=(1.0, 3.5, 6), c=(1.0, 3.5, 6))
    contexts = system.contexts(space)
    gains = stack(system, contexts)
    question = ts.Question("every_start", epsilon=0.06)
    result = certify(
        ts.Study.of(lqr_table(system, space), system=system, policies=gains),
        question,
        time_limit=60,
    )
    proof = result.certificates[-1]
    assert (proof.holds, proof.kind) == (True, "proof")
    assert "from every initial state" in proof.why
    chosen = proof.values["sources"]
    rng = np.random.default_rng(0)
    inside = np.c_[rng.uniform(1, 3.5, (200, 2)), np.ones(200)]
    lost = -system.scores("every_start", gains[chosen], inside)[:, 0]
    assert lost.min(0).max() <= 0.06
    # On average it takes fewer gains: the two questions are not the same.
    average = ts.minimum_cover(
        ts.Question("ratio", epsilon=0.06).sets(lqr_table(system, space))
    )
    assert average.size < len(chosen)


def test_select_library_and_page():
    """Everything that asks a question takes this one."""
    system, trainer = MassSpringDamper(), ts.trainers.Lqr(n_policies=1, noise=0.0)
    question = ts.Question("every_start", epsilon=0.1)
    table = lqr_table(system)
    cover = ts.minimum_cover(question.sets(table))
    gains = stack(system, system.contexts(SPACE))
    plain = ts.evaluate(system, trainer, SPACE, seed=0).table
    for known in (table, plain):
        library = ts.library(
            ts.Study.of(known, system=system, policies=gains), cover, question
        )
        assert (library.guarantee.kind, library.regions.served.all()) == ("proof", True)
    trial = try_library(library, system, n_contexts=50)
    assert trial.contenders[0].within is not None
    computed = ts.evaluate(system, trainer, SPACE, seed=0, computed=True)
    assert question.sets(computed) == question.sets(table)
    chosen = ts.select(system, trainer, SPACE, question, seed=0)
    assert chosen.coverage == 1.0
    layers = collect(table, [question], n_steps=3).header["layers"]
    assert layers[0]["criterion"] == "every_start"
    assert layers[0]["loss"]["formula"] == "negative"


def test_commands_compute_the_score_where_a_run_lacks_it(tmp_path):
    """An experiment that asks for it stores it; any other run gets it when asked."""
    text = """
name = "springs"
seed = 0
[system]
id = "msd-v1"
[trainer]
id = "lqr"
n_policies = 1
noise = 0.0
[space]
k = [0.5, 4.0, 4]
c = [0.5, 4.0, 3]
[[criteria]]
criterion = "CRITERION"
judge = "worst"
epsilon = [0.1]
[cover]
methods = ["minimum"]
"""
    found = {}
    for criterion in ("every_start", "ratio"):
        file = tmp_path / f"{criterion}.toml"
        file.write_text(text.replace("CRITERION", criterion))
        out = tmp_path / criterion
        assert taskspace("run", str(file), "--out", str(out)).returncode == 0
        asked = ["--criterion", "every_start", "--epsilon", "0.1", "--format", "json"]
        done = taskspace("cover", str(out), *asked)
        found[criterion] = json.loads(done.stdout)["sources"]
        held = "every_start" in ts.open(out).table
        assert held == (criterion == "every_start")
    assert found["every_start"] == found["ratio"]
