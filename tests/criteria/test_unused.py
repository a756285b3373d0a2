"""What is read of a question but not used, and what cannot be used any more."""

import json

import numpy as np
import pytest

import taskspace as ts
from tests.helpers import refused, taskspace

CELLS = np.array([[1.0, 0.8, 0.2], [0.7, 1.0, 0.0], [0.1, 0.3, 1.0]])


def test_a_bound_that_is_not_used_is_said():
    study = ts.study_from(CELLS)
    bare, bound = ts.Question("regret"), ts.Question("regret <= 0.25")
    said = "that of 'regret <= 0.25' is not used"
    profile = ts.complexity_profile(study, bound)
    assert list(profile) == list(ts.complexity_profile(study, bare))
    assert said in repr(profile)
    least = ts.smallest_epsilon(study, 2, bound)
    assert least.upper == ts.smallest_epsilon(study, 2, bare).upper
    assert said in repr(least)
    for question in (bare, "regret"):
        assert not ts.complexity_profile(study, question).note
        assert not ts.smallest_epsilon(study, 2, question).note


@pytest.mark.parametrize(
    "ask", ["settling_time <= 2", "settling_time >= 2 best and regret <= 1 with k=3 %"]
)
def test_a_cover_by_an_unknown_measure_opens_and_cannot_be_checked(tmp_path, ask):
    table = tmp_path / "m.csv"
    table.write_text("source,a,b\nx,1,2\ny,2,1\n")
    file = tmp_path / "cover.json"
    taskspace("cover", table, "--ask", "regret <= 0", "--save", file)
    record = json.loads(file.read_text())
    record["question"]["ask"] = ask
    file.write_text(json.dumps(record))
    cover = ts.Cover.load(file)
    assert str(cover.question) == ask
    assert cover.question == ts.Cover.load(file).question
    assert "2 sources" in repr(cover)
    assert cover.question is not None
    with pytest.raises(ts.TaskspaceError, match="not checked again"):
        cover.question.sets(ts.open(table))
    assert "not checked again" in " ".join(refused("verify", file).split())
    with pytest.raises(ts.TaskspaceError, match="Unknown quantity"):
        ts.Question(ask)
