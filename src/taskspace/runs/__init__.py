"""Whole experiments: from a TOML file to a run directory that can be resumed."""

from taskspace.runs.execute import RunResult, run_experiment
from taskspace.runs.experiment import (
    Experiment,
    builtin_experiments,
    load_experiment,
)
from taskspace.runs.opened import OpenedRun, open_run
from taskspace.runs.selection import SelectionRun, run_selection
from taskspace.runs.store import RunStore

__all__ = [
    "Experiment",
    "OpenedRun",
    "RunResult",
    "RunStore",
    "SelectionRun",
    "builtin_experiments",
    "load_experiment",
    "open_run",
    "run_experiment",
    "run_selection",
]
