"""Whole experiments: from a TOML file to a run directory that can be resumed."""

from typing import TYPE_CHECKING

from taskspace._util.lazy import lazy_names

if TYPE_CHECKING:
    from taskspace.runs.execute import RunResult, run_experiment
    from taskspace.runs.experiment import (
        Experiment,
        builtin_experiments,
        load_experiment,
    )
    from taskspace.runs.opening import open_study
    from taskspace.runs.selection import SelectionRun, run_selection
    from taskspace.runs.store import RunStore

__getattr__, __dir__ = lazy_names(
    "taskspace.runs",
    {
        "Experiment": "taskspace.runs.experiment",
        "RunResult": "taskspace.runs.execute",
        "RunStore": "taskspace.runs.store",
        "SelectionRun": "taskspace.runs.selection",
        "builtin_experiments": "taskspace.runs.experiment",
        "load_experiment": "taskspace.runs.experiment",
        "open_study": "taskspace.runs.opening",
        "run_experiment": "taskspace.runs.execute",
        "run_selection": "taskspace.runs.selection",
    },
)

__all__ = [
    "Experiment",
    "RunResult",
    "RunStore",
    "SelectionRun",
    "builtin_experiments",
    "load_experiment",
    "open_study",
    "run_experiment",
    "run_selection",
]
