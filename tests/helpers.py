"""Systems, tables and the command line, as several tests use them."""

import io
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import taskspace as ts
from taskspace.cli import app, main
from taskspace.systems import ContextAxis, LinearFamily


def four_states(**options) -> LinearFamily:
    """Two coupled masses; the context is their coupling. No fast path."""
    return LinearFamily(
        context_axes=[
            ContextAxis("coupling", 0.3, "N/m", low=0.0),
            ContextAxis("mass", 1.0, "kg", low=0.0, low_open=True),
        ],
        A=lambda coupling, mass: [
            [0, 1, 0, 0],
            [-(2 + coupling) / mass, -0.4 / mass, coupling / mass, 0],
            [0, 0, 0, 1],
            [coupling, 0, -(1 + coupling), -0.2],
        ],
        B=lambda coupling, mass: [[0, 0], [1 / mass, 0], [0, 0], [0, 1]],
        **({"Q": np.diag([3.0, 1.0, 2.0, 1.0]), "R": np.eye(2)} | options),
    )


def zipped(run: Path) -> Path:
    """A zip file of a run directory, beside it."""
    return Path(shutil.make_archive(str(run), "zip", run))


def msd_toml(
    axis: str = "[0.5, 8.0, 6]",
    *,
    seed: int = 0,
    n_policies: int = 2,
    noise: float = 0.1,
    epsilon: float = 0.4,
    more: str = '[cover]\nmethods = ["greedy", "random"]\nn_repeats = 4\n',
) -> str:
    """An experiment of the mass-spring-damper on a square grid."""
    return f"""
name = "small"
seed = {seed}
ask = "regret <= {epsilon}"
[system]
id = "msd-v1"
[space]
k = {axis}
c = {axis}
[trainer]
id = "lqr"
n_policies = {n_policies}
noise = {noise}
{more}"""


def small_table(n: int = 6, n_policies: int = 3, noise: float = 0.3):
    """A small table of the mass-spring-damper."""
    space = ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n))
    trainer = ts.trainers.Lqr(n_policies=n_policies, noise=noise)
    return ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=3).table


@cache
def command_of(name: str) -> Any:
    """The command of a name as its parser: `.params`, `.make_context`, `.epilog`."""
    root: Any = typer.main.get_command(app)
    return root.get_command(typer.Context(root), name)


def taskspace(*arguments, cwd=None) -> subprocess.CompletedProcess:
    """Run the command line in this process, which saves its imports."""
    words = ["taskspace", *map(str, arguments)]
    stdout, stderr = io.StringIO(), io.StringIO()
    code: str | int | None = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        patch.setenv("COLUMNS", "100")
        patch.setenv("NO_COLOR", "1")
        patch.chdir(cwd or ".")
        with redirect_stdout(stdout), redirect_stderr(stderr):
            try:
                main()
            except SystemExit as end:
                code = end.code
    return subprocess.CompletedProcess(
        words, int(code or 0), stdout.getvalue(), stderr.getvalue()
    )


def refused(*arguments, cwd=None) -> str:
    """The sentence that a bad input gets."""
    done = taskspace(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return re.sub(r"\s+", " ", done.stderr)


def block_of(run, number=0):
    """The file of one block of a run."""
    (file,) = run.glob(f"trainings/{number:05d}-*.npz")
    return file
