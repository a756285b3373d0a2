"""The gate between a table and the proofs about its system."""

from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import MsdEnclosure, certify, enclosure_for
from taskspace.certificates.boxes.continuum import TableCheck
from taskspace.certificates.boxes.enclosures import NoEnclosureError
from taskspace.certificates.case import Case
from taskspace.errors import ContradictionError, InvalidInputError
from taskspace.systems import ContextAxis, LinearFamily, MassSpringDamper
from taskspace.systems.base import System, overridden, reduce_family
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.preiss import Quadrotor, ScalarLqr
from taskspace.systems.tabular import TabularFamily

LQR = ts.trainers.Lqr(n_policies=1, noise=0.0)
FAMILY = ts.trainers.Lqr(n_policies=3, noise=0.3)
SPACE = ts.Grid(k=(0.1, 8.0, 5), c=(0.1, 8.0, 5))
QUESTION = ts.Question("regret", epsilon=0.5)


with pytest.warns(UserWarning, match="Worn.performance replaces"):

    class Worn(MassSpringDamper):
        """A loop that is stiffer than 4 N/m fails."""

        def performance(self, policies, contexts):
            gain = self.gains(policies).gain[:, :, 0, 0]
            stiffness = contexts[:, 0] + gain[..., None]
            return np.where(
                stiffness > 4.0, -np.inf, super().performance(policies, contexts)
            )


class StatedWorn(Worn):
    provenance = "exact"


with pytest.warns(UserWarning, match="Estimated.performance replaces"):

    class Estimated(MassSpringDamper):
        """J by Monte Carlo."""

        def performance(self, policies, contexts):
            found = super().performance(policies, contexts)
            return found * (1 + 0.1 * np.random.default_rng(0).normal(size=found.shape))


class Mixin:
    def reduce_family(self, policies, home, contexts, names=("worst",)):
        return {name: np.zeros((len(home), len(contexts))) for name in names}


def plant() -> LinearFamily:
    return LinearFamily(
        [ContextAxis("mass", 1.0, low=0.0, low_open=True)],
        A=lambda mass: [[0, 1], [-1 / mass, -0.2 / mass]],
        B=lambda mass: [[0], [1 / mass]],
        Q=np.eye(2),
        R=[[1.0]],
    )


def made(system, space=SPACE, trainer=LQR):
    """A table and the policies that it was made with."""
    study = ts.evaluate(system, trainer, space, seed=0)
    return study.table, study.policies


def asked(system, table, policies, question=QUESTION, **options):
    study = ts.Study.of(table, system=system, policies=policies)
    return certify(study, question, **options)


def gate_of(system, space, table, policies, question):
    study = ts.Study.of(table, system=system, policies=policies)
    case = Case(study=study, question=question)
    return TableCheck(case, case.enclosure[0])


@pytest.mark.parametrize("system", [Worn(), Estimated()], ids=["worn", "estimated"])
def test_an_override_gets_no_proof(system):
    table, policies = made(system)
    assert table.attrs["provenance"] == "given"
    result = asked(system, table, policies, time_limit=5)
    assert result.continuum is None
    assert result["grid cover"].kind == "estimate"
    assert not any(c.kind == "proof" and "box" in c.scope for c in result.certificates)
    assert type(system).__name__ in result["continuum cover"].why


def test_one_that_states_exact_gets_no_bounds_of_its_base():
    system = StatedWorn()
    table, policies = made(system)
    assert table.attrs["provenance"] == "exact"
    result = asked(system, table, policies, time_limit=5)
    assert result["grid cover"].kind == "proof"
    assert result.continuum is None
    contexts = system.contexts(SPACE)
    with pytest.raises(NoEnclosureError, match=r"are not about Worn\.performance"):
        enclosure_for(system, policies, contexts, QUESTION)
    assert "MassSpringDamper are not about Worn" in result["continuum cover"].why
    # Bounds by hand, of the wrong plant: the table contradicts them.
    bounds = MsdEnclosure(MassSpringDamper(), policies, contexts, QUESTION)
    with pytest.raises(ContradictionError, match=r"source 0 is inf by the table, and"):
        asked(system, table, policies, bounds=bounds)


@pytest.mark.parametrize(
    "name",
    [
        "performance",
        "home_performance",
        "reduce_family",
        "within_regret",
        "optimum",
        "optimal_gain",
        "matrices",
        "gains",
        "measure",
    ],
)
def test_whatever_j_rests_on_must_be_stated_anew(name):
    def other(self, *args, **options):
        return getattr(super(cls, self), name)(*args, **options)

    says = f"Other.{name} replaces .* its J counts as given, not exact"
    with pytest.warns(UserWarning, match=says):
        cls = type("Other", (MassSpringDamper,), {name: other})
    assert cls.provenance == "given"
    stated = type("Other", (MassSpringDamper,), {name: other, "provenance": "exact"})
    assert stated.provenance == "exact"
    assert type("Below", (stated,), {}).provenance == "exact"
    with pytest.warns(UserWarning, match=f"Below.{name} replaces"):
        assert type("Below", (stated,), {name: other}).provenance == "given"


def test_lost_short_cuts_are_said():
    def other(self, policies, contexts):
        return np.zeros((*policies.stack_shape, len(contexts)))

    says = r"Other\.performance replaces .* the inherited home_performance are not used"
    with pytest.warns(UserWarning, match=says):
        cls = type("Other", (ts.systems.FunctionSystem,), {"performance": other})
    assert cls.home_performance is System.home_performance
    stated = {"performance": other, "provenance": "given"}
    cls = type("Other", (ts.systems.FunctionSystem,), stated)  # no warning
    assert cls.home_performance is System.home_performance


def test_what_changes_no_j_keeps_its_promise():
    class Named(MassSpringDamper):
        id = "named"

        def settings(self):
            return {}

    class Own(LinearFamily):
        def __post_init__(self):
            super().__post_init__()

    assert {Named.provenance, Own.provenance, TabularFamily.provenance} == {"exact"}
    with pytest.warns(UserWarning, match=r"Mixin\.reduce_family replaces"):
        assert type("Mixed", (Mixin, MassSpringDamper), {}).provenance == "given"
    assert MassSpringDamper.reduce_family is not System.reduce_family
    kinds = (LinearFamily, Quadrotor, ScalarLqr)
    for kind in (*kinds, MassSpringDamper):
        assert kind.provenance == "exact"
    for kind in kinds:
        assert overridden(kind, LinearSystem) is None


@pytest.mark.parametrize("system", [Worn(), StatedWorn()], ids=["worn", "stated"])
def test_short_cuts_follow_performance(system):
    contexts = system.contexts(SPACE)
    policies = FAMILY.train(system, contexts, seed=0).policies
    performance = system.performance(policies, contexts)
    assert (performance == -np.inf).any()
    home = np.stack([performance[i, :, i] for i in range(len(contexts))])
    np.testing.assert_array_equal(system.home_performance(policies, contexts), home)
    whole = reduce_family(performance, home)
    for name, values in system.reduce_family(policies, home, contexts).items():
        np.testing.assert_array_equal(values, whole[name])
    assert system.within_regret(policies, contexts, home.max(1), 1.0) is None
    # Another J has another optimum, which only the class itself can state.
    assert Worn().optimum(contexts) is None
    assert StatedWorn.provenance == "exact"


@pytest.mark.parametrize("judge", ["worst", "best"])
@pytest.mark.parametrize(
    "criterion", [c for c, rule in ts.criteria.CRITERIA.items() if rule.has_box_bounds]
)
@pytest.mark.parametrize("kind", ["msd", "linear"])
def test_honest_tables_lie_within_their_bounds(kind, criterion, judge):
    system = MassSpringDamper() if kind == "msd" else plant()
    space = SPACE if kind == "msd" else ts.Grid(mass=(0.5, 2.0, 7))
    table, policies = made(system, space, FAMILY)
    gate = gate_of(
        system, space, table, policies, ts.Question(criterion, judge, epsilon=1.0)
    )
    gate.compare(np.arange(space.size))
    assert gate.n_compared == space.size**2


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("kind", ["msd", "linear"])
def test_one_wrong_cell_is_found(kind, sign):
    system = MassSpringDamper() if kind == "msd" else plant()
    space = SPACE if kind == "msd" else ts.Grid(mass=(0.5, 2.0, 7))
    table, policies = made(system, space)
    for share, is_wrong in ((1e-7, True), (1e-13, False)):
        other = table.copy(deep=True)
        other["performance"].values[3, 0, 2] *= 1 + sign * share
        gate = gate_of(system, space, other, policies, QUESTION)
        if is_wrong:
            with pytest.raises(ContradictionError, match="regret of source 3 is"):
                gate.compare(np.arange(space.size))
        else:
            gate.compare(np.arange(space.size))
    # Means over episodes err by chance: they contradict nothing.
    other["performance"].values[3, 0, 2] *= 2
    gate = gate_of(
        system, space, other.assign_attrs(provenance="sampled"), policies, QUESTION
    )
    gate.compare(np.arange(space.size))
    assert gate.n_compared == 0


def test_against_the_best_of_the_table_losses_may_be_too_small():
    system = MassSpringDamper()
    table, policies = made(system)
    best = table["performance"].values[1:4].max((0, 1))  # three sources alone
    small = table.isel(source=slice(1, 4)).assign(best_known=("target", best))
    small.attrs["best_known_kind"] = "best of the table"
    gate = gate_of(system, SPACE, small, policies[1:4], QUESTION)
    gate.compare(np.arange(3))
    small["performance"].values[1, 0, 7] -= 50.0
    with pytest.raises(ContradictionError, match="source 1"):
        gate_of(system, SPACE, small, policies[1:4], QUESTION).compare([0, 1, 2])


def test_policies_in_another_order_are_refused():
    system = MassSpringDamper()
    table, policies = made(system)
    with pytest.raises(ContradictionError, match="Make the table anew"):
        asked(system, table, policies[::-1], time_limit=5)
    few = enclosure_for(system, policies, system.contexts(SPACE), QUESTION)
    with pytest.raises(InvalidInputError, match="25 sources of the table"):
        asked(system, table, policies, bounds=few.subset([0, 1]))


def test_a_map_that_the_table_refutes_is_found():
    system = MassSpringDamper()
    table, policies = made(system)
    question = ts.Question("regret", epsilon=1.0)
    cover = asked(system, table, policies, question).continuum
    assert cover.certificate.holds
    assert cover.certificate.values["n_compared"] == SPACE.size**2
    gate = gate_of(system, SPACE, table, policies, question)
    gate.check_map(cover)
    # Every box to the next source: some node is not served by it.
    place = np.searchsorted(np.sort(cover.sources), cover.assignment)
    swapped = np.sort(cover.sources)[(place + 1) % cover.size]
    with pytest.raises(ContradictionError, match="by the table, and it is at most"):
        gate.check_map(replace(cover, assignment=swapped))
