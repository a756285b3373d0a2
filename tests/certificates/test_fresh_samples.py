"""Which samples judge: never those on which the selection was chosen or changed."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

import taskspace as ts
from taskspace.certificates import (
    check_on_fresh_episodes,
    law_of,
    play_pilot,
    served_share,
    share_bound,
)
from taskspace.certificates import draws as chance
from taskspace.certificates.fresh import CERTIFIED, REFUTED, UNDECIDED
from taskspace.certificates.identity import sample_seed
from taskspace.policies import LinearGain, Mlp, Policy
from taskspace.systems import (
    ContextAxis,
    EpisodicSystem,
    FunctionSystem,
    PythonPolicies,
)
from taskspace.systems.episodic import FIRST_FRESH, FIRST_TRAINING, random_episodes
from tests.certificates.test_confidence import LINE, QUESTION, Lottery, asked, lottery

FLOOR = ts.Question("floor", epsilon=-0.8)


# --- seeds --------------------------------------------------------------------------


def test_seeds_tell_everything_apart():
    parts = [
        0,
        0.0,
        False,
        None,
        "0",
        b"0",
        [0],
        [[0]],
        [0, 0],
        {"a": 0},
        np.zeros(1),
        np.zeros((1, 1)),
        np.zeros(1, np.float32),
        np.zeros(2),
        LinearGain(np.zeros((1, 1, 1, 1))),
        LinearGain(np.ones((1, 1, 1, 1))),
        PythonPolicies([0.0]),
        PythonPolicies([[0.0, 0.0]]),
        *(
            Mlp((np.zeros((1, 1, 2, 2)),), (np.zeros((1, 1, 2)),), head=head)
            for head in ("argmax", "clip")
        ),
    ]
    seeds = [sample_seed(part) for part in parts]
    assert len(set(seeds)) == len(parts)
    assert seeds == [sample_seed(part) for part in parts]
    assert sample_seed("ab", "c") != sample_seed("a", "bc")
    assert sample_seed({"a": 1, "b": 2}) == sample_seed({"b": 2, "a": 1})


def test_what_cannot_be_compared_is_drawn_anew():
    for part in (print, [len], {"a": object()}, PythonPolicies([lambda x: x])):
        assert sample_seed(part) != sample_seed(part)


def test_random_episodes_are_kept_for_judging_and_spread():
    numbers = np.array(random_episodes(5, 4000))
    assert numbers.min() >= FIRST_FRESH
    assert numbers.max() < FIRST_TRAINING
    share = (numbers - FIRST_FRESH) / (FIRST_TRAINING - FIRST_FRESH)
    counts = np.histogram(share, 10, (0, 1))[0]
    assert ((counts - 400) ** 2 / 400).sum() < 27.9  # chi-squared, one in a thousand
    assert not set(numbers) & set(random_episodes(6, 4000))
    assert random_episodes(5, 10, first=90) == numbers[90:100].tolist()


# --- a selection that was changed after its samples were seen ------------------------


def hard_end(context, home):
    """Served everywhere but in the last 5 %, where only a policy at home serves."""
    x = context["x"]
    return 1.0 if x < 0.95 or abs(x - home) < 1e-6 else 0.0


def test_failing_contexts_that_become_targets_do_not_flatter_the_share():
    system = FunctionSystem(hard_end, [ContextAxis("x", 0.0)])
    points, found = np.linspace(0, 1, 21), []
    for _ in range(2):
        space = ts.Points(["x"], points[:, None])
        policies = PythonPolicies(points.tolist())
        table = ts.evaluate_policies(system, policies, space, sources=space).table
        question = ts.Question("floor", epsilon=-1.0)
        options = {"distribution": "uniform", "n_samples": 688}
        result = asked(system, policies, table, question, **options)
        share = result["share of contexts"].values
        assert share["share"] < 0.95  # the truth, but for 1e-5
        failures = [context["x"] for context in share["failing_contexts"]]
        found.append({*failures})
        points = np.unique(np.r_[points, failures])
    assert len(found[0]) > 10
    assert len(found[1]) > 10
    assert not found[0] & found[1]


@dataclass(frozen=True)
class Memory(EpisodicSystem):
    """Policies are numbers of episodes that they know by heart; elsewhere luck pays."""

    horizon: int = 1
    n_episodes: int = 4
    episode_seed: int = 0
    id: ClassVar[str] = "memory"

    @property
    def axes(self):
        return (ContextAxis("x", 0.0),)

    def return_bounds(self, contexts):
        return np.tile([0.0, 1.0], (len(contexts), 1))

    def returns(self, policies, contexts, *, episodes=None):
        assert isinstance(policies, PythonPolicies)
        numbers = self.episode_numbers(episodes)
        luck = np.array([np.random.default_rng(int(e)).random() < 0.8 for e in numbers])
        played = [
            [luck | np.isin(numbers, policy) for policy in row]
            for row in policies.objects.tolist()
        ]
        found = np.array(played, np.float32)[:, :, None]
        return np.repeat(found, len(contexts), axis=2)


def played_by(system, monkeypatch):
    """Numbers of the episodes that a system plays from now on."""
    seen, returns = [], type(system).returns

    def spy(self, policies, contexts, *, episodes: Sequence[int] | None = None):
        seen.extend(self.episode_numbers(episodes).tolist())
        return returns(self, policies, contexts, episodes=episodes)

    monkeypatch.setattr(type(system), "returns", spy)
    return seen


def test_learning_the_judging_episodes_by_heart_does_not_help(monkeypatch):
    system, space = Memory(), ts.Points(["x"], [0.0])
    question = ts.Question("floor", epsilon=-0.95)  # luck alone pays 0.8
    seen, known = played_by(system, monkeypatch), ()
    for _ in range(3):
        policies = PythonPolicies([[known]])
        table = ts.evaluate_policies(system, policies, space, sources=space).table
        # The table says the same of all: its four episodes are not among the known.
        assert table["performance"].item() == 1.0
        seen.clear()
        found = check_on_fresh_episodes(
            table, question, np.array([0]), system, policies, max_episodes=512
        )
        assert found.status[0] == REFUTED
        known = (*known, *seen)


def judged(monkeypatch, **changed):
    """Numbers of the episodes of one check, with something else than usual."""
    system, policies, table = lottery([0.0, 0.5], [0.0, 0.5])
    usual = {
        "table": table,
        "question": FLOOR,
        "assignment": np.array([0, 1]),
        "system": system,
        "policies": policies,
        "max_episodes": 128,
    }
    with monkeypatch.context() as patch:
        seen = played_by(system, patch)
        check_on_fresh_episodes(**{**usual, **changed})
    return set(seen)


def test_whatever_is_judged_has_episodes_of_its_own(monkeypatch):
    system, policies, table = lottery([0.0, 0.5], [0.0, 0.5])
    other = table.copy(deep=True)
    other["performance"][0, 0, 0] -= 1e-9
    changes = [
        {},
        {"question": FLOOR.at(-0.79)},
        {"question": ts.Question("floor", "best", epsilon=-0.8)},
        {"assignment": np.array([1, 1])},
        {"assignment": np.array([0, -1])},
        {"policies": LinearGain(policies.gain + 1e-9)},
        {"table": other},
        {"table": table.assign_coords(target_x=("target", [0.0, 0.5 + 1e-9]))},
        {"system": replace(system, n_episodes=17)},
        {"seed": 1},
    ]
    sets = [judged(monkeypatch, **change) for change in changes]
    assert sets == [judged(monkeypatch, **change) for change in changes]
    for one, two in itertools.combinations(sets, 2):
        assert not one & two
    every = set.union(*sets)
    assert min(every) >= FIRST_FRESH
    assert max(every) < FIRST_TRAINING
    # More episodes or another confidence go on with the same test.
    assert sets[0] < judged(monkeypatch, max_episodes=512, confidence=1 - 1e-12)


def test_the_pilot_the_judges_and_the_draws_never_meet(monkeypatch):
    system, policies, table = lottery([0.0, 0.5, 1.0], [0.0, 0.5, 1.0])
    seen = played_by(system, monkeypatch)
    options = {"pilot": (2, 64), "distribution": "uniform", "n_samples": 50}
    result = asked(system, policies, table, FLOOR, **options, time_limit=20)
    assert {e for e in seen if e < FIRST_FRESH} == set(range(16, 80))
    fresh = [e for e in seen if e >= FIRST_FRESH]
    assert max(fresh) < FIRST_TRAINING
    assert result["share of contexts"].values["n_samples"] == 50
    drawn = fresh[-50:]
    assert len(set(drawn)) == 50
    assert not set(drawn) & set(fresh[:-50])
    # A pilot of what a pilot played goes on behind it.
    first = play_pilot(table, FLOOR, system, policies, n_sources=2, n_episodes=40)
    seen.clear()
    play_pilot(first.table, FLOOR, system, policies[first.sources], n_episodes=40)
    assert set(seen) == set(range(56, 96))


def drawn_contexts(monkeypatch, distribution, question=QUESTION, end=2.0):
    """What `certify` draws, for a function of one axis."""
    system = FunctionSystem(lambda x, policy: -x["x"], [ContextAxis("x", 0.0)])
    targets, policies = ts.Points(["x"], [0.0, end]), PythonPolicies([0.5])
    table = ts.evaluate_policies(
        system, policies, targets, sources=ts.Points(["x"], [0.5])
    ).table
    rows, make = [], chance.law_of

    def spy(distribution, space):
        law = make(distribution, space)

        def sample(n, rng):
            drawn = law.sample(n, rng)
            rows.extend(drawn[:, 0].tolist())
            return drawn

        return law._replace(sample=sample)

    with monkeypatch.context() as patch:
        patch.setattr(chance, "law_of", spy)
        options = {"distribution": distribution, "n_samples": 30, "time_limit": 5}
        asked(system, policies, table, question, **options)
    return rows


def test_draws_depend_on_what_is_judged(monkeypatch):
    usual = drawn_contexts(monkeypatch, "uniform")
    assert usual == drawn_contexts(monkeypatch, "uniform")
    other = drawn_contexts(monkeypatch, "uniform", QUESTION.at(1.001))
    assert not set(usual) & set(other)
    wider = drawn_contexts(monkeypatch, "uniform", end=2.2)
    assert not np.allclose(np.array(wider) / 1.1, usual)
    # A frozen distribution for each axis says what it is. One for all axes is code:
    # its draws are new every time.
    told, other = {"x": stats.uniform(0, 1)}, {"x": stats.uniform(0, 0.5)}
    assert drawn_contexts(monkeypatch, told) == drawn_contexts(monkeypatch, told)
    half = np.array(drawn_contexts(monkeypatch, other))
    assert not np.allclose(2 * half, drawn_contexts(monkeypatch, told))
    own = stats.uniform(0, 1)
    assert drawn_contexts(monkeypatch, own) != drawn_contexts(monkeypatch, own)


# --- targets without a source, and returns of −inf ------------------------------------


def test_where_no_source_was_tried_nothing_is_refuted():
    """All serve: 0.9 is above 0.8. The table believes that one target has no source."""
    system, policies, table = lottery([0.1, 0.100001], [0.0, 1e-9])
    table["performance"][:, :, 1] = 0.5
    cover = ts.minimum_cover(FLOOR.sets(table))
    assert cover.assignment.tolist() == [0, -1]
    found = check_on_fresh_episodes(table, FLOOR, cover.assignment, system, policies)
    assert found.status.tolist() == [CERTIFIED, UNDECIDED]
    assert found.n_episodes[1] == 0
    values = found.certificate.values
    assert (values["n_refuted"], values["n_undecided"]) == (0, 1)
    assert values["n_untried"] == 1
    assert values["undecided_contexts"] == [{"x": 1e-9}]
    assert not found.certificate.holds
    said = "0 certainly not, 1 undecided, at 1 of them no source was tried."
    assert said in found.certificate.why
    none = check_on_fresh_episodes(
        table, FLOOR, np.array([-1, -1]), system, policies, max_episodes=64
    )
    assert none.certificate.kind == "vacuous"
    assert (none.status == UNDECIDED).all()


class Crashing(Lottery):
    """A lottery in which a policy of gain 1 fails in half of the episodes."""

    def returns(self, policies: Policy, contexts, *, episodes=None):
        found = super().returns(policies, contexts, episodes=episodes)
        assert isinstance(policies, LinearGain)
        crash = np.array(self.episode_numbers(episodes)) % 2 == 0
        bad = policies.gain[..., 0, 0] == 1.0
        return np.where(bad[..., None, None] & crash, -np.inf, found)


@pytest.mark.parametrize(("judge", "status"), [("worst", REFUTED), ("best", CERTIFIED)])
def test_a_policy_that_crashes_does_not_spoil_the_others_of_its_family(judge, status):
    system, targets = Crashing(), ts.Points(["x"], [0.05])
    policies = LinearGain(np.array([[[[1.0]], [[0.0]]]]))
    table = ts.evaluate_policies(system, policies, targets, sources=targets).table
    question = ts.Question("floor", judge, epsilon=-0.8)
    found = check_on_fresh_episodes(
        table, question, np.array([0]), system, policies, max_episodes=1024
    )
    assert found.status[0] == status


# --- draws under a time limit ---------------------------------------------------------

TRUTH, REPEATS = 0.97, 400


class FakeClock:
    """Time that passes only where the test says so."""

    now = 0.0

    def __init__(self, limit=None, *, on_wall=False):
        assert on_wall  # episodes may be played by other processes
        self.end = np.inf if limit is None else FakeClock.now + limit

    @property
    def left(self):
        return self.end - FakeClock.now


def wrong_bounds(**options):
    """How often a bound is above the truth if time is up when that flatters most.

    Returns:
        Shares of repetitions in which the bound of `served_share` is too high, and
        that of all the draws that time allowed, each at the full level.
    """
    distribution, wrong = law_of("uniform", LINE), np.zeros(2)
    for seed in range(REPEATS):
        careless = [0.0]
        n_served = [0]

        def play(rows, before, careless=careless, n_served=n_served):
            served = rows[:, 0] < TRUTH
            n_served[0] += int(served.sum())
            careless[0] = share_bound(n_served[0], before + len(rows), 0.9)
            FakeClock.now += 1.0 if careless[0] > TRUTH else 1e-6
            return served

        found = served_share(
            play,
            distribution,
            QUESTION,
            confidence=0.9,
            seed=seed,
            time_limit=0.5,
            **options,
        )
        wrong += [found.values["share"] > TRUTH, careless[0] > TRUTH]
    return wrong / REPEATS


def test_the_level_holds_whatever_the_clock_depends_on(monkeypatch):
    monkeypatch.setattr(chance, "Clock", FakeClock)
    found, careless = wrong_bounds(n_samples=2048)
    noise = 3 * np.sqrt(0.1 * 0.9 / REPEATS)
    assert found < 0.1 + noise
    # Negative control: a number of draws that time has chosen breaks the level.
    assert careless > 0.1 + 2 * noise


def test_looks_are_at_numbers_chosen_before(monkeypatch):
    monkeypatch.setattr(chance, "Clock", FakeClock)
    distribution = law_of("uniform", LINE)

    def play(rows, before):
        FakeClock.now += 1e-3 * len(rows)
        return np.ones(len(rows), bool)

    options = {"confidence": 0.999, "n_samples": 2048, "seed": 0}
    whole = served_share(play, distribution, QUESTION, **options)
    assert whole.values["share"] == share_bound(2048, 2048, 0.999)
    ample = served_share(play, distribution, QUESTION, time_limit=1e3, **options)
    assert ample.values["share"] == pytest.approx(
        share_bound(2048, 2048, 1 - 9e-4), rel=1e-12
    )
    # Time for 1,280 draws: the look at 1,024, which has a twentieth of the level.
    short = served_share(play, distribution, QUESTION, time_limit=1.2, **options)
    values = short.values
    assert values["share"] == pytest.approx(
        share_bound(1024, 1024, 1 - 5e-5), rel=1e-12
    )
    assert (values["n_samples"], values["look_samples"]) == (1280, 1024)
    assert "1,024 draws, none failed; 1,280 were drawn in all" in short.why
    none = served_share(play, distribution, QUESTION, time_limit=0.0, **options)
    assert none.kind == "vacuous"
    assert none.why.startswith("No bound on the share of contexts")
    looks = chance._looks(2048, 0.1)
    assert sum(share for _, share in looks) <= 0.1 * (1 + 1e-12)
    assert [n for n, _ in looks] == sorted({n for n, _ in looks})
