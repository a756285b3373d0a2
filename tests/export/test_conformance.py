"""Every registered exporter passes `check_exporter`; wrong ones fail and say why."""

import json
import shutil

import numpy as np
import pytest
from scipy.io import loadmat

from taskspace.deploy import Status
from taskspace.errors import InvalidInputError
from taskspace.export import EXPORTERS, exporter
from taskspace.systems import Pi
from taskspace.testing import check_exporter
from tests.deploy.helpers import DRIVER, played, program

SELECT_DRIVER = program(
    "library", "LIBRARY_N_AXES", "2",
    "library_selection s = library_select(in); out[0] = s.policy; out[1] = s.status;",
)  # fmt: skip


def _compiled(folder, driver, rows):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    return played(folder, ["library.c"], driver, rows, ["-O1"])


def run_c99(folder, contexts, seen):
    driver = DRIVER.replace("lib_", "library_").replace("LIB_", "LIBRARY_")
    driver = driver.replace('"lib.h"', '"library.h"')
    out = _compiled(folder, driver, np.column_stack([contexts, seen]))
    return out[:, 0], out[:, 1], out[:, 4:]


def run_pid(folder, contexts, seen):
    del seen  # controllers have states; their steps are tested elsewhere
    out = _compiled(folder, SELECT_DRIVER, contexts)
    return out[:, 0], out[:, 1], None


def run_onnx(folder, contexts, seen):
    runtime = pytest.importorskip("onnxruntime")
    model = runtime.InferenceSession(
        str(folder / "library.onnx"), providers=["CPUExecutionProvider"]
    )
    action, policy, status = model.run(None, {"context": contexts, "observation": seen})
    return policy, status, action


def run_tables(folder, contexts, seen, *, whole_cells=False):
    """Select by `library.mat` and the contract, as their documentation says."""
    del seen
    found = loadmat(folder / "library.mat")
    low, high = found["low"].ravel(), found["high"].ravel()
    finite = np.isfinite(contexts).all(1)
    inside = finite & ((contexts >= low) & (contexts <= high)).all(1)
    rows = np.clip(np.where(finite[:, None], contexts, low), low, high)
    names = [str(n[0][0]) for n in found["axes"]]
    if "box_low" in found:
        a, b = found["box_low"], found["box_high"]
        above = (rows[:, None] > a) | ((a == a.min(0)) & (rows[:, None] >= a))
        region = (above & (rows[:, None] <= b)).all(-1).argmax(1)
        nodes = found.get("nodes")
        known = np.ones(len(rows), bool) if nodes is None else (
            (nodes[region] == contexts).all(1)
        )  # fmt: skip
    else:
        places, known = [], np.ones(len(rows), bool)
        for x, raw, name in zip(rows.T, contexts.T, names, strict=True):
            edges = found[f"edges_{name}"].ravel()
            place = edges.searchsorted(x, side="right") - 1
            known &= found[f"nodes_{name}"].ravel()[place] == raw
            places.append(place)
        region = np.ravel_multi_index(tuple(places), found["policy"].shape)
    statuses = found.get("status", found.get("status_at_nodes")).ravel()
    policy = found["policy"].ravel()[region]
    status = np.where(inside, Status.INSIDE, Status.OUTSIDE)
    known |= whole_cells
    status = np.where(inside & known, statuses[region], status)
    refused = ~finite | (policy < 0)
    contract = json.loads((folder / "contract.json").read_text())
    if contract["selection"]["outside"].startswith("nothing"):
        refused |= ~inside
    return np.where(refused, -1, policy), np.where(refused, 3, status), None


CASES = {
    "c": (EXPORTERS["c"], run_c99, {}),
    "onnx": (EXPORTERS["onnx"], run_onnx, {}),
    "pid": (
        EXPORTERS["pid"],
        run_pid,
        {"dt": 0.1, "weaker": True, "policies": Pi(np.ones(4), np.ones(4))},
    ),
    "tables": (EXPORTERS["tables"], run_tables, {}),
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_every_exporter_gives_what_the_library_gives(name):
    if name == "onnx":
        pytest.importorskip("onnx")
    write, run, options = CASES[name]
    check_exporter(write, run, **options)


def test_a_guarantee_of_whole_cells_is_noticed():
    """The mistake of a first version: the status of a node for its whole cell."""

    def run(folder, contexts, seen):
        return run_tables(folder, contexts, seen, whole_cells=True)

    says = "status: grid, refuse, proof: at .* the library says INSIDE, the export"
    with pytest.raises(AssertionError, match=says):
        check_exporter(EXPORTERS["tables"], run)


def test_wrong_policies_and_actions_are_noticed():
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")

    def shifted(folder, contexts, seen):
        policy, status, action = run_c99(folder, contexts, seen)
        return np.where(policy >= 0, (policy + 1) % 4, -1), status, action

    def doubled(folder, contexts, seen):
        policy, status, action = run_c99(folder, contexts, seen)
        return policy, status, 2 * action

    for run, promise in ((shifted, "policy"), (doubled, "action")):
        with pytest.raises(AssertionError, match=f"^{promise}: "):
            check_exporter(EXPORTERS["c"], run)
    with pytest.raises(AssertionError, match="refused every library"):
        check_exporter(_refuses, run_c99)


def _refuses(library, folder):
    raise InvalidInputError("No.")


def test_a_name_is_taken_once():
    with pytest.raises(InvalidInputError, match="'c' is that of export_c99"):
        exporter("c")(_refuses)
    assert exporter("c")(EXPORTERS["c"]) is EXPORTERS["c"]
