"""What is covered by means of episodes is called an estimate."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, EpisodicSystem
from tests.selection.worlds import Copy, Line

SPACE = ts.Grid(x=(0.0, 6.0, 7))
LEVEL = -1.2
QUESTION = ts.Question("floor", epsilon=-LEVEL)


@dataclass(frozen=True)
class Dice(EpisodicSystem):
    """Return of an episode: minus the distance, plus noise of its number alone."""

    horizon: int = 1
    n_episodes: int = 5
    episode_seed: int = 0
    id: ClassVar[str] = "dice-v0"

    @property
    def axes(self):
        return (ContextAxis("x", 0.0),)

    def returns(self, policies, contexts, *, episodes=None):
        assert isinstance(policies, LinearGain)
        numbers = self.episode_numbers(episodes)
        noise = [np.random.default_rng([7, e]).normal() for e in numbers]
        distance = np.abs(policies.gain[..., 0, 0][..., None] - contexts[:, 0])
        return (np.array(noise) - distance[..., None]).astype(np.float32)


def test_targets_within_two_standard_errors_are_counted():
    result = ts.select(Dice(), Copy(), SPACE, QUESTION, seed=0)
    assert result.stop_reason == "covered"
    assert result.scope == " on the estimated table"
    # By hand: mean and standard error of the five returns of the best source.
    returns = Dice().returns(result.study.policies, SPACE.points)[:, 0].astype(float)
    mean, error = returns.mean(-1), returns.std(-1, ddof=1) / np.sqrt(5)
    sure = (mean - 2 * error >= LEVEL).any(0)
    assert result.close.tolist() == np.flatnonzero(~sure).tolist()
    assert 0 < len(result.close) < SPACE.size
    assert "on the estimated table" in repr(result)
    # Many episodes leave nothing close, and exact numbers have no errors.
    many = ts.select(Dice(n_episodes=2000), Copy(), SPACE, QUESTION, seed=0)
    assert len(many.close) == 0
    line = ts.Grid(x0=(0.0, 6.0, 7))
    exact = ts.select(Line(), Copy(), line, QUESTION, seed=0)
    assert exact.scope == ""
    assert len(exact.close) == 0


def test_a_bound_by_an_estimated_table_says_so():
    table = ts.evaluate(Dice(), Copy(), SPACE, seed=0).table
    result = ts.select(Dice(), Copy(), SPACE, QUESTION, seed=0, full_table=table)
    least = result.lower_bound_trainings
    assert least > 1
    assert f"fewer than {least} trainings of the estimated table" in repr(result)
    labels = ts.show.history(result).axes[0].get_legend_handles_labels()[1]
    assert f"no selector needs fewer than {least} of the estimated table" in labels
    figure = ts.show.coverage(ts.Study.of(table), QUESTION)
    notes = [n for axes in figure.axes for n in axes.get_legend_handles_labels()[1]]
    assert any("proven of the estimated table: at least" in note for note in notes)
    assert not any("proven: at least" in note for note in notes)


EXPERIMENT = f"""
name = "dice"
seed = 0
ask = "score >= {LEVEL}"
[system]
id = "tests.selection.test_estimates:Dice"
[space]
x = [0.0, 6.0, 7]
[trainer]
id = "tests.selection.worlds:Copy"
"""


def test_the_command_says_so_and_what_comes_next(tmp_path):
    (tmp_path / "dice.toml").write_text(EXPERIMENT)
    words = ["select", str(tmp_path / "dice.toml"), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, "--trust"])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "of 7 targets on the estimated table: covered." in said
    assert "by less than two standard errors" in said
    assert "Next: taskspace certify" in said
