"""`taskspace design`: keys, files, proofs, refusals."""

import json

import pytest

from ..helpers import taskspace

SMALL = ("--set", "space.n=4", "--time-limit", 5)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("design")
    return out, taskspace(
        "design", "msd-lqr", *SMALL, "--ask", "regret <= 0.5",
        "--save", out / "gains.json", "--plot", out / "gains.png", "--format", "json",
    )  # fmt: skip


def test_the_record_has_the_keys_that_programs_read(done):
    out, result = done
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    keys = {"size", "lower_bound_all", "k", "epsilon", "gains", "cover"}
    assert keys <= set(record)
    assert record["lower_bound_all"] <= record["size"] == len(record["gains"])
    assert record["epsilon"] == 0.5
    assert json.loads((out / "gains.json").read_text()) == record
    assert (out / "gains.png").stat().st_size > 1000


def test_people_read_what_is_proven_and_the_next_command():
    result = taskspace("design", "msd-lqr", *SMALL, "--ask", "regret <= 0.5")
    assert result.returncode == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "designed gains serve all 16 targets" in words
    assert "over all static gains with 2 free entries" in words
    assert "--set space.n=4 --certify" in words


def test_bad_requests_are_one_sentence():
    for options, words in (
        (("--ask", "regret <= 0.5 with k=3 %"), "known exactly"),
        (("--save", "none/gains.json"), "does not exist"),
        (("--k", 0), "k >= 1"),
        (("--ask", "signed <= 0.5"), "regret, ratio or cost"),
        (("--ask", "decay_rate >= 1"), "about decay_rate"),
        (("--ask", "regret <= 0.5 and disk_margin >= 0.5"), "one demand"),
    ):
        result = taskspace("design", "msd-lqr", "--ask", "regret <= 0.5", *options)
        assert result.returncode == 2
        assert words in " ".join(result.stderr.split())
