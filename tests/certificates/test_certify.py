import json

import numpy as np
import pytest

import taskspace as ts
from taskspace._util.clock import Clock
from taskspace.certificates import (
    CERTIFIERS,
    Certificate,
    MsdEnclosure,
    certified_cover,
    certifier,
    certify,
    check_balls,
    enclosure_for,
    rate_bounds,
)
from taskspace.certificates.paper import default_radius
from taskspace.certificates.table import axis_values
from taskspace.errors import InvalidInputError, UnknownNameError
from tests.certificates.worlds import (
    MSD,
    Sawtooth,
    line_table,
    msd_family,
    msd_loss,
    policy_table,
)

SPACE = ts.Grid(k=(0.1, 8.0, 10), c=(0.1, 8.0, 10))


def study_of(sources, targets=None):
    """One LQR gain per source."""
    return ts.evaluate(MSD, ts.trainers.Lqr(), sources, seed=0, targets=targets)


@pytest.fixture(scope="module")
def msd():
    study = study_of(SPACE)
    return study.table, certify(study, ts.Question(epsilon=0.5), time_limit=4)


def test_everything_is_there_and_plain(msd):
    _, result = msd
    names = [c.name for c in result.certificates]
    for name in (
        "grid cover",
        "loss rates",
        "grid cover, between nodes",
        "continuum cover",
    ):
        assert name in names
    assert names[-1] == "continuum cover"
    text = json.dumps([c.to_dict() for c in result.certificates], allow_nan=False)
    keys = {"name", "holds", "kind", "scope", "why", "values"}
    assert keys == set(json.loads(text)[0])
    with pytest.raises(KeyError):
        result["no such certificate"]


def test_a_new_kind_of_certificate_is_a_function_and_a_decorator(monkeypatch):
    def count(case):
        values = {"n": case.cover.size, "epsilon": case.question.epsilon}
        return [Certificate("count", True, "estimate", "", values)]

    question, table = (
        ts.Question(epsilon=0.5),
        ts.performance.table_from_matrix(np.eye(3)),
    )
    before = certify(table, question)
    names = [certificate.name for certificate in before.certificates]
    for place, told in ((None, [*names, "count"]), ("grid cover", ["count", *names])):
        with monkeypatch.context() as patch:
            patch.setitem(CERTIFIERS, "count", None)  # taken back at the end
            certifier("count", before=place)(count)
            result = certify(table, question)
        assert [c.name for c in result.certificates] == told
    assert "count" not in CERTIFIERS
    assert result["count"].values == {"n": 3, "epsilon": 0.5}


def test_bounds_agree_with_each_other(msd):
    _, result = msd
    size = result["grid cover"].values["size"]
    for certificate in result.certificates:
        values = certificate.values
        if certificate.kind == "proof" and values.get("side") == "lower":
            assert values["value"] <= size
        # About signed, whose covers are no larger than those of regret here.
        if certificate.kind == "proof" and values.get("side") == "upper":
            signed = ts.Question("signed", "worst", epsilon=0.5).sets(msd[0])
            assert values["value"] >= ts.minimum_cover(signed, time_limit=2).size
    continuum = result["continuum cover"].values
    assert size <= continuum["size"]
    assert continuum["lower_bound"] <= continuum["size"]


def test_the_last_sentence_is_true(msd):
    _, result = msd
    last = result.certificates[-1]
    assert last.holds
    assert last.kind == "proof"
    assert last.why.startswith(
        "Every (k, c) in the box, not only the grid, is within 0.5 of optimal, by these"
    )
    rng = np.random.default_rng(0)
    rows = np.c_[0.1 + rng.random((20_000, 2)) * 7.9, np.ones(20_000)]
    loss = msd_loss(SPACE, msd_family(SPACE), rows, "regret", "worst")
    assert loss[last.values["sources"]].min(0).max() <= 0.5


def test_a_table_alone_says_nothing_between_its_targets(msd):
    table, _ = msd
    result = certify(table, ts.Question(epsilon=0.5), time_limit=2)
    last = result["continuum cover"]
    assert last.kind == "vacuous"
    assert result.continuum is None
    given = certify(table, ts.Question(epsilon=0.5), rates=[1e3, 1e3], time_limit=2)
    given = given["continuum cover"]
    assert given.kind == "proof"
    assert not given.holds


def test_tables_without_contexts_or_home_say_what_is_missing():
    table = ts.performance.table_from_matrix(-np.ones((2, 3)))
    result = certify(table, ts.Question(epsilon=0.5), time_limit=1)
    assert result["loss rates"].kind == "vacuous"
    assert result["continuum cover"].kind == "vacuous"
    assert result["grid cover"].holds
    ratio = certify(table, ts.Question("ratio", epsilon=0.5))
    assert "units of performance" in ratio["loss rates"].why
    nobody = line_table([0.0, 1.0], lambda s, t: np.where(t == s, -np.inf, -np.inf))
    nothing = certify(nobody, ts.Question("floor", epsilon=0.5))
    assert not nothing["continuum cover"].holds


def test_a_signed_cover_tells_the_regret_it_leaves():
    table = ts.performance.table_from_matrix([[0.0, 0.0], [0.0, 100.0]])
    result = certify(table, ts.Question("signed", epsilon=1.0), time_limit=1)
    assert "leave a regret of 100" in result["grid cover"].why


def test_known_constants_certify_other_systems():
    space = ts.Grid(x=(0.0, 4.0, 21))
    system, policies = Sawtooth(), Sawtooth.policies(space.points[:, 0])
    table = policy_table(system, policies, space)
    study = ts.Study.of(table, system=system, policies=policies)
    result = certify(study, ts.Question(epsilon=1.1), rates=2.0, time_limit=2)
    assert result["continuum cover"].holds
    assert result["continuum cover"].kind == "proof"
    assert "if it holds" in result["continuum cover"].why
    guess = certify(study, ts.Question(epsilon=1.1), time_limit=2)["continuum cover"]
    assert guess.kind == "vacuous"
    assert "rates=..." in guess.why
    for rates, words in (
        (1.0, "every slope of the loss"),  # half of the true one
        (-1.0, "rates must be"),
        ([1.0, 2.0], "rates must be"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            certify(study, ts.Question(epsilon=1.1), rates=rates, time_limit=2)


def test_what_no_enclosure_knows_is_not_certified(monkeypatch):
    monkeypatch.setattr("taskspace.certificates.boxes.enclosures.ENCLOSURES", [])
    result = certify(study_of(SPACE), ts.Question(epsilon=0.5), time_limit=2)
    assert result["continuum cover"].kind == "vacuous"


@pytest.mark.parametrize("provenance", ["sampled", "given"])
@pytest.mark.parametrize("rates", [None, [1.0, 1.0], 1.0])
def test_what_is_sampled_or_given_is_never_a_proof(provenance, rates):
    space = ts.Grid(pole_length=(0.25, 5.0, 3), cart_mass=(0.5, 10.0, 3))
    matrix = np.full((9, 9), 100.0)
    options = {"rates": rates, "time_limit": 1}
    for criterion in ("regret", "signed"):
        exact, other = (
            certify(
                ts.performance.table_from_matrix(
                    matrix, sources=space, targets=space, provenance=kind
                ),
                ts.Question(criterion, epsilon=20.0),
                **options,
            )
            for kind in ("exact", provenance)
        )
        assert exact["grid cover"].kind == "proof"
        assert (exact["continuum cover"].kind == "proof") == (rates is not None)
        assert not any(c.kind == "proof" for c in other.certificates)
        word = {"sampled": "estimated", "given": "given"}[provenance]
        assert f"on the {word} table" in other["grid cover"].why
        assert other["grid cover"].scope == f"the {word} table"
    assert rates is None or "estimate" in other["continuum cover"].why


def test_whole_grids_are_recognised_in_any_unit_and_order():
    for scale in (1.0, 1e-12, 2.0**40):
        for points in (SPACE.points, SPACE.points[::-1]):
            values = axis_values(ts.Points(SPACE.names, scale * points))
            assert [len(v) for v in values] == [10, 10]
        uneven = axis_values(ts.Points(["x"], scale * np.array([0.9, 0.1, 0.15])))
        assert uneven[0].tolist() == (scale * np.array([0.1, 0.15, 0.9])).tolist()
    assert axis_values(ts.Points(["x", "y"], [[0, 0], [1, 1], [2, 0.0]])) is None
    twice = [[0, 0], [0, 1], [1, 0], [0, 0.0]]
    assert axis_values(ts.Points(["x", "y"], twice)) is None


def test_kinds_are_checked():
    with pytest.raises(UnknownNameError, match="Did you mean 'proof'"):
        Certificate("x", True, "prooof", "")  # type: ignore[arg-type]
    values = {"a": np.float64(np.inf), "b": np.arange(2), "c": (1, {"d": np.nan})}
    assert Certificate("x", True, "proof", "", values).values == {
        "a": None,
        "b": [0, 1],
        "c": [1, {"d": None}],
    }


# --- claims that were once false ----------------------------------------------------


@pytest.mark.parametrize(
    "sources",
    [
        ts.Points(["k", "c"], [[2.0, 0.5]]),
        ts.Grid(k=(6.0, 8.0, 2), c=(6.0, 8.0, 2)),
        ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3)),
    ],
)
def test_inner_balls_hold_in_the_box_of_the_targets(sources):
    targets = ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3))
    study, question = study_of(sources, targets), ts.Question("signed", epsilon=0.2)
    result, policies = certify(study, question, time_limit=2), study.policies
    assert result["inner balls"].kind == "proof"
    contexts = MSD.contexts(sources)
    home = MSD.home_performance(policies, contexts)
    rng = np.random.default_rng(0)
    worst = -np.inf
    rows, r = MSD.contexts(targets), default_radius(targets)
    bounds = enclosure_for(MSD, policies, contexts, question)
    exact = rate_bounds(bounds, rows, r, contexts)
    balls, inner = check_balls(study.table, 0.2, radius=r, upper_rate=exact)
    assert inner == result["inner balls"]
    for s, radius in enumerate(balls.inner):
        angle, reach = rng.random(2000) * 2 * np.pi, radius * np.sqrt(rng.random(2000))
        around = np.repeat(contexts[s : s + 1], 2000, axis=0)
        around[:, 0] += reach * np.cos(angle)
        around[:, 1] += reach * np.sin(angle)
        inside = ((around[:, :2] >= 0.1) & (around[:, :2] <= 8.0)).all(1)
        loss = home[s, 0] - MSD.performance(policies[s : s + 1], around[inside])[0, 0]
        worst = max(worst, loss.max())
    assert 0 < worst <= 0.2


def test_sentences_speak_of_the_targets_that_are_served():
    sources = ts.Grid(k=(0.1, 3.0, 4), c=(0.1, 3.0, 4))
    question = ts.Question("regret", epsilon=0.05)
    result = certify(study_of(sources, SPACE), question, time_limit=2)
    cover = result.cover
    assert len(cover.uncoverable) > 3
    n_served = 100 - len(cover.uncoverable)
    grid, between = result["grid cover"], result["grid cover, between nodes"]
    assert not grid.holds
    assert f"serve {n_served} of 100 targets" in grid.why
    assert f"{len(cover.uncoverable)} targets are served by no source" in grid.why
    assert f"serve {n_served} of the 100 nodes" in between.why
    text = " ".join(c.why for c in result.certificates)
    assert "every node" not in text
    assert "every target" not in text


def test_bounds_say_which_sources_they_range_over():
    study, question = study_of(SPACE), ts.Question("regret", epsilon=0.5)
    bounds = MsdEnclosure(MSD, study.policies, MSD.contexts(SPACE), question)
    # The candidates are a cover that is larger than needed: no fewer of them do.
    whole = certified_cover(bounds, MSD, SPACE, 0.3, time_limit=4)
    found = certified_cover(
        bounds, MSD, SPACE, 0.5, candidates=whole.sources, time_limit=4
    )
    values = found.certificate.values
    assert values["n_candidates"] == whole.size < values["n_sources"] == 100
    assert values["lower_bound_scope"] == "all 100 sources"
    assert values["lower_bound"] <= values["lower_bound_candidates"] <= found.size
    assert found.lower_bound == values["lower_bound"]
    assert values["optimal"] == (values["lower_bound"] >= found.size)
    # The bound over all is true of all: as many serve every context.
    best = certified_cover(bounds, MSD, SPACE, 0.5, time_limit=4)
    assert best.certificate.holds
    assert values["lower_bound"] <= best.size <= found.size
    # And certify has both, with the bound of the grid, which is about all sources.
    values = certify(study, question, time_limit=4)["continuum cover"].values
    assert values["lower_bound"] <= best.size


def test_a_time_limit_bounds_the_whole_of_it():
    study = study_of(ts.Grid(k=(0.1, 8.0, 20), c=(0.1, 8.0, 20)))
    question = ts.Question("regret", epsilon=0.1)
    none = certify(study, question, time_limit=0)  # compiles
    assert not none.certificates[-1].holds
    for limit in (0.0, 3.0):
        clock = Clock()
        result = certify(study, question, time_limit=limit)
        # Generous: other work may share the machine.
        assert clock.spent < limit + 5.0
        assert result["grid cover"].values["size"] >= 12
        last = result.certificates[-1]
        assert last.values["size"] >= 12
        assert last.values["share_certified"] > 0.5
        if not last.holds:
            # A partial statement, and what to do.
            assert " % of the box" in last.why
            assert "larger time limit" in last.why
            assert "of the 400 sources are needed" in last.why


def test_an_enclosure_of_ones_own_is_used():
    study, question = study_of(SPACE), ts.Question("regret", epsilon=0.5)
    own = MsdEnclosure(MSD, study.policies, MSD.contexts(SPACE), question)
    own.basis = "our own bounds"
    alone = ts.Study.of(study.table, system=MSD)
    result = certify(alone, question, bounds=own, time_limit=20)
    assert "our own bounds" in result["continuum cover"].why
    with pytest.raises(InvalidInputError, match=r"must be for 'signed\.worst'"):
        certify(alone, ts.Question("signed", epsilon=0.5), bounds=own)


@pytest.mark.parametrize(("criterion", "epsilon"), [("regret", 0.25), ("ratio", 0.01)])
def test_policies_without_a_context_of_their_own_are_proven_alike(criterion, epsilon):
    """Gains by hand come with no context; only `signed` would need one."""
    space = ts.Grid(k=(1.0, 4.0, 4), c=(1.0, 4.0, 4))
    question = ts.Question(criterion, epsilon=epsilon)
    gains = study_of(space).policies.arrays()["gain"]
    gains = list(gains.reshape(-1, *gains.shape[-2:]))
    study = ts.evaluate_policies(MSD, gains, space)
    with_homes = ts.evaluate_policies(MSD, gains, space, sources=space)
    assert study.sources is None
    ours, theirs = (
        certify(one, question, time_limit=10)["continuum cover"]
        for one in (study, with_homes)
    )
    assert ours.kind == "proof"
    assert ours.holds
    assert (ours.why, ours.values["size"]) == (theirs.why, theirs.values["size"])
    # The first gain alone is not enough, and is not called so.
    first = certify(study, question, selection=[0], time_limit=5)["continuum cover"]
    assert not first.holds
