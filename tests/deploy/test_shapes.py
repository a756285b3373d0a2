"""Libraries of odd shapes: one axis and four, axes of no width, names of any kind.

Python before and after a round trip, C in double and float under sanitizers, the
tracker with hysteresis and ONNX agree on contexts at, just beside and far from every
border, and on what is not a number.
"""

import csv

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import BoxRegions, Entry, Guarantee, PolicyLibrary, regions_of
from taskspace.export.tables import export_tables

from .helpers import gains, in_float, needs_cc, random_boxes, run_c, tricky_contexts

NAMES = ['a "b"', "x, y\nz", "*/ int main", "??/ %s {0} é"]


def _library(regions, outside, scope) -> PolicyLibrary:
    d = len(regions.low)
    return PolicyLibrary(
        tuple(Entry(f"{name} {i}", i) for i, name in enumerate(NAMES)),
        regions,
        Guarantee(
            ts.Question("regret", epsilon=0.1), scope, "proof", 'Says "this" */\n.'
        ),
        tuple(NAMES[:d]),
        tuple(['m/"s" */'] * d),
        gains(4),
        outside,
    )


def _facts(rng, n):
    return rng.integers(-1, 4, n), rng.random(n) < 0.8, rng.random(n)


def _grid(*shape):
    rng = np.random.default_rng(len(shape))
    axes = {
        f"a{k}": (1.3, 1.3, 1) if n == 1 else (-0.7 * (k + 1), 2.3, n)
        for k, n in enumerate(shape)
    }
    space = ts.Grid(**axes)
    return regions_of(space.points, *_facts(rng, space.size))


def _points(d, n):
    rng = np.random.default_rng(n)
    points = rng.uniform(-1, 1, (n, d))
    points[:, 1:2] = 0.3  # no width
    return regions_of(points, *_facts(rng, n))


def _boxes(d):
    rng = np.random.default_rng(d)
    low, high = random_boxes(rng, 30, [0.1] * d, [0.7] * d)
    policy, *known = _facts(rng, len(low))
    return BoxRegions.merged(low, high, np.maximum(policy, 0), *known)


SHAPES = {
    "one axis": (lambda: _grid(7), "nodes"),
    "one node": (lambda: _grid(1), "nodes"),
    "an axis of no width": (lambda: _grid(5, 1), "nodes"),
    "four axes": (lambda: _grid(3, 1, 2, 3), "nodes"),
    "points on a line": (lambda: _points(4, 17), "nodes"),
    "one point": (lambda: _points(2, 1), "nodes"),
    "intervals": (lambda: _boxes(1), "box"),
    "boxes of four axes": (lambda: _boxes(4), "box"),
}


def _beside(rows):
    """The rows and their neighbours in the precision that they have."""
    up, down = (np.nextafter(rows, rows.dtype.type(s)) for s in (np.inf, -np.inf))
    return np.concatenate([rows, up, down])


def _near(library, kind):
    rows = tricky_contexts(library, n=60)
    with np.errstate(over="ignore"):  # the largest double is no float
        return _beside(rows.astype(kind)).astype(np.float64)


@needs_cc
@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("shape", SHAPES)
def test_c_and_files_agree_with_python(shape, precision, tmp_path):
    make, scope = SHAPES[shape]
    is_double = precision == "double"
    library = _library(make(), "refuse" if is_double else "clamp", scope)
    library.save(tmp_path / "saved")
    loaded = PolicyLibrary.load(tmp_path / "saved")
    assert loaded.names == library.names
    rows = _near(library, np.float64 if is_double else np.float32)
    how = {"precision": precision, "hysteresis": 0.05}
    found = run_c(library, tmp_path / "c", rows, np.zeros((len(rows), 2)), **how)
    policy, status, held, held_status, _ = found
    said = np.asarray if is_double else in_float
    chosen = loaded.select(rows)
    np.testing.assert_array_equal(policy, chosen.policy)
    np.testing.assert_array_equal(status, said(chosen.status))
    track = loaded.tracker(hysteresis=0.05)
    kept = [track.select(row) for row in rows]
    np.testing.assert_array_equal(held, [k.policy for k in kept])
    np.testing.assert_array_equal(held_status, said([int(k.status) for k in kept]))


@pytest.mark.parametrize("outside", ["refuse", "clamp"])
@pytest.mark.parametrize("shape", SHAPES)
def test_onnx_agrees_with_python(shape, outside):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from taskspace.export.onnx import library_model

    make, scope = SHAPES[shape]
    library = _library(make(), outside, scope)
    model = library_model(library).SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    rows = _near(library, np.float64)
    seen = np.random.default_rng(0).standard_normal((len(rows), 2))
    action, policy, status = session.run(None, {"context": rows, "observation": seen})
    chosen = library.select(rows)
    np.testing.assert_array_equal(policy, chosen.policy)
    np.testing.assert_array_equal(status, chosen.status)
    acted = library.act_as(np.maximum(policy, 0), seen)
    expected = np.where(policy[:, None] < 0, np.nan, acted)
    np.testing.assert_allclose(action, expected, rtol=1e-12, atol=1e-12)


def test_a_rounded_context_leaves_the_range_and_never_enters_it():
    """float(0.7) is below 0.7: at the edge rounding refuses, it promises nothing."""
    library = _library(_boxes(2), "refuse", "box")
    low, high = library.low, library.high
    for value in (low, high):
        rounded = value.astype(np.float32).astype(float)
        inside = ((rounded >= low) & (rounded <= high)).all()
        assert (library.select(rounded).policy >= 0) == inside
    assert high.astype(np.float32).astype(float)[0] < 0.7


def test_names_of_any_kind_in_csv_and_tables(tmp_path):
    library = _library(_grid(3, 2), "refuse", "nodes")
    export_tables(library, tmp_path / "tables")
    with open(tmp_path / "tables" / "policies.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[1] for row in rows[1:]] == [e.name for e in library.entries] or all(
        any(e.name in cell or f"'{e.name}" in cell for cell in row)
        for row, e in zip(rows[1:], library.entries, strict=True)
    )
    assert len({len(row) for row in rows}) == 1
    for name in (tmp_path / "tables").glob("*.csv"):
        with open(name, newline="") as file:
            assert len({len(row) for row in csv.reader(file)}) == 1
