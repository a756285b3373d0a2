"""The whole: fewest gains, k gains, studies of them, proofs, refusals."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.designs import DESIGNED, Design
from taskspace.errors import InvalidInputError
from taskspace.systems import ContextAxis, LinearFamily

from ..helpers import four_states
from .plants import LOOSE, exact_loss, small_space
from .test_bound import stabbing_number

MSD = ts.systems.MassSpringDamper()


@pytest.fixture(scope="module")
def made() -> Design:
    return ts.design(MSD, small_space(6), LOOSE.at(0.17), whole=True, time_limit=20)


def test_a_design_needs_no_more_than_its_candidates_and_no_less_than_its_bound(made):
    assert made.lower_bound_all <= made.size <= made.size_candidates
    assert made.worst <= made.epsilon == 0.17
    assert made.cover.size <= made.size
    assert made.cover.is_full
    assert "serve all 36 targets and 1,645 contexts between, " in made.statement
    assert made.n_between == 41**2 - 6**2
    keys = ["size", "lower_bound_all", "k", "epsilon", "gains", "cover"]
    record = json.loads(json.dumps(made.to_dict()))
    assert list(record)[:6] == keys
    assert np.array_equal(record["gains"], made.gains)


def test_the_study_of_a_design_is_like_any_other(made):
    study = made.study
    kinds = study.table["source_kind"].values
    assert (kinds[: made.size] == DESIGNED).all()
    assert study.n_sources == made.size + made.size_candidates
    assert study.provenance == "exact"
    assert study.table.attrs["best_known_kind"] == "optimum"
    np.testing.assert_array_equal(study.policies.gain[: made.size, 0], made.gains)
    assert ts.minimum_cover(study, made.question).size <= made.size
    assert len(ts.complexity_profile(study, made.question, time_limit=5)) > 1
    assert ts.library(study, made.cover).size == made.cover.size


def test_designed_gains_are_proven_between_the_targets_and_hold_by_50_digits(made):
    selection = np.arange(made.size)
    proofs = ts.certify(made.study, made.question, selection=selection, time_limit=20)
    whole = proofs["continuum cover"]
    assert (whole.holds, whole.kind) == (True, "proof")
    rng = np.random.default_rng(0)
    for k, c in rng.uniform(0.5, 4.0, (12, 2)):
        context = np.array([k, c, 1.0])
        losses = [exact_loss(MSD, context, K, made.question) for K in made.gains]
        assert min(losses) <= made.epsilon


def test_k_gains_reach_less_than_any_k_candidates():
    space = small_space(6)
    made = ts.design(MSD, space, LOOSE, k=2, time_limit=2)
    study = ts.evaluate(MSD, ts.trainers.Lqr(1, 0.0), space, seed=0)
    candidates = ts.smallest_epsilon(ts.loss(study, LOOSE).values, 2)
    assert made.size == made.k == 2
    assert made.epsilon < candidates.lower
    assert made.worst == made.epsilon
    assert made.cover.is_full


def test_the_scalar_family_is_designed_to_its_closed_form():
    space = ts.Grid(b=(0.1, 1.0, 60))
    for epsilon in (0.05, 0.3):
        truth = stabbing_number(space.points[:, 0], epsilon)
        question = ts.Question("ratio", epsilon=epsilon)
        made = ts.design(ts.systems.ScalarLqr(), space, question, time_limit=10)
        assert made.size == made.lower_bound_all == truth
        assert made.stop_reason == "proven least of any design"
        assert "least number of any design" in made.statement


def test_the_same_seed_gives_the_same_gains_from_a_study_or_a_system():
    space = small_space(3)
    one, two = (ts.design(MSD, space, LOOSE, seed=1) for _ in range(2))
    np.testing.assert_array_equal(one.gains, two.gains)
    study = ts.evaluate(MSD, ts.trainers.Lqr(1, 0.0), space, seed=0)
    assert ts.design(study, question=LOOSE).size == one.size


def test_structured_gains_keep_their_zeros_to_the_bit():
    mask = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    space = ts.Grid(coupling=(0.1, 1.0, 6))
    question = ts.Question("ratio", epsilon=0.2)
    made = ts.design(four_states(), space, question, mask=mask, time_limit=5)
    assert (made.gains[:, mask == 0].view(np.int64) == 0).all()
    assert "this structure (4 free entries of 8)" in made.bound.statement
    assert made.worst <= 0.2


def test_what_cannot_be_designed_gets_a_sentence():
    unstable = LinearFamily(
        context_axes=[ContextAxis("a", 1.0)],
        A=lambda a: [[a, 0.0], [0.0, -1.0]],
        B=lambda a: [[0.0], [1.0]],  # the unstable mode is out of reach
        Q=np.eye(2),
        R=[[1.0]],
    )
    space = ts.Grid(a=(-1.0, 1.0, 5))
    with pytest.raises(InvalidInputError, match="no gain stabilises it"):
        ts.design(unstable, space, LOOSE)
    floor = ts.Question("floor", epsilon=5.0)
    with pytest.raises(InvalidInputError, match=r"serves 3 of 5 contexts.*a = 0"):
        ts.design(unstable, space, floor)
    margin = ts.Question("floor", measure="disk_margin", epsilon=-0.5)
    for question, words in (
        (ts.Question("signed", epsilon=0.1), "no source to compare with"),
        (LOOSE.measured_with({"k": "3%"}), "known exactly"),
        (margin, "about disk_margin"),
        (ts.Question(all_of=[LOOSE, margin]), "one demand"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            ts.design(MSD, small_space(), question)
    with pytest.raises(InvalidInputError, match="linear families"):
        ts.design(ts.systems.CartPole(), small_space(), LOOSE)
    with pytest.raises(InvalidInputError, match="k >= 1"):
        ts.design(MSD, small_space(), LOOSE, k=0)
    with pytest.raises(InvalidInputError, match="contexts to serve"):
        ts.design(MSD, None, LOOSE)


def test_a_whole_box_in_no_time_claims_nothing_between_the_targets():
    made = ts.design(MSD, small_space(4), LOOSE, whole=True, time_limit=0)
    assert made.n_between == 0
    assert "between" not in made.statement
    assert made.worst <= made.epsilon
    assert made.lower_bound_all <= made.size
    with pytest.raises(InvalidInputError, match="needs a grid"):
        ts.design(MSD, ts.Points(["k"], [[1.0], [2.0]]), LOOSE, whole=True)


@pytest.mark.parametrize("k", [1, 2])
def test_k_gains_for_a_whole_box_print_the_tolerance_that_they_reach_between(k):
    """A plant that varies between its nodes, in closed form on the finer grid."""
    plant = LinearFamily(
        [ContextAxis("x", 0.0)],
        A=lambda x: [[0.5 + np.sin(7 * x)]],
        B=lambda x: [[1.0]],
        Q=[[1.0]],
        R=[[1.0]],
    )
    space, question = ts.Grid(x=(0.0, 3.0, 2)), ts.Question("ratio", epsilon=2.0)
    made = ts.design(plant, space, question, k=k, whole=True, time_limit=3)
    assert made.n_between == 7
    a = 0.5 + np.sin(7 * np.linspace(0.0, 3.0, 9))
    gains = made.gains.reshape(-1, 1)
    with np.errstate(divide="ignore"):
        cost = np.where(gains > a, (1 + gains**2) / (2 * (gains - a)), np.inf)
    losses = (cost / (a + np.sqrt(a * a + 1)) - 1).min(0)
    assert losses.max() <= made.epsilon * (1 + 1e-12)
    if k == 1:  # at the nodes alone it loses less
        assert losses[[0, -1]].max() < 0.9 * losses.max()
