"""Budgets, shares, weights, costs and pictures of `taskspace cover` and `profile`."""

import itertools
import json
import re

import numpy as np
import pytest

from taskspace.questions import Question
from tests.cli.test_cli import COVER_KEYS
from tests.helpers import refused, taskspace

NAMES = ["a", "b", "c", "d", "e"]
RNG = np.random.default_rng(3)
SCORES = np.round(-RNG.exponential(size=(5, 6)), 3)
REGRET = SCORES.max(0) - SCORES


@pytest.fixture
def matrix(tmp_path):
    rows = [",".join(["", *(f"t{k}" for k in range(6))])]
    rows += [
        ",".join([name, *map(str, row)])
        for name, row in zip(NAMES, SCORES, strict=True)
    ]
    file = tmp_path / "matrix.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def answer(*arguments) -> dict:
    done = taskspace(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def options(**values) -> list[str]:
    """Options as words: `save=file` is `--save FILE`."""
    return [word for name, v in values.items() for word in (f"--{name}", str(v))]


@pytest.mark.parametrize("epsilon", [0.3, 0.8, 1.5])
def test_of_the_smallest_covers_the_one_of_least_worst_loss(matrix, epsilon):
    found = answer(
        "cover", matrix, "--ask", f"regret <= {epsilon}", "--method", "minimum"
    )
    coverable = (REGRET <= epsilon).any(0)
    worst = {
        chosen: REGRET[list(chosen)].min(0)[coverable].max()
        for chosen in itertools.combinations(range(5), found["size"])
    }
    served = {chosen: loss for chosen, loss in worst.items() if loss <= epsilon}
    assert found["worst_regret"] == pytest.approx(min(served.values()), rel=1e-12)
    assert found["optimal"]


def test_ties_are_not_settled_between_sources_of_other_costs(tmp_path):
    """Two sources for 0.5 + 1.5 lose nothing more than dearer ones; costs decide."""
    file, costs = tmp_path / "m.csv", tmp_path / "costs.csv"
    file.write_text("policy,t1,t2\na,-1.5,-9\nb,-9,-1.5\nc,-1,-9\nd,-9,-1\n")
    costs.write_text("source,cost\na,0.5\nb,1.5\nc,3\nd,3\n")
    asked = ("cover", file, "--ask", "regret <= 1", "--method", "minimum")
    found = answer(*asked, "--costs", costs)
    assert (found["names"], found["cost"], found["optimal"]) == (["a", "b"], 2.0, True)
    assert answer(*asked)["names"] == ["c", "d"]  # each for 1: the least loss


def smallest(budget, include=(), exclude=()):
    return min(
        REGRET[list(chosen)].min(0).max()
        for chosen in itertools.combinations(range(5), budget)
        if set(include) <= set(chosen) and not set(exclude) & set(chosen)
    )


@pytest.mark.parametrize("budget", [1, 2, 4])
def test_a_budget_alone_gives_the_smallest_tolerance(matrix, budget):
    record = answer("cover", matrix, "--budget", budget)
    assert set(record) >= COVER_KEYS
    assert Question(record["ask"]).epsilon == pytest.approx(smallest(budget))
    assert record["smallest_epsilon"]["optimal"]
    assert record["smallest_epsilon"]["budget"] == budget
    assert record["size"] <= budget
    assert record["coverage"] == 1.0
    assert record["worst_regret"] <= Question(record["ask"]).epsilon
    assert record["lower_bound"] <= record["size"]


def test_sources_that_must_be_in_or_out(matrix):
    free = answer("cover", matrix, "--budget", 2)
    worst = next(n for n in range(5) if n not in free["sources"])
    record = answer(
        "cover", matrix, "--budget", 2, "--include", NAMES[worst], "--exclude",
        free["sources"][0],
    )  # fmt: skip
    assert worst in record["sources"]
    assert free["sources"][0] not in record["sources"]
    expected = smallest(2, [worst], [free["sources"][0]])
    assert Question(record["ask"]).epsilon == pytest.approx(expected, rel=1e-12)
    assert "Unknown source 'z'" in refused(
        "cover", matrix, "--budget", 2, "--include", "z"
    )


def test_people_read_the_proof_and_its_scope(matrix):
    done = taskspace("cover", matrix, "--budget", 2)
    text = re.sub(r"\s+", " ", done.stdout)
    assert "is the smallest tolerance within which 2 sources can serve" in text
    assert "proven on the given table" in text


def test_a_budget_within_a_tolerance_serves_the_most(matrix):
    epsilon = smallest(3)
    record = answer("cover", matrix, "--ask", f"regret <= {epsilon}", "--budget", 1)
    served = REGRET <= epsilon
    assert record["size"] == 1
    assert record["coverage"] == served.sum(1).max() / 6
    assert record["coverage"] <= record["coverage_bound"]
    done = taskspace("cover", matrix, "--ask", f"regret <= {epsilon}", "--budget", 1)
    assert "no source serves more" in re.sub(r"\s+", " ", done.stdout)


def test_the_smallest_tolerance_can_be_saved_and_verified(matrix, tmp_path):
    file = tmp_path / "cover.json"
    answer("cover", matrix, "--budget", 2, "--save", file)
    assert taskspace("verify", file, matrix).returncode == 0


def test_shares_weights_and_costs(matrix, tmp_path):
    epsilon = smallest(2)
    half = answer("cover", matrix, "--ask", f"regret <= {epsilon}", "--share", 0.5)
    assert half["coverage"] >= 0.5
    costs = tmp_path / "costs.csv"
    costs.write_text(
        "source,cost\n" + "".join(f"{n},1\n" for n in NAMES[1:]) + "a,50\n"
    )
    for method in ("greedy", "minimum"):
        file = tmp_path / f"{method}.json"
        asked = options(ask=f"regret <= {epsilon}", method=method, costs=costs)
        record = answer("cover", matrix, *asked, "--save", file)
        price = np.array([50, 1, 1, 1, 1])
        assert record["cost"] == price[record["sources"]].sum()
        assert taskspace("verify", file, matrix).returncode == 0
    best = min(
        price[list(chosen)].sum()
        for size in range(1, 6)
        for chosen in itertools.combinations(range(5), size)
        if (REGRET[list(chosen)].min(0) <= epsilon).all()
    )
    assert record["optimal"]
    assert record["cost"] == best
    weights = tmp_path / "weights.txt"
    weights.write_text("100\n0\n0\n0\n0\n0\n")
    heavy = answer(
        "cover", matrix, "--ask", f"regret <= {epsilon}", "--weights", weights
    )
    assert heavy["size"] == 1
    assert REGRET[heavy["sources"][0], 0] <= epsilon
    assert heavy["weight_coverage"] == 1.0


@pytest.mark.parametrize(
    ("method", "option", "says"),
    [
        ("local", "--share=0.5", "does not support share; greedy and minimum do."),
        ("local", "--weights=numbers", "target_weights; greedy and minimum do."),
        ("local", "--budget=2", "does not support budget; greedy and minimum do."),
        ("random", "--costs=numbers", "costs; greedy and local and minimum do."),
    ],
)
def test_what_a_method_does_not_know_is_refused_by_name(
    matrix, tmp_path, method, option, says
):
    (tmp_path / "numbers").write_text("1\n" * (5 if "costs" in option else 6))
    asked = options(ask="regret <= 1", method=method)
    assert says in refused("cover", matrix, *asked, option, cwd=tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\n1\n", "one number for each of the 5 sources"),
        ("a,1\nb,1\nc,1\nd,1\nz,1\n", "Unknown source 'z'"),
        ("a,1\nb,1\nc,1\nd,1\nd,1\n", "must name each source once"),
        ("a,1\nb,1\nc,1\nd,1\ne,nan\n", "finite numbers"),
        ("1\n1\n1\n1\n-1\n", "0 < cost < inf"),
    ],
)
def test_bad_costs(matrix, tmp_path, text, says):
    file = tmp_path / "costs.csv"
    file.write_text(text)
    assert says in refused("cover", matrix, "--ask", "regret <= 1", "--costs", file)


def test_a_budget_that_no_tolerance_meets(tmp_path):
    file = tmp_path / "matrix.csv"
    file.write_text(",x,y\na,1,-inf\nb,-inf,1\n")
    assert "within any tolerance" in refused("cover", file, "--budget", 1)
    assert answer("cover", file, "--budget", 2)["ask"] == "regret <= 0"


def test_plot(matrix, tmp_path):
    file = tmp_path / "map.png"
    answer("cover", matrix, "--ask", "regret <= 0.5", "--plot", file)
    assert file.read_bytes()[:4] == b"\x89PNG"
    assert file.stat().st_size > 5000
    says = refused(
        "cover", matrix, "--ask", "regret <= 0.5", "--plot", tmp_path / "map.doc"
    )
    assert ".png, .pdf or .svg" in says


def fewest(serves, include=(), exclude=()):
    free = [s for s in range(len(serves)) if s not in exclude]
    able = serves[free].any(0)
    return min(
        len(chosen)
        for size in range(len(free) + 1)
        for chosen in itertools.combinations(free, size)
        if set(include) <= set(chosen) and (serves[list(chosen)].any(0) >= able).all()
    )


@pytest.mark.parametrize("method", ["greedy", "minimum"])
@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (["--include", "a,4"], {"include": (0, 4)}),
        (["--exclude", "b"], {"exclude": (1,)}),
        (["--exclude", "c", "--include", "d"], {"exclude": (2,), "include": (3,)}),
    ],
    ids=str,
)  # fmt: skip
def test_restricted_covers_are_bounded_saved_and_verified(
    matrix, tmp_path, method, words, limits
):
    epsilon = float(np.quantile(REGRET, 0.6))
    best = fewest(epsilon >= REGRET, **limits)
    file = tmp_path / "cover.json"
    record = answer(
        "cover", matrix, "--ask", f"regret <= {epsilon}", "--method", method, *words,
        "--save", file,
    )  # fmt: skip
    assert record["lower_bound"] <= best <= record["size"]
    assert method == "greedy" or record["size"] == best
    for name, value in limits.items():
        assert record[name] == list(value)
    checked = answer("verify", file, matrix)
    assert checked["holds"]
    assert checked["not_checked"] == []
    # The record carries the restriction: without it the claim is another one.
    saved = json.loads(file.read_text())
    saved |= {"include": [], "exclude": []}
    file.write_text(json.dumps(saved))
    freed = taskspace("verify", file, matrix)
    if record["lower_bound"] > fewest(epsilon >= REGRET):
        assert freed.returncode == 1


@pytest.mark.parametrize("method", ["greedy", "minimum"])
def test_a_share_out_of_reach_is_said_and_told_by_the_exit_code(matrix, method):
    asked = options(ask="regret <= 0", exclude="a", method=method)
    words = ["cover", matrix, *asked]
    able = (REGRET[1:].min(0) <= 0).mean()
    assert 0 < able < 1
    for share, code in ((able, 0), ((able + 1) / 2, 3), (1.0, 3)):
        done = taskspace(*words, "--share", share, "--format", "json")
        assert done.returncode == code
        assert json.loads(done.stdout)["missed_share"] == (share if code else None)
    done = taskspace(*words, "--share", 1.0)
    assert "is missed: no selection" in " ".join(done.stdout.split())
    assert taskspace(*words).returncode == 0  # all that can be served


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--include", "a", "--method", "random"], "not support include"),
        (["--include", "zz"], "zz"),
        (["--include", "a", "--exclude", "a"], "either in or out"),
    ],
)
def test_restrictions_that_do_not_fit_are_refused(matrix, words, says):
    assert says in refused("cover", matrix, "--ask", "regret <= 1", *words)


def test_the_least_mean_of_a_budget_is_proven_and_verified_again(matrix, tmp_path):
    saved = tmp_path / "mean.json"
    found = answer(
        "cover", matrix, "--budget", "2", "--objective", "mean", "--save", saved
    )
    means = {
        pair: REGRET[list(pair)].min(0).mean()
        for pair in itertools.combinations(range(5), 2)
    }
    assert found["mean_loss"] == pytest.approx(min(means.values()), rel=1e-12)
    assert found["lower_bound"] == found["mean_loss"]
    assert found["optimal"]
    checked = answer("verify", saved, matrix)
    assert checked["holds"]
    assert "proven again" in checked["proven"][0]
    record = json.loads(saved.read_text())
    record["prices"]["unit"] = "-1"
    saved.write_text(json.dumps(record))
    assert taskspace("verify", saved, matrix).returncode == 1
    cap = REGRET[list(min(means, key=lambda pair: means[pair]))].min(0).max() * 0.999
    asked = options(ask=f"regret <= {float(cap)!r}", budget=3, objective="mean")
    capped = answer("cover", matrix, *asked)
    assert capped["worst_loss"] <= cap
    assert "needs --budget" in refused("cover", matrix, "--objective", "mean")
    assert "mean" in refused("cover", matrix, "--objective", "men", "--budget", "2")


def test_shares_and_budgets_of_minimum_covers_are_proven_and_verified(matrix, tmp_path):
    saved = tmp_path / "share.json"
    common = ("cover", matrix, "--ask", "regret <= 0.3", "--method", "minimum")
    found = answer(*common, "--share", "0.7", "--save", saved)
    serves = REGRET <= 0.3
    sizes = [
        k
        for k in range(6)
        for chosen in itertools.combinations(range(5), k)
        if serves[list(chosen)].any(0).sum() >= 0.7 * 6
    ]
    assert found["optimal"]
    assert found["size"] == min(sizes)
    assert answer("verify", saved, matrix)["proven"]
    found = answer(*common, "--budget", "2", "--save", saved)
    best = max(
        serves[list(pair)].any(0).mean() for pair in itertools.combinations(range(5), 2)
    )
    assert found["coverage"] == found["coverage_bound"] == best
    assert answer("verify", saved, matrix)["proven"]


def test_criteria_with_parameters_are_told(matrix):
    matrix.write_text(matrix.read_text().replace("-", ""))
    words = ("--read", "lower_is_better")
    found = answer("cover", matrix, "--ask", "ratio(floor=0.2) <= 0.5", *words)
    assert found["ask"] == "ratio(floor=0.2) <= 50 %"


@pytest.mark.parametrize(
    ("command", "words", "instead"),
    [
        ("cover", ["--epsilon", "1"], "--ask 'regret <= 0.2'"),
        ("cover", ["--error=3"], "with mass=3 %"),
        ("select", ["--criterion", "ratio"], "--ask 'ratio <= 5 %'"),
        ("profile", ["--judge", "best"], "--ask 'regret <= 0.2 best'"),
        ("cover", ["--missing", "unknown"], "--read"),
        ("profile", ["--lower-is-better"], "--read lower_is_better"),
    ],
)
def test_former_options_name_what_to_use_instead(matrix, command, words, instead):
    assert instead in refused(command, matrix, "--ask", "regret <= 1", *words)


def test_a_cover_says_which_file_it_covers(tmp_path, monkeypatch):
    """Inside its own folder it is opened; elsewhere only where that is trusted."""
    inside, outside = tmp_path / "work", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    monkeypatch.chdir(tmp_path)
    for folder in (inside, outside):
        (folder / "m.csv").write_text("source,a,b\nx,1,0\ny,0,1\n")
        taskspace(
            "cover", folder / "m.csv", "--ask", "regret <= 0", "--save",
            inside / f"{folder.name}.json",
        )  # fmt: skip
    assert "holds" in taskspace("verify", inside / "work.json").stdout
    foreign = inside / "elsewhere.json"
    assert "a file of data outside its folder" in refused("verify", foreign)
    assert "holds" in taskspace("verify", foreign, "--trust").stdout
    record = json.loads((inside / "work.json").read_text())
    del record["question"]["path"]
    (inside / "silent.json").write_text(json.dumps(record))
    assert "does not say which" in refused("verify", inside / "silent.json")
    (inside / "m.csv").write_text("source,a,b\nx,1,0\ny,0,0\n")
    assert "does not hold" in taskspace("verify", inside / "work.json").stdout
