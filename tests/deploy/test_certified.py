"""Libraries of certified covers: every context of the box, in Python and in C."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import box_edges, certify_cover
from taskspace.certificates.boxes.enclosures import LinearEnclosure, MsdEnclosure
from taskspace.deploy import Status
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain

from .helpers import msd, needs_cc, run_c

EPSILON = 0.5


@pytest.fixture(scope="module")
def certified():
    study, system = msd(), msd().system
    rows = system.contexts(study.targets)
    enclosure = MsdEnclosure(
        system, study.policies, rows, ts.Question("regret", epsilon=0.0)
    )
    question = ts.Question("regret", epsilon=0.35 * EPSILON)
    sources = ts.greedy_cover(study, question).sources
    axes = [axis.name for axis in system.axes]
    edges = box_edges(system, study.targets, n_cells=24)
    return certify_cover(enclosure, sources, edges, EPSILON, axes=axes)


@pytest.fixture(scope="module")
def library(certified):
    return ts.library(msd(), certified)


def regrets(library, rows, policy):
    system = msd().system
    contexts = np.column_stack([rows, np.ones(len(rows))])
    played = np.empty(len(rows))
    for p in np.unique(policy):
        mine = policy == p
        gain = LinearGain(library.policies.gain[p][None, None])
        played[mine] = system.performance(gain, contexts[mine])[0, 0]
    return system.optimum(contexts) - played


def test_every_context_is_guaranteed_and_within_epsilon(certified, library):
    assert certified.certificate.holds
    assert library.guarantee.scope == "box"
    assert library.guarantee.kind == "proof"
    assert library.fixed == {"m": 1.0}
    assert library.names == ("k", "c")
    assert len(library.regions.policy) < len(certified.boxes) / 4
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.uniform(0.1, 8.0, (20_000, 2)), certified.boxes.low[:, :2],
         certified.boxes.high[:, :2]]
    )  # fmt: skip
    chosen = library.select(rows)
    assert (chosen.status == Status.GUARANTEED).all()
    regret = regrets(library, rows, chosen.policy)
    assert regret.max() <= EPSILON
    # What is left of ε is at least the margin that was reported.
    assert (EPSILON - regret >= chosen.margin - 1e-9).all()
    assert chosen.margin.min() >= 0


def test_the_check_can_fail(library):
    """Negative control: with two policies exchanged ε is broken, and seen to be."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.1, 8.0, (5000, 2))
    wrong = (library.select(rows).policy + 1) % library.size
    assert regrets(library, rows, wrong).max() > EPSILON


def test_each_box_keeps_its_policy(certified, library):
    centre = certified.boxes.centre
    expected = [
        [e.source for e in library.entries].index(s) for s in certified.assignment
    ]
    assert library.select(centre[:, :2]).policy.tolist() == expected


@needs_cc
@pytest.mark.parametrize("precision", ["double", "float"])
def test_in_c_too(library, precision, tmp_path):
    rng = np.random.default_rng(1)
    rows = rng.uniform(0.1, 8.0, (20_000, 2)).astype(
        np.float64 if precision == "double" else np.float32
    )
    rows = rows[(rows.astype(float) >= 0.1).all(1) & (rows <= 8).all(1)]
    seen = rng.standard_normal((len(rows), 2))
    policy, status, *_ = run_c(library, tmp_path, rows, seen, precision=precision)
    proven = Status.GUARANTEED if precision == "double" else Status.ESTIMATED
    assert (status == proven).all()
    assert regrets(library, rows.astype(float), policy).max() <= EPSILON


def test_open_boxes_are_not_guaranteed(certified):
    status = certified.status.copy()
    status[::3] = 1
    assignment = np.where(status == 0, certified.assignment, -1)
    partly = replace(certified, status=status, assignment=assignment)
    library = ts.library(msd(), partly)
    chosen = library.select(certified.boxes.centre[:, :2])
    assert (chosen.guaranteed == (status == 0)).all()
    assert (chosen.policy >= 0).all()
    assert library.guarantee.statement.startswith("Only in the certified boxes")
    nothing = replace(partly, status=np.ones_like(status))
    with pytest.raises(InvalidInputError, match="No box of this cover is certified"):
        ts.library(msd(), nothing)


def make_again(certified, **given):
    study = msd()
    given = {"system": study.system, "policies": study.policies} | given
    return ts.library(ts.Study.of(given.pop("table", study.table), **given), certified)


def test_a_cover_is_not_taken_for_other_policies(certified):
    """Of other gains nothing was proven: these make the loop unstable."""
    policies = msd().policies
    assert isinstance(policies, LinearGain)
    for other in (
        LinearGain(-5 * np.ones_like(policies.gain)),
        policies[::-1],
        LinearGain(policies.gain * (1 + 1e-15)),
    ):
        with pytest.raises(
            InvalidInputError, match=r"had other policies\. Certify anew"
        ):
            make_again(certified, policies=other)
    # What was not selected is not deployed.
    gain = policies.gain.copy()
    gain[np.setdiff1d(np.arange(len(gain)), certified.sources)] = np.pi
    assert make_again(certified, policies=LinearGain(gain)).size == certified.size


def test_numbers_of_a_subset_are_not_taken_for_those_of_the_table():
    study = msd()
    system, table, policies, space = (
        study.system, study.table, study.policies, study.targets
    )  # fmt: skip
    enclosure = MsdEnclosure(
        system, policies, system.contexts(space), ts.Question("ratio", epsilon=0.0)
    )
    few = ts.minimum_cover(ts.Question("ratio", epsilon=0.02).sets(table)).sources
    axes = [axis.name for axis in system.axes]
    cover = certify_cover(
        enclosure.subset(few), np.arange(len(few)), box_edges(system, space, 24), 0.05,
        axes=axes,
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match=r"its numbers count \d+ sources"):
        make_again(cover)
    with pytest.raises(InvalidInputError, match="had other policies"):
        make_again(
            cover,
            table=table.isel(source=slice(len(few))),
            policies=policies[: len(few)],
        )
    library = make_again(cover, table=table.isel(source=few), policies=policies[few])
    assert library.select({"k": 2.0, "c": 3.0}).guaranteed
    # Of all sources by their own numbers, but as many in another order.
    swapped = certify_cover(
        enclosure.subset(np.arange(144)[::-1]), 143 - few, box_edges(system, space, 24),
        0.05, axes=axes,
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match="had other policies"):
        make_again(swapped)


def test_a_cover_is_not_taken_for_another_system(certified):
    heavier = ts.systems.MassSpringDamper(input_weight=1.0 + 1e-12)
    with pytest.raises(InvalidInputError, match="other settings and matrices"):
        make_again(certified, system=heavier)
    # The same system, built again, is the same.
    assert make_again(certified, system=ts.systems.MassSpringDamper()).size


def test_plants_with_equal_settings_are_told_apart_by_their_matrices():
    """Two families whose functions differ between their nodes only."""

    def family(bump=0.0):
        return ts.systems.LinearFamily(
            context_axes=[ts.systems.ContextAxis("a", 1.0)],
            A=lambda a: [[a + bump * a * (1.0 - a)]], B=lambda a: [[1.0]],
            Q=[[1.0]], R=[[1.0]],
        )  # fmt: skip

    system, space = family(), ts.Grid(a=(0.0, 1.0, 5))
    study = ts.evaluate(system, ts.trainers.Lqr(), space)
    rows, question = system.contexts(space), ts.Question("ratio", epsilon=0.0)
    enclosure = LinearEnclosure(system, study.policies, rows, question)
    cover = certify_cover(enclosure, [2], box_edges(system, space, 8), 0.5, axes=["a"])
    assert cover.certificate.holds
    given = {"table": study.table, "policies": study.policies}
    assert make_again(cover, system=family(), **given).size == 1
    with pytest.raises(InvalidInputError, match="the system had other matrices"):
        make_again(cover, system=family(1e-9), **given)


def test_a_cover_needs_what_it_is_about(certified):
    for missing in ("policies", "system"):
        with pytest.raises(InvalidInputError, match=f"there is no {missing}"):
            make_again(certified, **{missing: None})
    with pytest.raises(InvalidInputError, match="must say which policies"):
        make_again(replace(certified, subject=None))
    with pytest.raises(InvalidInputError, match="was proven for the sources"):
        make_again(replace(certified, sources=certified.sources[::-1]))
    tighter = replace(certified, epsilon=certified.epsilon / 10)
    with pytest.raises(InvalidInputError, match="the question was"):
        make_again(tighter)


def test_another_question_is_refused(certified):
    with pytest.raises(InvalidInputError, match="but the question asked is"):
        ts.library(msd(), certified, "regret <= 0.1")


def test_the_best_of_a_family_is_not_said_to_serve_a_box(certified):
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.05)
    study = ts.evaluate(msd().system, trainer, msd().targets)
    enclosure = copy(certified.enclosure)
    enclosure.question = ts.Question(f"{enclosure.question} best")
    best = replace(certified, enclosure=enclosure)
    with pytest.raises(InvalidInputError, match="does not say which member"):
        ts.library(study, best)
