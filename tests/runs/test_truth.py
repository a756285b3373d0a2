"""What a run says is about what it holds: lost lines, other results, other code."""

import importlib
import json
import shutil
import sys
from typing import Any

import numpy as np
import pytest

import taskspace as ts
from taskspace._util.files import checksum
from taskspace.errors import DamagedFileError, InvalidInputError, RunStoreError
from taskspace.performance.work import Task, Work
from taskspace.policies import POLICY_KINDS, register_policy
from taskspace.runs import Experiment, RunFolder, run_experiment, run_selection
from taskspace.runs.execute import do_work, task_of
from tests.helpers import refused, taskspace
from tests.runs.test_kills import MSD
from tests.runs.test_runs_attack import reseal

QUESTION = ts.Question("regret", epsilon=0.4)


def covered(path):
    """The cover that a command prints; None where it refuses in one sentence."""
    done = taskspace("cover", path, "--ask", "regret <= 0.4", "--format", "json")
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        record = json.loads(done.stdout)
        return record["sources"], record["coverage"], record["lower_bound"]
    assert done.returncode == 2, done.stderr
    return None


def test_a_selection_that_lost_a_line_or_block_does_not_answer_from_the_rest(
    selected, tmp_path
):
    truth = covered(selected)
    lines = (selected / "selection.jsonl").read_text().splitlines(True)
    blocks = sorted(file.name for file in (selected / "trainings").iterdir())
    assert len(lines) == 2 * len(blocks) >= 8
    for lost in [*range(len(lines)), *blocks]:
        copy = tmp_path / str(lost)
        shutil.copytree(selected, copy)
        if isinstance(lost, int):
            rest = "".join(lines[:lost] + lines[lost + 1 :])
            (copy / "selection.jsonl").write_text(rest)
        else:
            (copy / "trainings" / lost).unlink()
        assert covered(copy) is None, lost
        assert taskspace("verify", copy).returncode in (1, 2), lost
        again = run_selection(Experiment.from_toml(MSD), copy, question=QUESTION)
        assert covered(again.path) == truth, lost


def test_results_of_another_run_are_not_believed(finished, tmp_path):
    other, mine = tmp_path / "other", tmp_path / "mine"
    run_experiment(Experiment.from_toml(MSD.replace("seed = 0", "seed = 1")), other)
    shutil.copytree(finished, mine)
    shutil.copy(other / "results.json", mine / "results.json")
    done = taskspace("verify", mine)
    assert done.returncode == 1
    assert "another table" in " ".join(done.stdout.split())
    with pytest.raises(DamagedFileError, match="another table"):
        _ = ts.open(mine).results
    truth = ts.open(finished).results
    assert ts.open(other).results.to_dict() != truth.to_dict()
    result = run_experiment(Experiment.from_toml(MSD), mine)
    assert result.results.to_dict() == truth.to_dict()
    assert ts.open(mine).results.to_dict() == truth.to_dict()
    assert any("another table" in clause for clause in result.mended)
    assert taskspace("verify", mine).returncode == 0


@pytest.mark.parametrize("kind", ["run", "selection"])
def test_verify_notices_a_change_of_any_file(finished, selected, tmp_path, kind):
    whole = finished if kind == "run" else selected
    assert taskspace("verify", whole).returncode == 0
    files = [f.relative_to(whole) for f in whole.rglob("*") if f.is_file()]
    files = [f for f in files if f.parts[0] != "figures" and f.name != ".lock"]
    assert len(files) >= 4
    for number, file in enumerate(files):
        copy = tmp_path / str(number)
        shutil.copytree(whole, copy)
        data = bytearray((copy / file).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / file).write_bytes(bytes(data))
        assert taskspace("verify", copy).returncode in (1, 2), file


# --- files that a stranger names --------------------------------------------------


class Opened:
    """Which of some files were opened, by anyone in this process."""

    def __init__(self, *files):
        self.files, self.found = {str(f) for f in files}, []
        self.is_on = True
        sys.addaudithook(self._hear)

    def _hear(self, event, arguments):
        if self.is_on and event == "open" and str(arguments[0]) in self.files:
            self.found.append(arguments[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_on = False


def test_a_cover_opens_no_file_outside_its_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    scores, secret = tmp_path / "scores.csv", tmp_path / "secret.csv"
    scores.write_text("name,t,u,v\na,3,1,2\nb,1,4,0\n")
    secret.write_text("1\n2\n")
    cover = tmp_path / "mine" / "cover.json"
    words = ("cover", scores, "--ask", "regret <= 1", "--costs", secret)
    assert taskspace(*words, "--save", cover).returncode == 0
    with Opened(secret) as opened:
        said = refused("verify", cover, scores)
    assert not opened.found
    assert "outside its folder" in said
    with Opened(secret) as opened:
        assert taskspace("verify", cover, scores, "--trust").returncode == 0
    assert opened.found
    shutil.copy(secret, tmp_path / "mine" / "costs.csv")
    values = json.loads(cover.read_text())
    values["question"]["costs"] = str(tmp_path / "mine" / "costs.csv")
    cover.write_text(json.dumps(values))
    assert taskspace("verify", cover, scores).returncode == 0
    values["question"] |= {"costs": None, "read": {"contexts": str(secret)}}
    cover.write_text(json.dumps(values))
    assert "a file of contexts outside its folder" in refused("verify", cover, scores)


def test_no_environment_is_built_with_arguments_of_a_stranger(
    finished, tmp_path, monkeypatch
):
    """The run of a stranger names a file as an argument of MuJoCo."""
    gymnasium = pytest.importorskip("gymnasium", reason="needs the extra 'rl'")
    built = []

    def make(*names, **arguments):
        built.append(arguments)
        raise InvalidInputError("This test makes no environment.")

    monkeypatch.setattr(gymnasium, "make", make)
    path, secret = tmp_path / "run", tmp_path / "secret.xml"
    secret.write_text("<mujoco/>")
    shutil.copytree(finished, path)
    text = (path / "experiment.toml").read_text()
    head, _, rest = text.partition("[system]\n")
    system = 'id = "gymnasium:Pendulum-v1"\naxes = {k = 1.0, c = 1.0}\n'
    system += f'arguments = {{xml_file = "{secret}"}}\n'
    text = f"{head}[system]\n{system}\n[{rest.partition(chr(10) + '[')[2]}"
    (path / "experiment.toml").write_text(text)
    reseal(path, experiment=checksum(text.encode()))
    for words in (
        ("cover", path, "--ask", "regret <= 0.4"),
        ("profile", path, "--time-limit", 5),
        ("certify", path, "--ask", "regret <= 0.4", "--time-limit", 1),
        ("explore", path, "--out", tmp_path / "page.html"),
        ("export", path, "--ask", "regret <= 0.4", "--to", tmp_path / "lib"),
        ("verify", path),
        ("run", path / "experiment.toml", "--out", path),
        ("doctor", path / "experiment.toml"),
    ):
        done = taskspace(*words)
        assert "Traceback" not in done.stderr, words
        assert not built, words
    assert "say --trust" in refused("run", path / "experiment.toml", "--out", path)
    # Negative control: with trust it is built.
    taskspace("doctor", path / "experiment.toml", "--trust")
    assert built[0]["xml_file"] == str(secret)


# --- code that was edited ---------------------------------------------------------

MODULE = """
import taskspace as ts


class Trainer(ts.trainers.Lqr):
    def train(self, system, contexts, *, seed, **more):
        trained = super().train(system, contexts, seed=seed, **more)
        policies = ts.policies.LinearGain(FACTOR * trained.policies.gain)
        return ts.trainers.Trained(policies, trained.environment_steps)
"""
OWN = MSD.replace('id = "lqr"', 'id = "edited_trainer:Trainer"')


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    """Writes the module of a trainer; loads it as another process would."""
    assert OWN != MSD
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(factor, note=""):
        text = MODULE.replace("FACTOR", str(factor)) + note
        (tmp_path / "edited_trainer.py").write_text(text)
        importlib.invalidate_caches()
        sys.modules.pop("edited_trainer", None)
        task_of.cache_clear()
        return Experiment.from_toml(OWN)

    yield write
    sys.modules.pop("edited_trainer", None)


def test_a_run_whose_trainer_was_edited_is_noticed(trainer, tmp_path):
    path = tmp_path / "run"
    whole = run_experiment(trainer(1.0), path)
    # A comment is no other trainer.
    again = run_experiment(trainer(1.0, "# a note"), path)
    assert again.results.covers[0].sources.tolist() == (
        whole.results.covers[0].sources.tolist()
    )
    before = (path / "run.json").read_text()
    with pytest.raises(RunStoreError, match=r"edited_trainer:Trainer was edited since"):
        run_experiment(trainer(1.25), path)
    assert (path / "run.json").read_text() == before


def test_a_worker_with_another_version_of_the_code_refuses(trainer, tmp_path):
    planned = trainer(1.0).for_workers[1]
    assert planned.key
    edited = trainer(1.25)
    assert edited.code_key != planned.key
    work = (np.array([0]), np.array([[1.0, 1.0, 1.0]]))
    with pytest.raises(RunStoreError, match="another version of edited_trainer"):
        do_work(OWN, planned, (), Work(*work))
    # Negative control: the version that it was planned with does the work.
    same = trainer(1.0).for_workers[1]
    assert same.key == planned.key
    assert do_work(OWN, same, (), Work(*work)).policies.home.shape == (1, 2)


def test_processes_refuse_code_that_was_edited_after_planning(trainer, tmp_path):
    experiment = trainer(1.0)
    _ = experiment.built_trainer  # imported: this is the code that plans
    file = tmp_path / "edited_trainer.py"
    file.write_text(file.read_text() + "\n# edited while it was planned\n")
    with pytest.raises(RunStoreError, match="another version"):
        run_experiment(experiment, tmp_path / "run", workers=2)


# --- policies of your own ---------------------------------------------------------

POLICIES = """
from dataclasses import dataclass

import numpy as np
import taskspace as ts
from taskspace.policies import Policy, register_policy


@dataclass(frozen=True, eq=False)
class Shifted(Policy):
    gain: np.ndarray
    shift: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "note", lambda: "cannot be pickled")

    def arrays(self):
        return {"gain": self.gain}

    def settings(self):
        return {"shift": self.shift}

    def act(self, observation):
        return -self.gain @ observation + self.shift


def score(context, policy):
    return -1.0 - abs(float(policy.gain[0, 0]) - context["length"]) - policy.shift


def system():
    axis = ts.systems.ContextAxis("length", 1.0)
    return ts.systems.FunctionSystem(score, [axis])


class Trainer(ts.trainers.Trainer):
    id = "shifted"
    n_policies = 1
    steps_per_source = 0

    def train(self, system, contexts, *, seed, **more):
        gain = np.asarray(contexts, float).reshape(-1, 1, 1, 1) + 0.125
        steps = np.zeros((len(gain), 1), np.int64)
        return ts.trainers.Trained(Shifted(gain, 0.25), steps)
"""
REGISTERED = POLICIES + '\n\nregister_policy("shifted", Shifted)\n'
SHIFTED = {
    "name": "shifted",
    "seed": 0,
    "system": {"id": "own_policies:system"},
    "space": {"length": [1.0, 2.0, 4]},
    "trainer": {"id": "own_policies:Trainer"},
    "ask": "regret <= 0.5",
    "cover": {"methods": ["greedy"]},
}


@pytest.fixture
def own_policies(tmp_path, monkeypatch):
    """Writes the module of a user's policies."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "own_policies.py").write_text(text)
        importlib.invalidate_caches()
        sys.modules.pop("own_policies", None)
        return Experiment.from_dict(SHIFTED)

    yield write
    sys.modules.pop("own_policies", None)
    POLICY_KINDS.pop("shifted", None)


@pytest.mark.parametrize("workers", [0, 2])
def test_policies_of_your_own_are_stored(own_policies, tmp_path, workers):
    """Also those with a part that cannot be pickled, by two workers."""
    run_experiment(own_policies(REGISTERED), tmp_path / "run", workers=workers)
    study = ts.open(tmp_path / "run")
    assert type(study.policies).__name__ == "Shifted"
    policies: Any = study.policies
    assert policies.shift == 0.25
    first = policies[0, 0]
    assert first.act(np.array([2.0])) == -first.gain[0] * 2.0 + 0.25
    # Without the module the table is read all the same, and the sentence says how.
    POLICY_KINDS.pop("shifted", None)
    alone = ts.open(tmp_path / "run")
    assert ts.minimum_cover(alone, "regret <= 0.5").coverage == 1.0
    assert taskspace("verify", tmp_path / "run").returncode == 0
    with pytest.raises(InvalidInputError, match="register_policy"):
        alone.policies[0, 0].act(np.array([2.0]))


@pytest.mark.parametrize("workers", [0, 2])
def test_policies_that_are_not_registered_get_a_sentence(
    own_policies, tmp_path, workers
):
    experiment = own_policies(POLICIES)
    with pytest.raises(InvalidInputError, match="register_policy"):
        run_experiment(experiment, tmp_path / "run", workers=workers)
    assert not (tmp_path / "run" / "results.json").exists()


def test_a_kind_has_one_class():
    with pytest.raises(InvalidInputError, match="is that of LinearGain"):
        register_policy("linear-gain", ts.policies.Mlp)
    with pytest.raises(InvalidInputError, match="subclass of Policy"):
        register_policy("mine", dict)


def test_a_parallel_selection_without_workers_loses_nothing_to_a_kill(
    tmp_path, monkeypatch
):
    """Killed in its second training, it has stored the first one."""
    begun = []

    def killed(task, work, *, record_failures, real=Task.do):
        begun.append(int(work.numbers[0]))
        if len(begun) == 2:
            raise KeyboardInterrupt
        return real(task, work, record_failures=record_failures)

    experiment = Experiment.from_toml(MSD + "[select]\nn_parallel = 2\n")
    monkeypatch.setattr(Task, "do", killed)
    with pytest.raises(KeyboardInterrupt):
        run_selection(experiment, tmp_path / "run", question=QUESTION, workers=0)
    assert begun == [0, 1]
    assert RunFolder.open(tmp_path / "run").trainings.evaluated.tolist()[:1] == [True]
    monkeypatch.undo()
    again = run_selection(experiment, tmp_path / "run", question=QUESTION, workers=0)
    whole = run_selection(experiment, tmp_path / "whole", question=QUESTION, workers=0)
    assert again.result.history == whole.result.history
