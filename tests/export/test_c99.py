"""The exported C against Python, under sanitizers, every warning an error."""

import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import Status
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export.c99 import Real, c99_files, comment, export_c99
from taskspace.policies import TabularPolicy
from tests.deploy.helpers import (
    MAKERS,
    compile_c,
    gains,
    grid_library,
    in_float,
    made,
    needs_cc,
    networks,
    run_c,
    tables,
    tricky_contexts,
)


def python_side(library, rows, hysteresis=0.02):
    chosen = library.select(rows)
    track = library.tracker(hysteresis)
    held = [track.select(row) for row in rows]
    return chosen, [h.policy for h in held], [int(h.status) for h in held]


@needs_cc
@pytest.mark.parametrize("outside", ["refuse", "clamp"])
@pytest.mark.parametrize("kind", MAKERS)
def test_double_gains_bit_for_bit(kind, outside, tmp_path):
    library = MAKERS[kind](gains(4, 2, 3), outside)
    rows = tricky_contexts(library)
    seen = np.random.default_rng(0).standard_normal((len(rows), 3)) * 10.0
    policy, status, held, held_status, acted = run_c(library, tmp_path, rows, seen)
    chosen, tracked, tracked_status = python_side(library, rows)
    assert (policy == chosen.policy).all()
    assert (status == chosen.status).all()
    assert held.tolist() == tracked
    assert held_status.tolist() == tracked_status
    ok = policy >= 0
    expected = library.act_as(chosen.policy[ok], seen[ok])
    assert acted[ok].tobytes() == expected.tobytes()
    assert (acted[~ok] == 0).all()
    assert len(set(status.tolist())) >= 3


@needs_cc
@pytest.mark.parametrize("kind", MAKERS)
def test_float_selects_exactly_as_python_does_for_the_float(kind, tmp_path):
    library = MAKERS[kind](outside="clamp")
    with np.errstate(invalid="ignore"):
        rows = tricky_contexts(library, 1000).astype(np.float32)
    rows = np.concatenate([rows, _near_borders(library, kind)])
    seen = np.random.default_rng(0).standard_normal((len(rows), 2)).astype(np.float32)
    policy, status, *_, acted = run_c(library, tmp_path, rows, seen, precision="float")
    chosen = library.select(rows.astype(np.float64))
    assert (policy == chosen.policy).all()
    assert (status == in_float(chosen.status)).all()
    ok = policy >= 0
    exact = library.act_as(chosen.policy[ok], seen[ok].astype(np.float64))
    np.testing.assert_allclose(acted[ok], exact, atol=1e-5)


def _near_borders(library, kind):
    """Neighbours of borders, where rounding would show, in float."""
    arrays = library.regions.arrays()
    edges = arrays["borders_0" if kind == "grid" else "box_low"]
    edges = np.unique(edges if edges.ndim == 1 else edges[:, 0])
    close = np.tile(library.regions.centres[:1], (3 * len(edges), 1)).astype(np.float32)
    near = edges.astype(np.float32)
    close[:, 0] = np.concatenate(
        [near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))]
    )
    return close


@needs_cc
@pytest.mark.parametrize(
    ("kind", "precision"),
    [("grid", "double"), ("points", "double"), ("boxes", "double"), ("grid", "float")],
)
def test_an_estimate_is_never_called_guaranteed(kind, precision, tmp_path):
    """One word everywhere: Python, C with and without hysteresis, header, contract."""
    proven = MAKERS[kind](outside="clamp")
    guarantee = replace(proven.guarantee, kind="estimate")
    library = replace(proven, guarantee=guarantee)
    rows = tricky_contexts(library)
    seen = np.ones((len(rows), 2))
    _, status, _, held, _ = run_c(library, tmp_path, rows, seen, precision=precision)
    chosen = library.select(rows)
    assert not chosen.guaranteed.any()
    assert (chosen.estimated == proven.select(rows).guaranteed).all()
    assert chosen.estimated.any()
    assert (chosen.inside == proven.select(rows).inside).all()
    if precision == "double":
        assert (status == chosen.status).all()
        assert Status.ESTIMATED in held
    assert Status.GUARANTEED not in {*status.tolist(), *held.tolist()}
    header = (tmp_path / "lib.h").read_text()
    assert "LIB_GUARANTEED = 0, /* never here */" in header
    assert "LIB_ESTIMATED = 4,  /* served by estimates, nothing guaranteed */" in header
    told = json.loads((tmp_path / "contract.json").read_text())
    assert told["guarantee"]["applies"].startswith("where the status is estimated")
    assert told["outputs"]["status"]["estimated"] == 4


@needs_cc
def test_rounded_gains_are_guaranteed_only_if_rounding_changes_nothing(tmp_path):
    """The proof is about gains in double; in float they miss a tight tolerance."""
    library = MAKERS["boxes"]()
    rows = library.regions.centres.astype(np.float32)
    seen = np.ones((len(rows), 2))
    _, status, *_ = run_c(library, tmp_path / "a", rows, seen, precision="float")
    assert Status.GUARANTEED not in status
    assert (status == in_float(library.select(rows).status)).all()
    header = " ".join((tmp_path / "a" / "lib.h").read_text().replace(" *", "").split())
    assert "here they are rounded to float, so it is an estimate" in header
    contract = json.loads((tmp_path / "a" / "contract.json").read_text())
    assert contract["guarantee"]["kind"] == "estimate"
    floats = type(gains(1))(gains(4).gain.astype(np.float32).astype(float))
    exact = MAKERS["boxes"](floats)
    _, status, *_ = run_c(exact, tmp_path / "b", rows, seen, precision="float")
    assert (status == exact.select(rows).status).all()
    assert Status.GUARANTEED in status


@needs_cc
@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize(
    "stack",
    [
        networks(4),
        networks(4, "clip", "relu", action_low=-0.5, action_high=0.25),
        networks(4, "clip", "tanh", hidden=(5,)),
        networks(4, "squash", hidden=(), action_low=-1.0, action_high=3.0),
    ],
    ids=["argmax", "clip-relu", "clip-free", "squash-linear"],
)
def test_networks(stack, precision, tmp_path):
    library = grid_library(stack)
    rng = np.random.default_rng(0)
    rows = rng.uniform(library.low, library.high, (200, 2)).astype(np.float32)
    seen = rng.standard_normal((200, 4)).astype(np.float32)
    policy, *_, acted = run_c(library, tmp_path, rows, seen, precision=precision)
    chosen = library.select(rows.astype(np.float64))
    assert (policy == chosen.policy).all()
    expected = np.reshape(library.act_as(chosen.policy, seen), (200, -1))
    # Networks are float32 in Python; libm and NumPy differ in the last bits of tanh.
    np.testing.assert_allclose(acted, expected, atol=2e-5)


@needs_cc
@pytest.mark.parametrize(
    ("kind", "precision"), [("grid", "double"), ("points", "float"), ("boxes", "float")]
)
def test_the_self_test_passes_and_can_fail(kind, precision, tmp_path):
    export_c99(MAKERS[kind](), tmp_path, name="plant", precision=precision)
    source = (tmp_path / "plant.c").read_text()
    number = source.index("0x1.", source.index("GAIN["))
    wrong = source[:number] + "0x1.8p+3, " + source[source.index(",", number) + 2 :]
    for text, code in ((source, 0), (wrong, 1)):
        (tmp_path / "plant.c").write_text(text)
        program = compile_c(tmp_path, ["plant.c", "plant_selftest.c"])
        done = subprocess.run([program], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert ("0 failures" in done.stdout) == (code == 0)


@needs_cc
def test_names_only_and_strange_words(tmp_path):
    space = ts.Points(["k*/", "ω??/"], [[1.0, 2.0], [2.0, 1.0], [3.0, 5.0]])
    library = ts.PolicyLibrary.from_policies(["a", "b", "c"], space)
    export_c99(library, tmp_path / "c", name="names")
    program = compile_c(tmp_path / "c", ["names.c", "names_selftest.c"])
    assert subprocess.run([program], check=False, capture_output=True).returncode == 0
    assert "act(" not in (tmp_path / "c" / "names.c").read_text()


@needs_cc
def test_no_leak_and_no_heap_under_valgrind(tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    export_c99(grid_library(), tmp_path, name="plant")
    program = compile_c(tmp_path, ["plant.c", "plant_selftest.c"], ["-O1", "-g"])
    done = subprocess.run(
        ["valgrind", "--error-exitcode=9", "--leak-check=full", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "plant.c").read_text()
    assert not any(word in source for word in ("malloc", "calloc", "realloc", "free("))


def test_rounding_keeps_comparisons():
    """x <= cut in double equals x <= down(cut) in float, for every float x."""
    real = Real("float")
    rng = np.random.default_rng(0)
    cuts = np.concatenate([rng.standard_normal(500), rng.standard_normal(500) * 1e-30])
    for step in (-np.inf, None, np.inf):
        x = cuts.astype(np.float32)
        if step is not None:
            x = np.nextafter(x, np.float32(step))
        wide = x.astype(np.float64)
        assert ((wide <= cuts) == (x <= real.down(cuts))).all()
        assert ((wide >= cuts) == (x >= real.up(cuts))).all()
    assert (real.down(cuts).astype(np.float64) != cuts).any()


def test_literals_are_exact():
    rng = np.random.default_rng(0)
    for x in [*rng.standard_normal(50), 5e-324, 1.7e308, -0.0, 0.1]:
        text = Real("double").literal(x)
        assert np.float64(float.fromhex(text)).tobytes() == np.float64(x).tobytes()


def test_mistakes_are_named():
    library = grid_library()
    with pytest.raises(UnknownNameError, match="precision 'half'"):
        c99_files(library, precision="half")
    for name in ("2fast", "a-b", "", "x;y"):
        with pytest.raises(InvalidInputError, match="C identifier"):
            c99_files(library, name=name)
    large = grid_library(type(gains(1))(np.full((4, 1, 2), 1e300)))
    with pytest.raises(InvalidInputError, match="must fit a C float"):
        c99_files(large, precision="float")
    table = ts.performance.table_from_matrix([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(InvalidInputError, match="names only"):
        c99_files(ts.library(table, [0], ts.Question("regret", epsilon=0.5)))


def test_units_survive_in_the_header(tmp_path):
    for text, safe in {
        "kg m²": "kg m²", "µm": "µm", "why?": "why?", "a??/b": "a? ?/b", "*/": "* /",
        "/*": "/ *", "a\\": "a/", "a\nb": "a b", "a\u202eb\x00c": "a b c",
    }.items():  # fmt: skip
        assert comment(text) == safe
    space = ts.Points(["J"], [[1.0], [2.0]])
    library = ts.PolicyLibrary.from_policies(["a", "b"], space)
    header = c99_files(replace(library, units=("kg m²",)))["library.h"].decode()
    assert " *   context[0]: J [kg m²], from 1 to 2" in header


def test_policies_that_draw_are_not_played_as_others():
    """A proof about random actions says nothing about the most probable ones."""
    drawing = TabularPolicy(np.full((4, 7, 3), 1 / 3))
    library = grid_library(drawing)
    with pytest.raises(InvalidInputError, match="draw their actions at random"):
        library.act([0.0, 1.0], 2)
    with pytest.raises(InvalidInputError, match="of kind 'tabular'"):
        c99_files(library)
    estimate = made(library.regions, drawing, "clamp", "nodes", "estimate")
    assert estimate.act([0.0, 1.0], 2) == 0
    assert grid_library(tables(4)).act([0.0, 1.0], 2) in (0, 1, 2)
