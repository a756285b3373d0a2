"""Coverage is claimed only against a reference that does not come from luck.

Without a known optimum the best policy seen has regret 0 by definition. These worlds
need many policies, and every policy looks perfect until others are trained.
"""

import json

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.errors import ContradictionError
from taskspace.performance.ledger import Ledger
from taskspace.policies import LinearGain
from taskspace.runs import Experiment, RunFolder, run_experiment, run_selection
from taskspace.runs.folder import layout_of
from taskspace.selection.loop import UNKNOWN
from taskspace.systems.base import ContextAxis
from taskspace.systems.function import FunctionSystem
from taskspace.trainers.base import Trained
from tests.helpers import zipped

from .worlds import Copy, Line

N = 41
NODES = ts.Grid(x0=(0.0, N - 1.0, N))


class Alone(Line):
    """Every context needs a policy of its own: J is 1 at home and 0 elsewhere."""

    def performance(self, policies, contexts):
        away = policies.gain[..., 0, :][:, :, None] != contexts
        return 1.0 - away.any(-1)

    def optimum(self, contexts):
        return None


@pytest.fixture(scope="module")
def needed():
    """The table of all candidates, of which every one is needed."""
    table = ts.evaluate(Alone(), Copy(), NODES, seed=0).table
    assert ts.minimum_cover(QUESTION.sets(table)).lower_bound == N
    return table


QUESTION = ts.Question("regret", epsilon=0.5)


def select(**options):
    return ts.select(Alone(), Copy(), NODES, QUESTION, **options)


@pytest.mark.parametrize("selector", ["coverage", "farthest", "random", "uniform"])
def test_nothing_is_covered_by_the_best_policy_seen(selector, needed):
    result = select(selector=selector)
    assert result.trainings < N
    assert result.stop_reason == UNKNOWN
    assert result.coverage is None
    assert json.loads(json.dumps(result.record()["coverage"])) is None
    assert result.covered_at_least == result.trainings / N
    assert len(result.without_reference) == N - result.trainings
    assert result.history[-1]["coverage"] == result.trainings / N
    assert result.cover.size == result.trainings
    # The same selection beside the truth: what it claims is what is there.
    beside = select(selector=selector, full_table=needed)
    assert beside.trainings == result.trainings
    assert beside.coverage == result.covered_at_least < 1
    assert beside.lower_bound_trainings == N


def test_a_selection_that_trains_everywhere_has_every_reference(needed):
    """With patience for all candidates it is a run, and says what a run says."""
    result = select(selector="farthest", patience=200, full_table=needed)
    assert result.stop_reason == "covered"
    assert (result.trainings, result.coverage, result.cover.size) == (N, 1.0, N)


def test_a_stated_reference_makes_coverage_known():
    result = select(selector="farthest", reference=1.0)
    assert (result.trainings, result.coverage) == (N, 1.0)
    assert result.stop_reason == "covered"


def tank_gain(flow):
    """The best gain of a controlled tank: its outflow goes with the root."""
    return 1.0 + 4.0 * np.sqrt(flow)


def tank_score(context, policy):
    """J falls with the distance of a gain from the best one."""
    away = float(policy.gain.item()) - tank_gain(context["flow"])
    return -(1.0 + context["flow"]) * (1.0 + 30.0 * away**2)


class Tuned(Copy):
    """Finds the best gain of the tank."""

    def train(self, system, contexts, *, seed, progress=None):
        gains = tank_gain(contexts)[:, None, None]
        return Trained(LinearGain(gains), np.zeros(gains.shape[:2], np.int64))


def test_a_tank_without_a_known_optimum_is_not_called_covered():
    system = FunctionSystem(tank_score, [ContextAxis("flow", 1.0)])
    space = ts.Grid(flow=(0.1, 4.0, 60))
    question = ts.Question("ratio", epsilon=0.1)
    table = ts.evaluate(system, Tuned(), space, seed=0).table
    result = ts.select(system, Tuned(), space, question, seed=0)
    assert result.trainings < ts.minimum_cover(question.sets(table)).lower_bound
    assert result.stop_reason == UNKNOWN
    assert result.coverage is None
    # What is said to be served is served by the truth as well.
    rows = np.searchsorted(space.points[:, 0], result.table["source_flow"].values)
    served = np.any(question.losses(table).values[rows] <= 0.1, axis=0)
    claimed = np.setdiff1d(np.arange(60), result.without_reference)
    assert len(claimed) == round(60 * result.covered_at_least) > 0
    assert served[claimed].all()
    assert served.mean() < 0.6


EXPERIMENT = {
    "name": "line",
    "seed": 0,
    "system": {"id": "tests.selection.worlds:Line", "optimum_known": False},
    "space": {"x0": [0.0, 20.0, 21]},
    "trainer": {"id": "tests.selection.worlds:Copy", "fails_at": [0.0, 20.0]},
    "ask": "regret <= 2",
    "cover": {"methods": ["minimum"]},
}


def test_a_failed_training_leaves_its_context_without_reference(tmp_path):
    """Before, the best of the other policies counted as the best possible there."""
    found = run_experiment(Experiment.from_dict(EXPERIMENT), tmp_path / "run")
    answer = found.results.covers[0]
    assert answer.without_reference == (0, 20)
    assert answer.uncoverable.tolist() == [0, 20]
    assert answer.unserved == []
    assert answer.coverage == 19 / 21
    table = RunFolder.open(tmp_path / "run").table()
    np.testing.assert_array_equal(
        np.isnan(table["best_known"].values), np.isin(np.arange(21), [0, 20])
    )
    assert "where a policy was trained" in table.attrs["best_known_kind"]
    question = Experiment.from_dict(EXPERIMENT).ask[0]
    assert np.isinf(question.losses(table).values[:, [0, 20]]).all()
    # Floor needs no reference, and regret has one where the optimum is known.
    floor = ts.Question("floor", epsilon=2.0)
    assert floor.without_reference(table).tolist() == []
    assert ts.minimum_cover(floor.sets(table)).coverage == 1.0
    system = {"id": "tests.selection.worlds:Line"}
    optimal = Experiment.from_dict(EXPERIMENT | {"system": system})
    answer = run_experiment(optimal, tmp_path / "optimal").results.covers[0]
    assert answer.without_reference == ()
    assert answer.coverage == 1.0


def test_commands_name_targets_without_reference(tmp_path):
    run = tmp_path / "run"
    run_experiment(Experiment.from_dict(EXPERIMENT), run)
    said = CliRunner().invoke(app, ["cover", str(run), "--ask", "regret <= 2"]).output
    assert "2 targets have no reference" in " ".join(said.split())
    assert "served by no source" not in " ".join(said.split())
    done = CliRunner().invoke(
        app, ["cover", str(run), "--ask", "regret <= 2", "--format", "json"]
    )
    record = json.loads(done.stdout)
    assert record["without_reference"] == [0, 20]
    assert record["reference"] == "best of the table where a policy was trained"
    assert record["coverage"] == 19 / 21
    certified = ts.certify(RunFolder.open(run).table(), QUESTION_2)
    grid = next(c for c in certified.certificates if c.name == "grid cover")
    assert not grid.holds
    assert "2 targets have no reference" in grid.why
    assert "served by no source" not in grid.why


QUESTION_2 = ts.Question("regret", epsilon=2.0)


def test_a_file_keeps_what_has_no_reference(tmp_path):
    table = ts.evaluate(Line(optimum_known=False), Copy(), NODES, seed=0).table
    reference = table["best_known"].values.copy()
    reference[3] = np.nan
    table = table.assign(best_known=("target", reference)).assign_attrs(
        best_known_kind="best of the table where a policy was trained"
    )
    back = ts.performance.read_matrix(
        ts.performance.write_matrix(table, tmp_path / "m.npz")
    )
    np.testing.assert_array_equal(back["best_known"].values, reference)


def test_an_unfinished_run_has_no_reference_where_it_has_no_policy(tmp_path):
    trainer = {"id": "tests.selection.worlds:Copy"}
    experiment = Experiment.from_dict(EXPERIMENT | {"trainer": trainer}).resolved()
    layout = replace(layout_of(experiment), rows=1)
    store = RunFolder.create(tmp_path / "run", experiment, layout=layout)
    ledger = store.ledger()
    prefix, work = ledger.missing()[0]
    ledger.tell(work, ledger.task.do(work), prefix)
    table = store.table()
    assert table.sizes["source"] == 1
    assert QUESTION_2.without_reference(table).tolist() == list(range(1, 21))


def test_a_selection_on_disk_says_what_is_not_known(tmp_path):
    trainer = {"id": "tests.selection.worlds:Copy"}
    experiment = Experiment.from_dict(EXPERIMENT | {"trainer": trainer})
    found = run_selection(experiment, tmp_path / "out").result
    assert found.coverage is None
    lacking = found.without_reference.tolist()
    assert lacking
    table = RunFolder.open(tmp_path / "out").table()
    assert QUESTION_2.without_reference(table).tolist() == lacking
    again = run_selection(experiment, tmp_path / "out").result
    assert again.history == found.history
    assert again.without_reference.tolist() == lacking
    table = RunFolder.open(tmp_path / "out").table()
    assert QUESTION_2.without_reference(table).tolist() == lacking
    opened = ts.open(zipped(tmp_path / "out")).table
    assert QUESTION_2.without_reference(opened).tolist() == lacking
    # The command says it, and what to state.
    (tmp_path / "e.toml").write_text(experiment.to_toml())
    out = str(tmp_path / "out")
    done = CliRunner().invoke(app, ["select", str(tmp_path / "e.toml"), "--out", out])
    said = " ".join(done.output.split())
    assert "Coverage is unknown" in said
    assert "select.reference" in said
    assert "--ask 'score >= J'" in said
    assert "cover 100 %" not in said


def test_the_gate_refuses_a_selection_below_the_minimum(needed, monkeypatch):
    """A planted error: the selection forgets that targets have no reference."""

    def forget(self, reference, kind):
        self.reference, self.version = self.top(), self.version + 1

    monkeypatch.setattr(Ledger, "state_reference", forget)
    monkeypatch.setattr("taskspace.selection.selecting._differs", lambda *_: "")
    monkeypatch.setattr(
        "taskspace.selection.selecting._referred", lambda table, *_: (table, "")
    )
    with pytest.raises(ContradictionError, match=f"at least {N} trainings"):
        select(full_table=needed)
