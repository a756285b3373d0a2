"""Libraries of certified covers: every context of the box, in Python and in C."""

from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import box_edges, certify_cover
from taskspace.certificates.enclosures import MsdEnclosure
from taskspace.errors import InvalidInputError
from taskspace.library import Status
from taskspace.policies import LinearGain

from .helpers import msd, needs_cc, run_c

EPSILON = 0.5


@pytest.fixture(scope="module")
def certified():
    system, table, policies, space = msd()
    enclosure = MsdEnclosure(
        system, policies, system.contexts(space), criterion="regret", judge="worst"
    )
    question = ts.Question("regret", epsilon=0.35 * EPSILON)
    sources = ts.greedy_cover(question.sets(table)).sources
    axes = [axis.name for axis in system.axes]
    edges = box_edges(system, space, n_cells=24)
    return certify_cover(enclosure, sources, edges, EPSILON, axes=axes)


@pytest.fixture(scope="module")
def library(certified):
    system, table, policies, _ = msd()
    return ts.library(table, certified, policies=policies, system=system)


def regrets(library, rows, policy):
    system = msd()[0]
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
    assert library.regions.n_regions < len(certified.boxes) / 4
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.uniform(0.1, 8.0, (50_000, 2)), certified.boxes.low[:, :2],
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
    system, table, policies, _ = msd()
    status = certified.status.copy()
    status[::3] = 1
    assignment = np.where(status == 0, certified.assignment, -1)
    certificate = replace(certified.certificate, holds=False, why="Some are open.")
    partly = replace(
        certified, status=status, assignment=assignment, certificate=certificate
    )
    library = ts.library(table, partly, policies=policies, system=system)
    chosen = library.select(certified.boxes.centre[:, :2])
    assert (chosen.guaranteed == (status == 0)).all()
    assert (chosen.policy >= 0).all()
    assert library.guarantee.statement.startswith("Only in the certified boxes")
    nothing = replace(partly, status=np.ones_like(status))
    with pytest.raises(InvalidInputError, match="No box of this cover is certified"):
        ts.library(table, nothing, policies=policies, system=system)


def test_another_question_is_refused(certified):
    system, table, policies, _ = msd()
    with pytest.raises(InvalidInputError, match="but the question asked is"):
        ts.library(
            table, certified, ts.Question("regret", epsilon=0.1), policies=policies,
            system=system,
        )  # fmt: skip


def test_the_best_of_a_family_is_not_said_to_serve_a_box(certified):
    system, _, _, space = msd()
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.05)
    table = ts.evaluate(system, trainer, space, seed=0)
    policies = trainer.train(system, system.contexts(space), seed=0).policies
    values = dict(certified.certificate.values) | {"judge": "best"}
    best = replace(certified, certificate=replace(certified.certificate, values=values))
    with pytest.raises(InvalidInputError, match="does not say which member"):
        ts.library(table, best, policies=policies, system=system)
