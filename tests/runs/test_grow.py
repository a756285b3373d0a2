"""A run whose space grows keeps what was trained, and ends in a fresh run's bytes."""

from contextlib import contextmanager

import pytest

from taskspace.errors import RunStoreError
from taskspace.runs import Experiment, load_experiment, run_experiment
from taskspace.runs import execute as execute_module
from taskspace.runs import folder as folder_module
from taskspace.systems import CartPole, MassSpringDamper
from taskspace.trainers import Lqr
from tests.runs.test_kills import CARTPOLE
from tests.runs.test_runs_attack import digests


def words(n: int, *more: str) -> list[str]:
    return [
        f"space.k=[1.0, {n}.0, {n}]", f"space.c=[1.0, {n}.0, {n}]",
        "trainer.n_policies=2", "cover.n_repeats=5", *more,
    ]  # fmt: skip


def square(n: int, *more: str):
    return load_experiment("msd", words(n, *more))


@pytest.fixture
def trained(monkeypatch):
    """Cut trainings into blocks of five sources, and note what is trained."""
    monkeypatch.setattr(Lqr, "sources_per_block", 5)
    seen: list[tuple[float, ...]] = []

    def spy(self, system, contexts, *, seed, real=Lqr.train):
        seen.extend(map(tuple, contexts.tolist()))
        return real(self, system, contexts, seed=seed)

    monkeypatch.setattr(Lqr, "train", spy)
    return seen


@pytest.fixture
def evaluated(monkeypatch):
    """Cut the table into blocks of few cells, and count evaluated cells."""
    monkeypatch.setattr("taskspace.runs.folder.BLOCK_CELLS", 200)
    seen: list[int] = []

    def spy(self, policies, contexts, real=MassSpringDamper.measure):
        found = real(self, policies, contexts)
        seen.append(found["performance"].size)
        return found

    monkeypatch.setattr(MassSpringDamper, "measure", spy)
    return seen


@contextmanager
def failing_at(value, monkeypatch):
    """Let the training at one context fail."""

    def train(self, system, contexts, *, seed, real=Lqr.train):
        if (contexts[:, :2] == value).all(1).any():
            raise ArithmeticError(f"at {value}")
        return real(self, system, contexts, seed=seed)

    with monkeypatch.context() as patch:
        patch.setattr(Lqr, "train", train)
        yield


class KilledError(BaseException):
    """Ends a run where it stands, as a kill would."""


def _killed(*_, **__):
    raise KilledError


def kill(experiment, path, monkeypatch, at=(execute_module, "_work_off")):
    """Run an experiment until it comes to some function."""
    with monkeypatch.context() as patch:
        patch.setattr(*at, _killed)
        with pytest.raises(KilledError):
            run_experiment(experiment, path)


def test_only_what_is_new_is_done_and_the_bytes_are_those_of_a_fresh_run(
    tmp_path, trained, evaluated
):
    run_experiment(square(6), tmp_path / "fresh")
    every = set(trained)
    assert sum(evaluated) == 36 * 36 * 2
    trained.clear()
    run_experiment(square(4), tmp_path / "grown")
    old = set(trained)
    trained.clear()
    evaluated.clear()
    run_experiment(square(6), tmp_path / "grown")
    assert len(trained) == 36 - 16
    assert set(trained) == every - old
    assert sum(evaluated) == (36 * 36 - 16 * 16) * 2
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")
    assert run_experiment(square(6), tmp_path / "grown").reused


def test_further_sources_and_the_same_targets_evaluate_only_those(tmp_path, evaluated):
    targets = ["targets.k=[1.0, 5.0, 5]", "targets.c=[1.0, 5.0, 5]"]
    run_experiment(square(4, *targets), tmp_path / "fresh")
    run_experiment(square(3, *targets), tmp_path / "grown")
    evaluated.clear()
    run_experiment(square(4, *targets), tmp_path / "grown")
    assert sum(evaluated) == (16 - 9) * 25 * 2
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


@pytest.mark.parametrize("damaged", ["one", "other", "all"])
def test_kept_blocks_that_are_damaged_are_made_again(
    tmp_path, trained, evaluated, monkeypatch, damaged
):
    run_experiment(square(5), tmp_path / "fresh")
    run_experiment(square(4), tmp_path / "grown")
    kill(square(5), tmp_path / "grown", monkeypatch)
    files = sorted((tmp_path / "grown" / "trainings").iterdir())
    for file in {"one": files[:1], "other": files[1:2], "all": files}[damaged]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        file.write_bytes(data)
    trained.clear()
    evaluated.clear()
    run_experiment(square(5), tmp_path / "grown")
    assert (25 * 25 - 16 * 16) * 2 < sum(evaluated) <= 25 * 25 * 2
    assert damaged != "all" or len(trained) == 25
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


def test_a_kill_and_a_second_growth_lose_nothing_and_nothing_is_taken_back(
    tmp_path, trained, evaluated, monkeypatch
):
    run_experiment(square(6), tmp_path / "fresh")
    run_experiment(square(4), tmp_path / "grown")
    kill(square(5), tmp_path / "grown", monkeypatch)
    with pytest.raises(RunStoreError, match="none taken away"):
        run_experiment(square(4), tmp_path / "grown")
    trained.clear()
    evaluated.clear()
    run_experiment(square(6), tmp_path / "grown")
    assert len(trained) == 36 - 16
    assert sum(evaluated) == (36 * 36 - 16 * 16) * 2
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


def test_cells_of_a_source_that_had_failed_are_not_kept(
    tmp_path, evaluated, monkeypatch
):
    run_experiment(square(4), tmp_path / "fresh")

    with failing_at(3.0, monkeypatch):
        partly = run_experiment(square(3), tmp_path / "grown")
    assert len(partly.results.failures) == 1
    evaluated.clear()
    run_experiment(square(4), tmp_path / "grown")
    assert sum(evaluated) == (16 * 16 - 8 * 9) * 2
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


AT = {
    "before": (folder_module.RunFolder, "save_info"),
    "asked": (folder_module, "write_atomically"),
    "train": (execute_module, "_work_off"),
    "answer": (execute_module, "answer"),
    "finish": (folder_module.RunFolder, "finish"),
}


@pytest.mark.parametrize("at", AT)
def test_killed_in_between_nothing_trained_is_lost(tmp_path, trained, monkeypatch, at):
    run_experiment(square(5), tmp_path / "fresh")
    run_experiment(square(3), tmp_path / "grown")
    trained.clear()
    kill(square(5), tmp_path / "grown", monkeypatch, AT[at])
    run_experiment(square(5), tmp_path / "grown")
    assert len(trained) == 25 - 9
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


def test_further_targets_need_no_training(tmp_path, trained):
    targets = [
        "targets.k=[1.0, 5.0, 5]", "targets.c=[1.0, 5.0, 5]",
    ]  # fmt: skip
    run_experiment(square(3, *targets), tmp_path / "fresh")
    run_experiment(square(3), tmp_path / "grown")
    trained.clear()
    run_experiment(square(3, *targets), tmp_path / "grown")
    assert trained == []
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


@pytest.mark.parametrize("change", [(2,), (5, "trainer.noise=0.3"), (5, "seed=1")])
def test_other_differences_are_refused_untouched(tmp_path, change):
    run_experiment(square(3), tmp_path / "run")
    before = digests(tmp_path / "run")
    with pytest.raises(RunStoreError, match="holds another experiment"):
        run_experiment(square(*change), tmp_path / "run")
    assert digests(tmp_path / "run") == before


def test_failures_beside_what_was_kept(tmp_path, trained, monkeypatch):
    run_experiment(square(4), tmp_path / "fresh")
    run_experiment(square(3), tmp_path / "grown")

    with failing_at(4.0, monkeypatch):
        partly = run_experiment(square(4), tmp_path / "grown")
    (failure,) = partly.results.failures
    assert "at 4.0" in failure["reason"]
    assert (failure["context"]["k"], failure["context"]["c"]) == (4.0, 4.0)
    run_experiment(square(4), tmp_path / "grown")
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")


@pytest.mark.slow
def test_episodes_that_were_played_are_kept(tmp_path, monkeypatch):
    """A simulated system: per-episode returns and all, in the bytes of a fresh run."""
    small = Experiment.from_toml(CARTPOLE)
    more = CARTPOLE.replace("[0.5, 1.0, 2]", "{values = [0.5, 0.75, 1.0]}")
    large = Experiment.from_toml(more)
    run_experiment(large, tmp_path / "fresh", workers=0)
    run_experiment(small, tmp_path / "grown", workers=0)
    played = []

    def spy(self, policies, contexts, real=CartPole.measure):
        played.append(policies.stack_shape[0] * len(contexts))
        return real(self, policies, contexts)

    monkeypatch.setattr(CartPole, "measure", spy)
    run_experiment(large, tmp_path / "grown", workers=0)
    assert sum(played) == 6 * 6 - 4 * 4
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")
