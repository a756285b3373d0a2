"""Statements of confidence: error rates on known means, and what they are for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

import taskspace as ts
from taskspace.certificates import (
    BettingTests,
    certify,
    check_on_fresh_episodes,
    law_of,
    served_share,
    share_bound,
)
from taskspace.certificates.fresh import CERTIFIED, REFUTED, UNDECIDED
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.systems import ContextAxis
from taskspace.systems.episodic import EpisodicSystem
from tests.certificates.worlds import MSD

LEVEL = 0.05
REPEATS = 3000


def bernoulli(p):
    return lambda rng, shape: (rng.random(shape) < p).astype(float)


def spikes(rng, shape):
    """Mean 0.9: mostly a little above it, rarely 0. Hard for a normal approximation."""
    return np.where(rng.random(shape) < 0.01, 0.0, 0.9 / 0.99)


STREAMS = {
    "fair coin": (bernoulli(0.5), 0.5),
    "rare failure": (bernoulli(0.98), 0.98),
    "rare success": (bernoulli(0.02), 0.02),
    "spikes": (spikes, 0.9),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5),
    "beta": (lambda rng, shape: rng.beta(8, 2, shape), 0.8),
    "constant": (lambda rng, shape: np.full(shape, 0.7), 0.7),
}


def bernstein_bounds(samples, level):
    """An independent confidence sequence: empirical Bernstein, predictable plug-in.

    Waudby-Smith and Ramdas, theorem 2; dims (stream, sample).
    """
    t = np.arange(1, samples.shape[1] + 1)
    before = np.zeros_like(samples)
    mean = (0.5 + samples.cumsum(1)) / (t + 1)
    before[:, 1:] = mean[:, :-1]
    before[:, 0] = 0.5
    variance = (0.25 + ((samples - mean) ** 2).cumsum(1)) / (t + 1)
    known = np.concatenate([np.full((len(samples), 1), 0.25), variance[:, :-1]], 1)
    bet = np.sqrt(2 * np.log(2 / level) / (known * t * np.log(1 + t)))
    bet = np.minimum(bet, 0.5)
    price = -np.log1p(-bet) - bet
    weight = bet.cumsum(1)
    spread = np.log(2 / level) + ((samples - before) ** 2 * price).cumsum(1)
    centre = (bet * samples).cumsum(1) / weight
    return centre - spread / weight, centre + spread / weight


def run(stream, threshold, *, n=REPEATS, length=256, level=LEVEL, seed=0):
    rng = np.random.default_rng(seed)
    tests = BettingTests(np.full(n, threshold), above=level, below=level)
    tests.update(np.arange(n), stream(rng, (n, length)))
    return tests


@pytest.mark.parametrize("name", STREAMS)
def test_errors_are_no_more_frequent_than_their_level(name):
    stream, mean = STREAMS[name]
    # At most the level, and three standard errors for the luck of this test.
    allowed = LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / REPEATS)
    exact = run(stream, mean)
    assert exact.is_below.mean() <= allowed  # the mean is at least m
    nearly = run(stream, np.nextafter(mean, 1))
    assert nearly.is_above.mean() <= allowed  # the mean is below m, just


def test_the_check_of_error_rates_can_fail():
    # Negative control: a normal approximation looked at after every sample.
    rng = np.random.default_rng(0)
    samples = bernoulli(0.5)(rng, (2000, 400))
    t = np.arange(1, 401)
    mean = samples.cumsum(1) / t
    error = 0.5 / np.sqrt(t)
    peeked = (mean - stats.norm.ppf(1 - LEVEL) * error > 0.5)[:, 10:].any(1)
    assert peeked.mean() > 3 * LEVEL


@pytest.mark.parametrize("name", ["rare failure", "spikes", "beta"])
def test_tests_agree_with_an_independent_confidence_sequence(name):
    stream, mean = STREAMS[name]
    rng = np.random.default_rng(1)
    samples = stream(rng, (200, 3000))
    low, high = bernstein_bounds(samples, LEVEL)
    covered = (low <= mean).all(1) & (mean <= high).all(1)
    assert covered.mean() >= 1 - LEVEL - 0.05
    # Far from the mean both decide, the same way, and betting no later.
    for threshold, is_above in ((mean - 0.05, True), (min(mean + 0.05, 0.999), False)):
        tests = BettingTests(np.full(200, threshold), above=LEVEL / 2, below=LEVEL / 2)
        tests.update(np.arange(200), samples)
        assert (tests.is_above == is_above).mean() > 0.95
        decided = (low > threshold if is_above else high < threshold).argmax(1) + 1
        reached = (low[:, -1] > threshold) if is_above else (high[:, -1] < threshold)
        assert np.median(tests.n_samples[reached]) <= np.median(decided[reached])


def test_sure_streams_take_as_many_samples_as_the_theory_says():
    # 400 targets, confidence 99.9 %: ln(4e5) / ln(1/m) samples at the very least.
    for threshold in (0.99, 0.95):
        tests = run(
            lambda rng, shape: np.ones(shape),
            threshold,
            n=1,
            length=3000,
            level=1e-3 / 400,
        )
        least = np.log(4e5) / -np.log(threshold)
        assert tests.is_above.all()
        assert least <= tests.n_samples[0] <= 1.15 * least


def test_edges_of_the_range():
    tests = BettingTests([0.0, 1.0, 1.0], above=0.01, below=0.01)
    assert tests.is_above.tolist() == [True, False, False]
    tests.update(np.array([1, 2]), np.array([[1.0] * 50, [1.0, 0.9] * 25]))
    assert tests.is_below.tolist() == [False, False, True]
    assert not tests.is_above[1]  # all ones never prove a mean of 1
    with pytest.raises(InvalidInputError, match="Samples must lie in"):
        tests.update(np.array([1]), np.array([[1.5]]))
    with pytest.raises(InvalidInputError, match="Thresholds must lie in"):
        BettingTests([1.5], above=0.1, below=0.1)


# --- shares -------------------------------------------------------------------------


def test_clopper_pearson_is_the_textbooks():
    assert share_bound(688, 688, 0.999) > 0.99 > share_bound(687, 687, 0.999)
    assert share_bound(0, 10, 0.99) == 0.0
    interval = stats.binomtest(90, 100).proportion_ci(0.98, method="exact")
    assert share_bound(90, 100, 0.99) == pytest.approx(interval.low)
    with pytest.raises(InvalidInputError, match="0 < confidence < 1"):
        share_bound(1, 2, 1.0)
    with pytest.raises(InvalidInputError, match="0 <= n_good <= n"):
        share_bound(3, 2, 0.9)


LINE = ts.Points(["x"], [0.0, 1.0])
QUESTION = ts.Question("floor", epsilon=1.0)


@pytest.mark.parametrize("time_limit", [None, 60.0])  # one look, or several
@pytest.mark.parametrize("truth", [0.75, 0.79, 0.95])
def test_share_bounds_are_wrong_no_more_often_than_stated(time_limit, truth):
    level, wrong = 0.1, 0
    repeats = 300
    for seed in range(repeats):
        found = served_share(
            lambda rows, before: rows[:, 0] < truth,
            law_of("uniform", LINE),
            QUESTION,
            confidence=1 - level,
            seed=seed,
            n_samples=300,
            time_limit=time_limit,
        )
        wrong += found.values["share"] > truth
    assert wrong <= repeats * level + 3 * np.sqrt(repeats * level)


def test_a_share_counts_what_failed():
    found = served_share(
        lambda rows, before: rows[:, 0] < 0.9,
        law_of("uniform", LINE),
        QUESTION,
        n_samples=688,
        seed=0,
    )
    assert found.values["n_samples"] == 688
    assert found.values["n_failed"] > 30
    assert all(c["x"] >= 0.9 for c in found.values["failing_contexts"])
    assert "At least 8" in found.why
    with pytest.raises(InvalidInputError, match="n_samples=0"):
        served_share(
            lambda r, b: r > 0, law_of("uniform", LINE), QUESTION, n_samples=0, seed=0
        )


def test_laws():
    rng = np.random.default_rng(0)
    space = ts.Grid(a=(1.0, 100.0, 3), b=(2.0, 3.0, 2))
    even = law_of("uniform", space).sample(4000, rng)
    assert even.min(0) == pytest.approx([1, 2], abs=0.1)
    assert np.median(even[:, 0]) == pytest.approx(50, abs=3)
    log = law_of("loguniform", space).sample(4000, rng)
    assert np.median(log[:, 0]) == pytest.approx(10, rel=0.1)
    with pytest.raises(InvalidInputError, match=r"one of scipy\.stats"):
        law_of("normal", space)
    with pytest.raises(InvalidInputError, match="contexts above 0"):
        law_of("loguniform", LINE)


def test_a_number_of_samples_without_a_distribution_is_refused():
    with pytest.raises(InvalidInputError, match="distribution='uniform'"):
        ts.certify(ts.study_from(np.zeros((2, 2))), "regret <= 1", n_samples=5)


def test_a_confidence_that_is_none_is_refused_before_any_work():
    for wrong in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="confidence"):
            ts.certify(ts.study_from(np.zeros((2, 2))), "regret <= 1", confidence=wrong)


def test_certify_draws_for_exact_systems_and_plain_functions():
    space = ts.Grid(k=(0.1, 8.0, 6), c=(0.1, 8.0, 6))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    study = ts.evaluate(MSD, trainer, space, seed=0)
    question = ts.Question("regret", epsilon=0.5)
    # A slow machine draws all of them too.
    options = {"distribution": "uniform", "n_samples": 700}
    result = certify(study, question, **options, time_limit=30)
    share = result["share of contexts"].values
    assert share["share"] > 0.98  # the continuum is covered for certain here
    assert share["n_failed"] == 0
    question = ts.Question("regret", epsilon=0.05)
    few = certify(study, question, distribution="loguniform", time_limit=4)
    assert few["share of contexts"].values["share"] < 0.99

    def score(context, policy):
        return -abs(context["x"] - policy)

    line = ts.Points(["x"], [0.0, 1.0, 2.0])
    system = ts.systems.FunctionSystem(score, [ContextAxis("x", 0.0)])
    policies = ts.systems.PythonPolicies([0.5, 2.0])
    table = ts.evaluate_policies(system, policies, line).table
    table = table.assign_coords(source_x=("source", [0.5, 2.0]))
    question = ts.Question("floor", epsilon=0.6)
    found = asked(system, policies, table, question, **options, time_limit=4)
    values = found["share of contexts"].values
    # x in (1.1, 1.5) gets the source 0.5 of its nearest target: 20 % of [0, 2] fail.
    assert 0.7 < values["share"] < 0.8
    assert all(1.1 <= c["x"] <= 1.5 for c in values["failing_contexts"])
    assert found["share of contexts"].kind == "confidence"
    assert "proof" not in {c.kind for c in found.certificates}


# --- fresh episodes -----------------------------------------------------------------


@dataclass(frozen=True)
class Lottery(EpisodicSystem):
    """Returns in [0, 1] with a known mean: each policy's gain says how good it is.

    An episode pays 1 with probability `mean(policy, context)`, by its own number, its
    policy and its context: common random numbers where the policies are the same.
    """

    horizon: int = 1
    n_episodes: int = 16
    episode_seed: int = 0
    bounded: bool = True
    id: ClassVar[str] = "lottery"

    @property
    def axes(self):
        return (ContextAxis("x", 0.0),)

    def return_bounds(self, contexts):
        return np.tile([0.0, 1.0], (len(contexts), 1)) if self.bounded else None

    def mean(self, gains, contexts):
        return np.clip(1 - np.abs(gains[..., None] - contexts[:, 0]), 0, 1)

    def returns(
        self, policies: Policy, contexts, *, episodes: Sequence[int] | None = None
    ):
        assert isinstance(policies, LinearGain)
        gains = policies.gain[..., 0, 0]
        numbers = self.episode_numbers(episodes)
        p = self.mean(gains, contexts)[..., None]
        draws = np.stack(
            [
                np.random.default_rng([self.episode_seed, int(e)]).random(
                    (64, 1, len(contexts))
                )[np.round(gains * 1e6).astype(int) % 64, 0]
                for e in numbers
            ],
            axis=-1,
        )
        return (draws < p).astype(np.float32)


def lottery(gains, xs, **options):
    """Table and policies of a lottery with one policy a source."""
    system = Lottery(**options)
    policies = LinearGain(np.asarray(gains, float).reshape(-1, 1, 1, 1))
    targets = ts.Points(["x"], xs)
    sources = ts.Points(["x"], np.asarray(gains, float))
    table = ts.evaluate_policies(system, policies, targets, sources=sources).table
    return system, policies, table


def asked(system, policies, table, question, **options):
    """What `certify` says of a table, its system and its policies."""
    study = ts.Study.of(table, system=system, policies=policies)
    return certify(study, question, **options)


def test_targets_are_certified_refuted_or_undecided():
    system, policies, table = lottery([0.0, 1.0], [0.0, 0.05, 0.4, 1.0])
    question = ts.Question("floor", epsilon=-0.8)  # a mean of at least 0.8
    # Targets 0, 0.05 and 1 have means 1, 0.95, 1 by their source; 0.4 has 0.6.
    found = check_on_fresh_episodes(
        table, question, np.array([0, 0, 0, 1]), system, policies, max_episodes=2000
    )
    assert found.status.tolist() == [CERTIFIED, CERTIFIED, REFUTED, CERTIFIED]
    certificate = found.certificate
    assert certificate.kind == "confidence"
    assert not certificate.holds
    assert certificate.values["n_certified"] == 3
    assert certificate.values["refuted_contexts"] == [{"x": 0.4}]
    assert certificate.values["confidence"] == 0.999
    assert (found.n_episodes > 0).all()
    assert certificate.values["episodes"] == found.n_episodes.sum()
    none = check_on_fresh_episodes(
        table, question, np.array([0, 0, 0, 1]), system, policies, max_episodes=3
    )
    assert (none.status == UNDECIDED).all()
    assert none.certificate.kind == "vacuous"
    unserved = check_on_fresh_episodes(
        table, question, np.array([0, 0, -1, 1]), system, policies
    )
    assert unserved.status[2] == UNDECIDED
    assert unserved.n_episodes[2] == 0


@pytest.mark.parametrize("criterion", ["signed", "regret", "floor"])
def test_every_criterion_has_its_threshold(criterion):
    system, policies, table = lottery([0.3, 1.0], [0.3, 0.4, 0.9])
    epsilon = -0.7 if criterion == "floor" else 0.3
    question = ts.Question(criterion, epsilon=epsilon)
    # Means of source 0: 1, 0.9 and 0.4; at home 1, and the best known is about 1.
    found = check_on_fresh_episodes(
        table, question, np.array([0, 0, 0]), system, policies, max_episodes=3000
    )
    assert found.status.tolist() == [CERTIFIED, CERTIFIED, REFUTED]
    assert found.certificate.values["sources"] == [0]


@pytest.mark.parametrize(("judge", "status"), [("worst", REFUTED), ("best", CERTIFIED)])
def test_families_are_judged(judge, status):
    system = Lottery()
    policies = LinearGain(np.array([[[[0.0]], [[0.7]]]]))
    targets = ts.Points(["x"], [0.0])
    table = ts.evaluate_policies(system, policies, targets, sources=targets).table
    question = ts.Question("floor", judge, epsilon=-0.8)
    found = check_on_fresh_episodes(
        table, question, np.array([0]), system, policies, max_episodes=2000
    )
    assert found.status[0] == status


def test_unbounded_returns_give_no_confidence():
    system, policies, table = lottery([0.0], [0.0], bounded=False)
    question = ts.Question("floor", epsilon=-0.5)
    with pytest.raises(InvalidInputError, match="needs bounded returns"):
        check_on_fresh_episodes(table, question, np.array([0]), system, policies)
    result = asked(system, policies, table, question, time_limit=1)
    assert result["fresh episodes"].kind == "vacuous"


def test_confidence_is_kept_over_repetitions():
    # All at the threshold or just below: at most 10 % of repetitions may certify any.
    wrong = 0
    for seed in range(60):
        system, policies, table = lottery(
            [0.21, 0.212, 0.214], [0.0, 0.001, 0.002], episode_seed=seed
        )
        question = ts.Question("floor", epsilon=-0.8)
        found = check_on_fresh_episodes(
            table,
            question,
            np.array([0, 1, 2]),
            system,
            policies,
            confidence=0.9,
            max_episodes=256,
        )
        wrong += bool((found.status == CERTIFIED).any())
    assert wrong <= 6 + 3 * np.sqrt(6)


def test_the_winners_curse_is_shown_and_removed():
    # Forty sources of mean 0.7 everywhere: the table is pure noise around it.
    gains = 0.3 + 1e-6 * np.arange(40)
    system, policies, table = lottery(gains, [0.0, 1e-9, 2e-9], n_episodes=16)
    question = ts.Question("floor", epsilon=-0.85)  # nobody manages 0.85
    result = asked(system, policies, table, question, max_episodes=2048, time_limit=10)
    # Shown: selection believes that lucky sources serve every target ...
    assert result["grid cover"].holds
    assert result["grid cover"].kind == "estimate"
    assert result["grid cover"].scope == "the estimated table"
    # ... removed: on fresh episodes none does.
    fresh = result["fresh episodes"]
    assert not fresh.holds
    assert fresh.values["n_certified"] == 0
    assert fresh.values["n_refuted"] == 3
    assert "proof" not in {c.kind for c in result.certificates}


def test_a_law_of_ones_own():
    found = served_share(
        lambda rows, before: rows[:, 0] < 0.9,
        law_of({"x": stats.triang(0)}, LINE),
        QUESTION,
        n_samples=1000,
        seed=0,
    )
    assert 0.97 < found.values["share"] < 0.99
    assert "drawn with x ~ triang" in found.why


def test_undecided_targets_are_named_with_the_episodes_they_need():
    system, policies, table = lottery([0.0, 1.0], [0.0, 0.15, 0.22, 1.0])
    question = ts.Question("floor", epsilon=-0.8)  # means are 1, 0.85, 0.78, 1
    selected = np.array([0, 0, 0, 1])
    short = check_on_fresh_episodes(
        table, question, selected, system, policies, max_episodes=256
    )
    assert short.status.tolist() == [CERTIFIED, UNDECIDED, UNDECIDED, CERTIFIED]
    said = short.certificate.why
    assert "Undecided: x = 0.15; x = 0.22." in said
    needed = short.certificate.values["n_expected_episodes"]
    assert 256 < needed < 100_000
    # As many decide both, within a factor of the luck of the first 256.
    enough = check_on_fresh_episodes(
        table, question, selected, system, policies, max_episodes=int(4 * needed)
    )
    assert enough.status.tolist() == [CERTIFIED, CERTIFIED, REFUTED, CERTIFIED]
    assert "Undecided" not in enough.certificate.why


def test_expected_samples_are_those_of_a_steady_stream():
    """A stream of one value wins the same at each sample: no luck in it."""
    tests = BettingTests([0.5, 0.5], above=1e-3, below=1e-3)
    streams = np.arange(2)
    tests.update(streams, np.tile([[0.6], [0.4]], 8))
    assert tests.is_open.all()
    above, below = tests.expected_samples()
    assert np.isinf(above[1])
    assert np.isinf(below[0])
    np.testing.assert_allclose(above[0], below[1])
    tests.update(streams, np.tile([[0.6], [0.4]], 2000))
    assert tests.is_above.tolist() == [True, False]
    assert tests.is_below.tolist() == [False, True]
    # One bet alone reaches the goal no sooner than all of them together.
    assert 0.8 * above[0] <= tests.n_samples[0] <= np.ceil(above[0])
