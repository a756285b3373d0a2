"""`taskspace design`: keys, keeping, proofs, refusals."""

import json

import pytest

from ..helpers import taskspace

SMALL = ("--set", "space.n=4", "--time-limit", 5)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("design")
    return out, taskspace(
        "design",
        "msd-lqr",
        *SMALL,
        "--ask",
        "regret <= 0.5",
        "--out",
        out,
        "--format",
        "json",
    )


def test_the_record_has_the_keys_that_programs_read(done):
    out, result = done
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    keys = {"size", "lower_bound_all", "k", "epsilon", "gains", "cover"}
    assert keys <= set(record)
    assert record["lower_bound_all"] <= record["size"] == len(record["gains"])
    assert record["epsilon"] == 0.5
    assert (out / "design-regret-0.5.json").exists()


def test_people_read_what_is_proven_and_the_next_command(done):
    out, _ = done
    result = taskspace(
        "design", "msd-lqr", *SMALL, "--ask", "regret <= 0.5", "--out", out,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "designed gains serve all 16 targets" in words
    assert "over all static gains with 2 free entries" in words
    assert "--set space.n=4 --certify" in words


def test_bad_requests_are_one_sentence():
    for options, words in (
        (("--mask", "1x"), "rows of 0 and 1"),
        (("--curve", 3), "ask with --k"),
        (("--mask", "1,10"), "same length"),
        (("--k", 0), "k >= 1"),
        (("--ask", "signed <= 0.5"), "regret, ratio or cost"),
        (("--ask", "decay_rate >= 1"), "about decay_rate"),
        (("--ask", "regret <= 0.5 and disk_margin >= 0.5"), "one demand"),
    ):
        result = taskspace("design", "msd-lqr", "--ask", "regret <= 0.5", *options)
        assert result.returncode == 2
        assert words in " ".join(result.stderr.split())


def test_the_picture_is_written(done):
    out, _ = done
    assert (out / "design-regret-0.5-gains.png").stat().st_size > 1000
