import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import Certificate, certify
from taskspace.certificates.grid import axis_values
from taskspace.errors import UnknownNameError
from taskspace.systems import MassSpringDamper
from tests.certificates.worlds import (
    MSD,
    Sawtooth,
    line_table,
    msd_family,
    msd_loss,
    policy_table,
)
from tests.helpers import four_states

SPACE = ts.Grid(k=(0.1, 8.0, 10), c=(0.1, 8.0, 10))


@pytest.fixture(scope="module")
def msd():
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(MSD, trainer, SPACE, seed=0)
    result = certify(
        table,
        0.5,
        system=MSD,
        policies=msd_family(SPACE),
        sources=SPACE,
        targets=SPACE,
        time_limit=4,
    )
    return table, result


def test_everything_is_there_and_plain(msd):
    _, result = msd
    names = [c.name for c in result.certificates]
    for name in (
        "grid cover",
        "cover: lp",
        "loss rates",
        "inner balls",
        "outer balls",
        "volume: packing",
        "volume: box lattice",
        "volume: printed upper",
        "volume: printed lower",
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


def test_bounds_agree_with_each_other(msd):
    _, result = msd
    size = result["grid cover"].values["size"]
    for certificate in result.certificates:
        values = certificate.values
        if certificate.kind == "proof" and values.get("side") == "lower":
            assert values["value"] <= size
        # About signed, whose covers are no larger than those of regret here.
        if certificate.kind == "proof" and values.get("side") == "upper":
            signed = ts.table_sets(msd[0], "signed", "worst", 0.5)
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


def test_a_table_alone_gives_an_estimate(msd):
    table, _ = msd
    result = certify(table, 0.5, time_limit=2)
    last = result["continuum cover"]
    assert last.kind == "estimate"
    assert result.continuum is None
    given = certify(table, 0.5, rates=[1e3, 1e3], time_limit=2)["continuum cover"]
    assert given.kind == "proof"
    assert not given.holds


def test_tables_without_contexts_or_home_say_what_is_missing():
    result = certify(ts.table_from_matrix(-np.ones((2, 3))), 0.5, time_limit=1)
    assert result["loss rates"].kind == "vacuous"
    assert result["continuum cover"].kind == "vacuous"
    assert result["grid cover"].holds
    ratio = certify(ts.table_from_matrix(-np.ones((2, 3))), 0.5, criterion="ratio")
    assert "units of performance" in ratio["loss rates"].why
    nobody = line_table([0.0, 1.0], lambda s, t: np.where(t == s, -np.inf, -np.inf))
    assert not certify(nobody, 0.5, criterion="floor")["continuum cover"].holds


def test_a_signed_cover_tells_the_regret_it_leaves():
    table = ts.table_from_matrix([[0.0, 0.0], [0.0, 100.0]])
    why = certify(table, 1.0, criterion="signed", time_limit=1)["grid cover"].why
    assert "leave a regret of 100" in why


def test_known_constants_certify_other_systems():
    space = ts.Grid(x=(0.0, 4.0, 21))
    system, policies = Sawtooth(), Sawtooth.policies(space.points[:, 0])
    table = policy_table(system, policies, space)
    options = {"system": system, "policies": policies, "sources": space}
    result = certify(table, 1.1, rates=2.0, time_limit=2, **options)
    assert result["continuum cover"].holds
    assert result["continuum cover"].kind == "proof"
    assert "if they hold" in result["continuum cover"].why
    guess = certify(table, 1.1, time_limit=2, **options)["continuum cover"]
    assert guess.kind == "estimate"


def test_a_linear_family_is_certified_only_by_given_constants():
    system = four_states()
    space = ts.Grid(coupling=(0.1, 1.0, 6))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, seed=0)
    policies = trainer.train(system, system.contexts(space), seed=0).policies
    result = certify(table, 0.5, system=system, policies=policies, time_limit=2)
    assert result["continuum cover"].kind == "estimate"


@pytest.mark.parametrize("provenance", ["sampled", "given"])
@pytest.mark.parametrize("rates", [None, [1.0, 1.0], 1.0])
def test_what_is_sampled_or_given_is_never_a_proof(provenance, rates):
    space = ts.Grid(pole_length=(0.25, 5.0, 3), cart_mass=(0.5, 10.0, 3))
    matrix = np.full((9, 9), 100.0)
    options = {"rates": rates, "time_limit": 1}
    for criterion in ("regret", "signed"):
        exact, other = (
            certify(
                ts.table_from_matrix(
                    matrix, sources=space, targets=space, provenance=kind
                ),
                20.0,
                criterion=criterion,
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
        assert f"on the {word} table" in other["cover: lp"].why
    assert "estimate" in other["continuum cover"].why


def test_a_finite_horizon_is_not_certified_by_the_closed_form():
    system = MassSpringDamper(horizon=4.0)
    space = ts.Grid(k=(1.0, 4.0, 4))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, seed=0)
    policies = trainer.train(system, system.contexts(space), seed=0).policies
    options = {"system": system, "policies": policies, "sources": space}
    result = certify(table, 0.5, criterion="signed", time_limit=1, **options)
    assert result["continuum cover"].kind == "estimate"
    assert result["inner balls"].kind == "estimate"


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
