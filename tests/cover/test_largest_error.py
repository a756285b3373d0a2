"""The largest error that sources stand, against a scan of all of them."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.cover.tolerance.error import largest_error
from taskspace.errors import InvalidInputError
from taskspace.performance.table import table_from_matrix
from tests.helpers import taskspace


def random_study(seed, *, scattered=False):
    rng = np.random.default_rng(seed)
    space = ts.Grid(a=list(range(1, 7)), b=[1, 2, 4, 8])
    if scattered:
        space = ts.Points(["a", "b"], rng.permutation(space.points))
    centre = rng.uniform([1, 1], [6, 8], (9, 2))
    distance = np.abs(space.points[None] - centre[:, None]) / [1.0, 2.0]
    return ts.Study.of(table_from_matrix(-distance.max(2), targets=space))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("scattered", [False, True])
def test_the_largest_error_is_that_of_a_scan(seed, scattered):
    study = random_study(seed, scattered=scattered)
    question = ts.Question("floor", epsilon=2.5, error={"a": 1.0, "b": "10%"})
    plain = ts.minimum_cover(study, question.measured_with(None))
    assert plain.is_full
    for sources, n in ((plain.sources, None), (None, plain.size + 1)):
        found = largest_error(study, question, sources=sources, n_sources=n)

        def stands(multiple, sources=sources, n=n):
            asked = question.measured_with(question.error.times(multiple))
            sets = asked.sets(study)
            if sources is not None:
                return sets.union(sources).all()
            cover = ts.minimum_cover(sets)
            return not len(cover.uncoverable) and cover.size <= n

        if np.isinf(found.holds_below):
            assert stands(50.0)
            continue
        below = [x for x in np.linspace(0, 9.9, 100) if x < found.holds_below]
        assert all(stands(x) for x in below[-8:])
        assert not stands(found.holds_below * (1 + 1e-9))
        assert found.is_proven == (sources is None)
        assert found.error.times(found.holds_below).words in found.words


def test_the_command_finds_it_and_says_what_is_missing(tmp_path):
    study = random_study(1)
    space = study.targets
    header = ",".join(f"t{i}" for i in range(space.size))
    rows = "\n".join(
        ",".join(map(str, r)) for r in study.table["performance"][:, 0].values
    )
    (tmp_path / "m.csv").write_text(f"{header}\n{rows}\n")
    lines = "\n".join(",".join(map(str, p)) for p in space.points)
    (tmp_path / "c.csv").write_text(f"a,b\n{lines}\n")
    common = ["cover", tmp_path / "m.csv", "--contexts", tmp_path / "c.csv",
              "--criterion", "floor", "--epsilon", "2.5"]  # fmt: skip
    asked = [*common, "--error", "a=1,b=10%", "--largest-error"]
    done = taskspace(*asked, "--budget", "5", "--format", "json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["error"] == {"a": 1.0, "b": "10.0%"}
    assert record["largest_error"]["holds_below"] > 0
    text = taskspace(*asked, "--include", "0,1,2,3,4,5,6,7,8").stdout
    assert "every error below a ±" in text
    for wrong in ([*asked], [*common, "--largest-error", "--budget", "3"]):
        done = taskspace(*wrong)
        assert done.returncode == 2
        assert "--largest-error" in done.stderr
    # An error on covers: sets shrink, and the question says so.
    plain = json.loads(taskspace(*common, "--format", "json").stdout)
    eroded = json.loads(taskspace(*common, "--error", "a=1", "--format", "json").stdout)
    assert eroded["size"] >= plain["size"]
    assert eroded["error"] == {"a": 1.0}
    assert "error" not in plain
    done = taskspace(*common, "--error", "mass=1")
    assert done.returncode == 2
    assert "mass" in done.stderr


def test_what_is_missing_is_named():
    study = random_study(1)
    question = ts.Question("floor", epsilon=2.5)
    with pytest.raises(InvalidInputError, match="error to multiply"):
        largest_error(study, question, n_sources=3)
