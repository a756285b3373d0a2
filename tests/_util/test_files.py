"""Plain values: one function for records, TOML and manifests."""

import json
import tomllib

import numpy as np
import pytest
import tomli_w

from taskspace._util.files import plain

VALUES = {
    "n": np.int64(3),
    "rows": (np.array([1.5, -np.inf]), [None, True]),
    "none": None,
    3: {"nan": float("nan"), "inner": None},
}


def test_json_has_no_infinities_and_no_numpy():
    assert plain(VALUES) == {
        "n": 3,
        "rows": [[1.5, None], [None, True]],
        "none": None,
        "3": {"nan": None, "inner": None},
    }
    assert json.loads(json.dumps(plain(VALUES), allow_nan=False)) == plain(VALUES)


def test_infinities_survive_as_text():
    values = plain(VALUES, nonfinite="text")
    json.dumps(values, allow_nan=False)
    assert values["rows"][0] == [1.5, "-inf"]
    assert values["3"]["nan"] == "nan"
    assert float(values["rows"][0][1]) == -np.inf


def test_toml_has_infinities_and_no_none():
    values = plain({**VALUES, "rows": [np.inf]}, nonfinite="keep", without_none=True)
    assert "none" not in values
    assert "inner" not in values["3"]
    assert tomllib.loads(tomli_w.dumps(values))["rows"] == [np.inf]
    with pytest.raises(ValueError, match="JSON compliant"):
        json.dumps(values, allow_nan=False)
