"""Interpolated schedules as C, tables and python-control, against Python."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator
from scipy.io import loadmat

import taskspace as ts
from taskspace.deploy import Guarantee, ScheduleLibrary, Status
from taskspace.errors import InvalidInputError
from taskspace.export import (
    EXPORTERS,
    SCHEDULE_EXPORTERS,
    export_schedule_c99,
    export_schedule_tables,
)
from taskspace.export.schedules import rounding_at
from taskspace.schedules.parameters import PI, PID, Structure
from taskspace.testing import check_exporter
from tests.deploy.helpers import SANITIZE, compile_c, needs_cc, played, program

DRIVER = program(
    "schedule", "SCHEDULE_N_AXES", "1 + SCHEDULE_N_NUMBERS",
    "out[0] = schedule_look_up(in, out + 1);", real="double",
)  # fmt: skip
ACT_DRIVER = program(
    "schedule", "SCHEDULE_N_AXES + SCHEDULE_N_OBSERVATIONS", "1 + SCHEDULE_N_ACTIONS",
    "out[0] = schedule_control(in, in + SCHEDULE_N_AXES, out + 1);", real="double",
)  # fmt: skip
FUSED = ["-O2", "-march=native", "-ffp-contract=fast"]


def made(scales, shape, *, seed=0, kind="proof", outside="clamp", size=(2, 3)):
    """A schedule of random gains, with breakpoints that do not reach both ends."""
    rng = np.random.default_rng(seed)
    names = "xyz"[: len(shape)]
    axes = {
        name: np.cumsum(rng.uniform(0.1, 2, n))
        for name, n in zip(names, shape, strict=True)
    }
    gains = rng.normal(size=(*shape, *size)) * 10.0 ** rng.integers(-3, 4, size)
    schedule = ts.Schedule.of_gains(axes, gains, dict(zip(names, scales, strict=True)))
    ends = [(x[0] / 2, x[-1] + 1) for x in axes.values()]
    ends[0] = axes["x"][0], axes["x"][-1]
    scope = "box" if kind == "proof" else "none"
    guarantee = Guarantee(ts.Question("regret <= 0.1"), scope, kind, "A µ statement.")
    low, high = np.array(ends).T
    units = ("m", "", "s²")[: len(shape)]
    return ScheduleLibrary(schedule, low, high, guarantee, units, outside)


def tricky(library, n, seed=0):
    """Contexts at and beside breakpoints and ends, outside, and not finite."""
    rng = np.random.default_rng(seed)
    low, high = library.measured_range
    rows = low + rng.uniform(-0.2, 1.2, (n, len(low))) * (high - low)
    for i, at in enumerate(library.schedule.breakpoints.values()):
        edges = np.concatenate([at, [low[i], high[i]]])
        beside = [np.nextafter(edges, end) for end in (-np.inf, np.inf)]
        near = np.concatenate([edges, *beside])
        odd = np.concatenate([near, [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e300]])
        chosen = rng.random(n) < 0.3
        rows[chosen, i] = rng.choice(odd, int(chosen.sum()))
    return rows


def run(library, folder, rows, flags=SANITIZE, driver=DRIVER, edit=None):
    export_schedule_c99(library, folder)
    if edit is not None:
        source = (folder / "schedule.c").read_text()
        assert edit[0] in source
        (folder / "schedule.c").write_text(source.replace(*edit))
    out = played(folder, ["schedule.c"], driver, rows, flags)
    return out[:, 0], out[:, 1:]


def problem(library, rows, found):
    """What C gives that Python does not, beyond the rounding of a proof; or nothing."""
    status, numbers = found
    wanted = library.select(rows)
    if not (status == wanted.status).all():
        return "status"
    refused = wanted.status == Status.REFUSED
    if (numbers[refused] != 0).any() or not np.isnan(wanted.numbers[refused]).all():
        return "refused"
    inside = np.clip(rows[~refused], *library.measured_range)
    room = rounding_at(library.schedule, inside)
    apart = np.abs(numbers[~refused] - wanted.numbers[~refused])
    return "" if (apart <= room).all() else "numbers"


CASES = {
    "one axis": (["linear"], (4,)),
    "one log axis": (["log"], (4,)),
    "two axes": (["linear", "log"], (3, 2)),
    "three axes, one of one breakpoint": (["log", "linear", "linear"], (2, 1, 3)),
}


@needs_cc
@pytest.mark.parametrize("flags", [SANITIZE, FUSED], ids=["strict", "fused"])
@pytest.mark.parametrize("name", CASES)
def test_c_is_python_within_the_rounding_of_the_proof(name, flags, tmp_path):
    for i, outside in enumerate(("refuse", "clamp")[flags is FUSED :]):
        library = made(*CASES[name], outside=outside, seed=i)
        rows = tricky(library, 20_000, seed=i)
        found = run(library, tmp_path / outside, rows, flags)
        assert problem(library, rows, found) == ""
        assert len(set(found[0])) == (2 if outside == "refuse" else 3)
        if "log" not in CASES[name][0] and flags is SANITIZE:
            served = found[0] != Status.REFUSED
            wanted = library.select(rows).numbers[served]
            assert found[1][served].tobytes() == wanted.tobytes()


@needs_cc
@pytest.mark.parametrize(
    "edit",
    [
        ("(1.0 - t) *", "(1.0000000001 - t) *"),
        ("t * corner[2 * i + 1]", "t * corner[2 * i]"),
        ("at[middle] <= x", "at[middle] > x"),
        ("x > RANGE_HIGH[axis]", "x >= RANGE_HIGH[axis]"),
        ("!isfinite(context[axis])", "isnan(context[axis])"),
    ],
)
def test_planted_mistakes_are_found(edit, tmp_path):
    library = made(["linear", "log"], (3, 4))
    rows = tricky(library, 20_000)
    assert problem(library, rows, run(library, tmp_path / "c", rows, edit=edit)) != ""


@needs_cc
def test_the_self_test_passes_and_finds_a_wrong_weight(tmp_path):
    for kind in ("proof", "vacuous"):
        folder = tmp_path / kind
        export_schedule_c99(made(*CASES["two axes"], kind=kind), folder)
        source = (folder / "schedule.c").read_text()
        for text, code in ((source, 0), (source.replace("1.0 - t", "1.000001 - t"), 1)):
            (folder / "schedule.c").write_text(text)
            test = compile_c(folder, ["schedule.c", "schedule_selftest.c"])
            done = subprocess.run([test], capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stdout


@needs_cc
def test_actions_are_pythons_bits(tmp_path):
    library = made(["linear", "linear"], (3, 2))
    rows = tricky(library, 2000)
    seen = np.random.default_rng(1).normal(size=(len(rows), 3))
    seen[0] = np.inf
    rows[0] = np.nan
    both = np.column_stack([rows, seen])
    status, action = run(library, tmp_path / "c", both, driver=ACT_DRIVER)
    served = status != Status.REFUSED
    wanted = library.act(rows[served], seen[served])
    assert action[served].tobytes() == wanted.tobytes()
    assert (action[~served] == 0).all()


@pytest.mark.parametrize("names", [PI, PID])
def test_pid_numbers_go_through_the_look_up(names, tmp_path):
    rng = np.random.default_rng(0)
    axes = {"v": np.array([1.0, 2.0, 5.0])}
    gains = rng.uniform(0.1, 2, (3, len(names)))
    schedule = ts.Schedule(axes, gains, Structure(names, (), False), {"v": "linear"})
    said = Guarantee(ts.Question("regret <= 0.1"), "none", "vacuous", "Nothing.")
    ends = np.array([1.0]), np.array([6.0])
    library = ScheduleLibrary(schedule, *ends, said, ("m/s",))
    with pytest.raises(InvalidInputError, match="select gives kp, ki"):
        library.act([2.0], [0.0])
    found = loadmat(export_schedule_tables(library, tmp_path / "t") / "schedule.mat")
    assert found["ki"].ravel().tolist() == gains[:, 1].tolist()
    if shutil.which("cc"):
        rows = tricky(library, 2000)
        assert problem(library, rows, run(library, tmp_path / "c", rows)) == ""
        header = (tmp_path / "c" / "schedule.h").read_text()
        assert f"numbers at a context: {', '.join(names)}." in header
        assert "control(" not in header


def test_the_header_says_what_the_contract_says(tmp_path):
    for kind, word in (("proof", "by proof"), ("vacuous", "never here")):
        folder = export_schedule_c99(
            made(*CASES["two axes"], kind=kind), tmp_path / kind
        )
        header = (folder / "schedule.h").read_text()
        assert f"SCHEDULE_GUARANTEED = 0, /* {word} */" in header
        assert "Question: regret <= 0.1" in header
        text = " ".join(header.replace("\n *", " ").split())
        assert ("Proven: A" in text) == (kind == "proof")
        assert "nothing is proven about one" in text
        assert "context[0]: x [m]," in text
        assert ", linear" in text
        assert ", log" in text
        contract = json.loads((folder / "contract.json").read_text())
        assert contract["selection"]["interpolation"] == {"x": "linear", "y": "log"}
        applies = contract["guarantee"]["applies"]
        assert applies.startswith("where" if kind == "proof" else "nowhere")


def test_tables_interpolate_to_the_schedule(tmp_path):
    """As a look-up block does: linear between vectors of breakpoints, clipped."""
    library = made(["linear", "log"], (3, 4), size=(1, 2))
    folder = export_schedule_tables(library, tmp_path / "t")
    found = loadmat(folder / "schedule.mat")
    x, y = found["breakpoints_x"].ravel(), found["log_breakpoints_y"].ravel()
    share = np.random.default_rng(0).random((500, 2))
    rows = library.low + share * (library.high - library.low)
    at = np.column_stack(
        [np.clip(rows[:, 0], x[0], x[-1]), np.clip(np.log(rows[:, 1]), y[0], y[-1])]
    )
    wanted = library.select(rows).numbers
    for k, name in enumerate(("K_1_1", "K_1_2")):
        got = RegularGridInterpolator([x, y], found[name])(at)
        assert np.allclose(got, wanted[:, k], rtol=1e-10, atol=1e-12)
    lines = (folder / "schedule.csv").read_text().splitlines()
    assert lines[0] == 'x,y,"K[1,1]","K[1,2]"'
    assert len(lines) == 1 + 12
    again = export_schedule_tables(library, tmp_path / "again")
    for file in again.iterdir():
        assert file.read_bytes() == (folder / file.name).read_bytes()


def test_each_exporter_says_what_it_writes(tmp_path):
    assert set(SCHEDULE_EXPORTERS) == {"c", "tables"}
    for write in SCHEDULE_EXPORTERS.values():
        with pytest.raises(AssertionError, match="writes a ScheduleLibrary"):
            check_exporter(write, lambda *_: (None, None, None))
    for name in EXPORTERS:
        options = {"dt": 0.1} if name == "pid" else {}
        with pytest.raises(InvalidInputError, match="writes a PolicyLibrary"):
            EXPORTERS[name](made(["linear"], (2,)), tmp_path / name, **options)
    with pytest.raises(InvalidInputError, match="C identifier"):
        export_schedule_c99(made(["linear"], (2,)), tmp_path / "c", name="1")
