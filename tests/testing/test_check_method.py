"""Our cover methods keep their promises, and wrong ones are found."""

import json
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.cover import METHODS, CoverProblem, cover_method
from taskspace.runs import load_experiment, run_experiment
from taskspace.testing import check_method
from tests.helpers import taskspace


@pytest.fixture
def register(monkeypatch):
    """Register a method for one test."""
    for name in ("own",):
        monkeypatch.delitem(METHODS, name, raising=False)
    monkeypatch.setitem(METHODS, "own", METHODS["greedy"])  # removed afterwards
    return cover_method("own", colour="#999999")


@pytest.mark.parametrize("method", ["greedy", "local", "minimum", "uniform", "random"])
def test_our_methods_keep_their_promises(method):
    check_method(method)


def assert_fails(promise: str) -> None:
    with pytest.raises(AssertionError, match=f"^{promise}: "):
        check_method("own")


def test_a_right_method_of_a_user_passes(register):
    @register
    def everything(problem, question=None, *, exclude=()):
        asked = CoverProblem(problem, question, exclude=exclude)
        return asked.cover(
            "own", asked.free, lower_bound=0, lower_bound_kind="none", stop_reason=""
        )

    check_method("own")
    study = ts.study_from([[1.0, 0.0], [0.0, 1.0]])
    cover = ts.cover.find_cover(study, ts.Question("regret <= 0.5"), method="own")
    assert cover.sources.tolist() == [0, 1]


def test_a_method_of_a_user_in_the_command_and_in_a_run(register, tmp_path):
    register(lambda problem, question=None: replace(ts.greedy_cover(problem, question),
                                                    method="own"))  # fmt: skip
    file = tmp_path / "scores.csv"
    file.write_text("source,t,u\na,5,2\nb,2,5\n")
    said = taskspace(
        "cover", file, "--ask", "regret <= 1", "--method", "own", "--format", "json"
    )
    record = json.loads(said.stdout)
    assert (record["method"], record["sources"]) == ("own", [0, 1])
    options = ["space.n=4", "trainer.n_policies=2", 'cover.methods=["greedy", "own"]']
    run = run_experiment(load_experiment("msd", options), tmp_path / "run", workers=2)
    for _, (greedy, own) in run.results.by_question:
        assert (greedy.method, own.method) == ("greedy", "own")
        assert own.sources.tolist() == greedy.sources.tolist()


def test_a_method_that_leaves_targets_is_found(register):
    register(lambda problem, question=None: ts.greedy_cover(problem, budget=1))
    assert_fails("cover")


def test_a_bound_that_is_too_high_is_found(register):
    def proud(problem, question=None):
        cover = ts.greedy_cover(problem)
        return replace(cover, lower_bound=cover.size, optimal=True)

    register(proud)
    assert_fails("bound")


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_options_that_are_taken_and_not_kept_are_found(register, option):
    def deaf_to_include(problem, question=None, *, include=()):
        return ts.greedy_cover(problem)

    def deaf_to_exclude(problem, question=None, *, exclude=()):
        return ts.greedy_cover(problem)

    register(deaf_to_include if option == "include" else deaf_to_exclude)
    assert_fails(option)


def test_ties_that_go_to_the_last_are_found(register):
    def last(problem, question=None):
        cover = ts.cover.random_cover(problem, seed=0)
        assignment = np.full(cover.n_targets, -1)
        for source in np.sort(cover.sources):
            assignment[problem.row(int(source))] = source
        return replace(cover, assignment=assignment)

    register(last)
    assert_fails("ties")


def test_a_method_that_returns_no_cover_is_found(register):
    register(lambda problem, question=None: [0])
    assert_fails("cover")
