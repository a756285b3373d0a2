"""Libraries in operation: measured contexts and switching, in C too."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import taskspace as ts
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.switching import GainLoops, certify_operation
from taskspace.deploy import PolicyLibrary, Status
from taskspace.deploy.operation import used_boxes, with_operation
from taskspace.deploy.trial import try_library
from taskspace.errors import InvalidInputError
from taskspace.export.c99 import c99_files, export_c99
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily
from tests.deploy.helpers import (
    MAKERS,
    needs_cc,
    played,
    program,
    run_c,
    tricky_contexts,
)

DRIVER = program(
    "lib", "LIB_N_AXES + 1", "2",
    "lib_selection s = SELECT; out[0] = s.policy; out[1] = s.status;",
    "lib_hold hold; lib_hold_start(&hold);",
)  # fmt: skip


def with_dwell(library, dwell_time):
    operation = {"dwell_time": dwell_time, "statement": "For the test."}
    values = {"operation": operation} if dwell_time else {}
    return replace(library, guarantee=replace(library.guarantee, values=values))


def with_error(library, error):
    question = library.question.measured_with(error)
    return replace(library, guarantee=replace(library.guarantee, question=question))


def drifting(library, n=2000, seed=0):
    """A context that moves in small steps, now and then out of the range."""
    rng = np.random.default_rng(seed)
    width = library.high - library.low
    steps = rng.standard_normal((n, len(width))) * 0.03
    share = np.abs((np.cumsum(steps, 0) + 0.5) % 2.2 - 1.1)
    rows = library.low + width * share
    rows[rng.random(n) < 0.01] = np.nan
    return rows, rng.choice([0.01, 0.05, 0.3], n)


@needs_cc
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("dwell_time", [0.0, 0.4])
def test_c_follows_a_moving_context_as_python_does(kind, dwell_time, tmp_path):
    library = with_dwell(MAKERS[kind](outside="refuse"), dwell_time)
    rows, elapsed = drifting(library)
    export_c99(library, tmp_path, name="lib", hysteresis=0.05)
    timed = "lib_select_timed(&hold, in, in[LIB_N_AXES])"
    call = timed if dwell_time else "lib_select_held(&hold, in)"
    data = np.column_stack([rows, elapsed])
    out = played(tmp_path, ["lib.c"], DRIVER.replace("SELECT", call), data).astype(int)
    track = library.tracker(0.05)
    steps = [track.select(r, e) for r, e in zip(rows, elapsed, strict=True)]
    assert out[:, 0].tolist() == [step.policy for step in steps]
    assert out[:, 1].tolist() == [int(step.status) for step in steps]
    # No switch comes sooner than the dwell time, also after a refusal.
    policy, clock, last, n_switches, n_refused = -1, 0.0, -np.inf, 0, 0
    for step, time in zip(steps, elapsed, strict=True):
        clock += time
        n_refused += step.policy < 0
        if step.policy not in (policy, -1):
            assert clock - last >= dwell_time - 1e-9
            n_switches += policy >= 0
            policy, last = step.policy, clock
        # What is held where the map has another policy is never called guaranteed.
        if step.held:
            assert step.status in (Status.INSIDE, Status.OUTSIDE)
    assert min(n_switches, n_refused) > 10


@pytest.mark.parametrize("bad", [np.nan, 2.0 + 1e-9])
def test_a_bad_reading_changes_neither_hysteresis_nor_dwell_time(bad):
    """A reading before each of a context that wobbles: it was a new start every time.

    The two loops switched at every reading diverge, see the attack of the dwell time.
    """
    points = ts.Points(["s"], [0.0, 2.0])
    library = PolicyLibrary.from_policies(["a", "b"], points)
    near = library.tracker(0.05)
    wobble = [1.0 + 0.04 * (-1) ** i for i in range(40)]
    assert near.select([0.97]).policy == 0
    seen = []
    for s in wobble:
        assert near.select([bad]).policy == -1
        seen.append(near.select([s]).policy)
    assert set(seen) == {0}
    timed = with_dwell(library, 5.0).tracker(0.0)
    switches, last, clock = 0, timed.select([0.9], 1.0).policy, 0.0
    for s in wobble:
        assert timed.select([bad], 0.0).policy == -1
        now = timed.select([s], 0.5).policy
        clock += 0.5
        switches, last = switches + (now != last), now
    assert switches <= clock / 5.0


@needs_cc
def test_without_a_proof_the_c_has_no_timed_selector():
    plain = MAKERS["grid"]()
    header = c99_files(plain, name="lib")["lib.h"].decode()
    assert "timed" not in header
    assert "dwell" not in header
    assert "proven" not in header
    files = c99_files(with_dwell(plain, 0.4), name="lib")
    assert "lib_select_timed" in files["lib.h"].decode()
    assert "proven for (0.4" in files["lib.h"].decode()
    # Rounded to float, other gains run than those of the proof.
    gains = LinearGain(np.full((2, 1, 2), 1 / 3))
    axis = ts.Points(["s"], [0.0, 2.0])
    stated = with_dwell(PolicyLibrary.from_policies(gains, axis), 0.4)
    rounded = c99_files(stated, name="lib", precision="float")["lib.h"].decode()
    assert "timed" not in rounded


@needs_cc
@pytest.mark.parametrize("kind", ["grid", "boxes"])
def test_what_is_measured_just_beyond_the_range_is_still_served(kind, tmp_path):
    plain = MAKERS[kind](outside="refuse")
    library = with_error(plain, {"x": 0.1, "y": "20%"})
    low, high = library.measured_range
    assert (low < library.low).all()
    assert (high > library.high).all()
    rows = np.concatenate([tricky_contexts(library), [low, high, low - 1, high + 1]])
    seen = np.zeros((len(rows), 2))
    policy, status, *_ = run_c(library, tmp_path, rows, seen)
    chosen = library.select(rows)
    assert (policy == chosen.policy).all()
    assert (status == chosen.status).all()
    finite = np.isfinite(rows).all(1)
    clamped = np.clip(rows, library.low, library.high)
    beyond = finite & (clamped != rows).any(1)
    inside = ((rows >= low) & (rows <= high)).all(1)
    assert (beyond & inside).any()
    # The policy of the end of the range: every true context that it stands for, the
    # end stands for too.
    same = library.select(clamped[beyond & inside]).policy
    assert (chosen.policy[beyond & inside] == same).all()
    assert (chosen.status[beyond & ~inside] == Status.REFUSED).all()
    part = beyond & inside
    at_end = library.question.error.dilate(library.names, *[clamped[part]] * 2)
    measured = library.question.error.dilate(library.names, *[rows[part]] * 2)
    assert (np.maximum(measured[0], library.low) >= at_end[0] - 1e-12).all()
    assert (np.minimum(measured[1], library.high) <= at_end[1] + 1e-12).all()


@pytest.fixture(scope="module")
def certified():
    space = ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 7))
    study = ts.evaluate(ts.systems.MassSpringDamper(), ts.trainers.Lqr(), space)
    question = ts.Question("regret", epsilon=1.0, error={"k": 0.2, "c": "4%"})
    cover = ts.certify(study, question, time_limit=5).continuum
    return study, ts.library(study, cover)


def test_a_library_carries_the_error_and_keeps_its_guarantee_under_it(
    certified, tmp_path
):
    study, library = certified
    assert library.guarantee.kind == "proof"
    assert library.question.error.words == "k ± 0.2, c ± 4 %"
    made = library.contract()
    assert [axis["error"] for axis in made["inputs"]["context"]] == [0.2, "4.0%"]
    assert made["guarantee"]["question"]["ask"].endswith(" with k=0.2, c=4 %")
    header = c99_files(library, name="lib")["lib.h"].decode()
    assert "k ± 0.2, c ± 4 %" in " ".join(header.replace("*", " ").split())
    library.save(tmp_path / "saved")
    assert PolicyLibrary.load(tmp_path / "saved").question == library.question
    rng = np.random.default_rng(0)
    true = rng.uniform(library.low, library.high, (4000, 2))
    reach = np.column_stack([np.full(4000, 0.2), 0.04 * true[:, 1] / 1.04])
    measured = true + rng.choice([-1, 1, 0.3], true.shape) * reach
    chosen = library.select(measured)
    assert (chosen.status == Status.GUARANTEED).all()
    contexts = study.system.contexts(ts.Points(["k", "c"], true))
    gains = library.policies.gain[:, None]
    scores = study.system.performance(type(library.policies)(gains), contexts)[:, 0]
    regret = study.system.optimum(contexts) - scores[chosen.policy, np.arange(4000)]
    assert regret.max() <= 1.0


def test_nodes_alone_do_not_guarantee_measured_contexts(certified):
    study, _ = certified
    question = ts.Question("regret", epsilon=1.0, error={"k": 1.4})
    library = ts.library(study, ts.minimum_cover(study, question))
    assert library.guarantee.kind == "estimate"
    assert library.select(study.targets.points).status.max() == Status.ESTIMATED
    assert "k ± 1.4" in library.guarantee.statement


def test_switching_is_proven_of_a_library_and_stands_in_its_contract(certified):
    study, library = certified
    stated = with_operation(library, study.system)
    operation = stated.contract()["guarantee"]["values"]["operation"]
    assert operation["mode"] == "any switching"
    assert operation["hysteresis"] == 0.02
    assert stated.guarantee.dwell_time == 0
    assert "any switching" in stated.guarantee.operation
    text = c99_files(stated, name="lib")["lib.h"].decode()
    assert "any switching" in " ".join(text.replace("*", " ").split())


def test_no_wider_hysteresis_is_used_than_was_proven():
    library = MAKERS["grid"]()
    values = {"operation": {"hysteresis": 0.02}}
    library = replace(library, guarantee=replace(library.guarantee, values=values))
    library.tracker(0.02)
    c99_files(library, hysteresis=0.01)
    with pytest.raises(InvalidInputError, match="must not be exceeded"):
        library.tracker(0.3)
    with pytest.raises(InvalidInputError, match="must not be exceeded"):
        c99_files(library, hysteresis=0.3)


def test_what_is_not_linear_is_refused(certified):
    _, library = certified
    with pytest.raises(InvalidInputError, match="linear"):
        with_operation(library, ts.systems.CartPole())


def test_a_trial_plays_errors(certified):
    study, library = certified
    trial = try_library(library, study.system, n_contexts=60)
    assert trial.n_measured > 200
    assert trial.n_broken == 0
    # A library for exact contexts that claims the error breaks, and the trial sees it.
    plain = ts.certify(study, library.question.measured_with(None), time_limit=4)
    claims = with_error(ts.library(study, plain.continuum), {"k": 1.0, "c": 1.0})
    assert try_library(claims, study.system, n_contexts=60).n_broken > 0


def test_any_switching_withstands_the_worst_jumps(certified):
    """The context jumps, at every step, to where the state grows most."""
    study, library = certified
    boxes, which, _ = used_boxes(library, 0.02)
    ends = (library.full_contexts(study.system, x) for x in (boxes.low, boxes.high))
    loops = GainLoops(study.system, library.policies.gain, Boxes(*ends), which)
    metric = certify_operation(loops).matrices[0]
    rows = np.concatenate([boxes.low, boxes.high])
    a, b, *_ = study.system.matrices(library.full_contexts(study.system, rows))
    loops = a - b @ library.policies.gain[np.tile(which, 2)]
    moves = expm(0.1 / np.abs(np.linalg.eigvals(loops)).max() * loops)
    sizes = [1.0]
    x = np.linalg.solve(np.linalg.cholesky(metric).T, [1.0, 0.0])
    for _ in range(300):
        then = moves @ x
        size = np.einsum("gi,ij,gj->g", then, metric, then)
        x = then[size.argmax()]
        sizes.append(size.max())
    assert (np.diff(sizes) < 0).all()


def two_loops():
    """Two loops that are stable when frozen, and no common matrix."""
    first = np.array([[-0.1, 1.0], [-3.0, -0.1]])
    second = np.array([[-0.1, 3.0], [-1.0, -0.1]])
    zero, one = np.zeros((2, 2)), np.eye(2)
    plant = LinearFamily([ContextAxis("s", 0.0)], A=zero, B=one, Q=one, R=one)
    gains = LinearGain(np.stack([-first, -second]))
    return plant, PolicyLibrary.from_policies(gains, ts.Grid(s=[0.0, 1.0]))


def test_a_dwell_time_limits_how_fast_the_context_moves():
    plant, library = two_loops()
    stated = with_operation(library, plant, hysteresis=0.1)
    operation = stated.guarantee.values["operation"]
    assert operation["mode"] == "dwell time"
    rate = 0.1 / stated.guarantee.dwell_time
    assert operation["drift_rates"]["s"] == pytest.approx(rate)
    said = "Stable within the range while s changes by less than"
    assert said in stated.guarantee.operation
    # Switched sooner than the dwell time the two loops diverge; the tracker does not.
    x, track, growth = np.array([1.0, 0.0]), stated.tracker(0.1), 1.0
    loops = [-gain for gain in library.policies.arrays()["gain"]]
    for i in range(400):
        chosen = track.select([0.5 + 0.2 * (-1) ** (i // 9)], 0.1).policy
        x = expm(0.1 * loops[chosen]) @ x
        growth = max(growth, float(np.linalg.norm(x)))
    assert growth < 10
    assert np.linalg.norm(x) < 0.2


def test_switching_is_claimed_where_there_are_policies_and_of_their_plant():

    def family(b):
        axes = [ContextAxis("k", 1.0)]
        return LinearFamily(axes, A=lambda k: [[k]], B=[[b]], Q=[[1.0]], R=[[1.0]])

    plant = family(1.0)
    gain = [np.array([[2.4]])]  # stabilises k < 2.4 only
    study = ts.evaluate_policies(plant, gain, ts.Grid(k=(1.0, 4.0, 3)))
    library = ts.library(study, ts.minimum_cover(study, "ratio <= 50 %"))
    stated = with_operation(library, plant)
    assert library.select({"k": 3.0}).status == Status.REFUSED
    assert "within the range" not in stated.guarantee.operation
    said = "within the regions of the policies (25 % of the range"
    assert said in stated.guarantee.operation
    header = c99_files(stated, name="lib")["lib.h"].decode()
    assert "25 %" in " ".join(header.replace("*", " ").split())
    with pytest.raises(InvalidInputError, match="other matrices"):
        with_operation(library, family(2.0))
    # Where nothing is proven, neither library nor C says a word about switching.
    wide = ts.evaluate_policies(plant, gain, ts.Grid(k=(1.0, 2.8, 2)))
    question = ts.Question("floor", epsilon=100.0)
    failing = ts.library(wide, ts.minimum_cover(wide, question))
    regions = replace(failing.regions, policy=np.zeros(2, np.int64))
    failing = replace(failing, regions=regions)
    silent = with_operation(failing, plant)
    assert "unstable at k = 2.8" in silent.guarantee.values["operation"]["why"]
    assert silent.guarantee.operation == ""
    assert "switching between" not in c99_files(silent, name="lib")["lib.h"].decode()


def test_a_policy_that_is_held_may_drift_after_it_was_measured():
    """Measured at the end of a region, the truth is lower by the error, and drifts."""
    axis = ts.Grid(c=(1.0, 9.0, 5))
    plant = LinearFamily(
        [ContextAxis("c", 1.0)], A=lambda c: [[c]], B=[[1.0]], Q=[[1.0]], R=[[1.0]]
    )
    study = ts.evaluate(plant, ts.trainers.Lqr(), axis)
    library = ts.library(study, ts.minimum_cover(study, "ratio <= 50 %"))
    library = with_error(library, {"c": "10%"})
    bare, *_ = used_boxes(library, 0.0)
    held, *_ = used_boxes(library, 0.05)
    band = 0.05 * (library.high - library.low)
    assert (held.low <= np.maximum(bare.low - band, library.low)).all()
    assert (held.high >= np.minimum(bare.high + band, library.high)).all()
