# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Interpolation, and schedules as files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

import taskspace as ts
from taskspace.errors import InvalidInputError


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_interpolation_is_scipys_within_and_constant_beyond(seed, n_axes):
    rng = np.random.default_rng(seed)
    at = {
        f"x{i}": np.cumsum(rng.uniform(0.1, 2, rng.integers(2, 5)))
        for i in range(n_axes)
    }
    scales = {name: rng.choice(["linear", "log"]) for name in at}
    gains = rng.normal(size=(*map(len, at.values()), 1, 2))
    table = ts.Schedule.of_gains(at, gains, scales)
    rows = np.stack([rng.uniform(0.05, x[-1] + 1, 50) for x in at.values()], -1)
    for row in rows[:10]:  # on breakpoints, too
        row[:] = [rng.choice(x) for x in at.values()]
    maps = [np.log if scales[name] == "log" else np.asarray for name in at]
    inner = RegularGridInterpolator(
        [f(x) for f, x in zip(maps, at.values(), strict=True)], gains
    )
    inside = [np.clip(rows[:, i], x[0], x[-1]) for i, x in enumerate(at.values())]
    moved = np.stack([f(x) for f, x in zip(maps, inside, strict=True)], -1)
    wanted = inner(moved).reshape(len(rows), -1)
    assert np.allclose(table.numbers_at(rows), wanted, rtol=1e-11, atol=1e-12)


def test_breakpoints_give_their_own_gains_and_nan_gives_nan():
    table = ts.Schedule.of_gains({"v": [1.0, 3.0]}, [[[2.0]], [[4.0]]])
    assert table(v=1.0).gain.tolist() == [[2.0]]
    assert table(v=3.0).gain.tolist() == [[4.0]]
    assert table({"v": -7}).gain.tolist() == [[2.0]]
    assert table(v=1e9).gain.tolist() == [[4.0]]
    assert np.isnan(table(v=float("nan")).gain).all()
    with pytest.raises(InvalidInputError, match="v is missing"):
        table(w=1.0)


def small():
    space = ts.Grid(b=(0.1, 1.0, 10))
    study = ts.evaluate(ts.systems.ScalarLqr(), ts.trainers.Lqr(), space)
    return ts.schedule(study, "ratio <= 5 %")


def test_a_saved_schedule_is_the_same_one(tmp_path):
    schedule = small()
    schedule.save(tmp_path / "s.json")
    again = ts.Schedule.load(tmp_path / "s.json")
    assert again.to_dict() == schedule.to_dict()
    assert str(again) == str(schedule)
    rows = np.linspace(0, 2, 50)[:, None]
    assert np.array_equal(again.numbers_at(rows), schedule.numbers_at(rows))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "format"),
        ({"breakpoints": {"b": [4.0, 3.0, 2.0, 1.0]}}, "ascend"),
        ({"gains": [[1.0]]}, "shape"),
        ({"gains": [[1.0], [float("nan")]] * 2}, "finite"),
        ({"interpolation": {"b": "cubic"}}, "whole schedule"),
        ({"ask": 3}, "whole schedule"),
        ({"structure": {}}, "whole schedule"),
        ({"worst": 1e-9}, "checksum"),
        ({"lower_bound": 99}, "checksum"),
        ({"interpolation": {"b": "log"}}, "checksum"),
        (
            {
                "structure": {
                    "names": ["K[1,1]"],
                    "shape": [2, 2],
                    "is_gain": True,
                    "setpoint_weight": 1.0,
                }
            },
            "one name per entry",
        ),
    ],
)
def test_a_damaged_schedule_is_refused(tmp_path, change, words):
    small().save(tmp_path / "s.json")
    values = json.loads((tmp_path / "s.json").read_text()) | change
    (tmp_path / "s.json").write_text(json.dumps(values))
    with pytest.raises(InvalidInputError, match=words):
        ts.Schedule.load(tmp_path / "s.json")


def test_no_file_and_no_json_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="no schedule"):
        ts.Schedule.load(tmp_path / "none.json")
    (tmp_path / "s.json").write_text("[1, 2")
    with pytest.raises(InvalidInputError, match="no schedule"):
        ts.Schedule.load(tmp_path / "s.json")
