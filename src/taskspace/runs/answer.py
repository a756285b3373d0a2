"""What an experiment asks of its table: covers, curves, and what they cost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from taskspace.cover import COVER_METHODS, CoverageCurve, coverage_curve
from taskspace.criteria import table_sets
from taskspace.runs.covers import cover_record, find_cover
from taskspace.runs.experiment import CriterionSpec, Experiment
from taskspace.systems.simulated import SimulatedSystem

__all__ = ["Report", "answer"]

Report = Callable[[str, int, int], None]
"""Called with a stage's name, and how many of how many pieces are done."""

# Points kept of a coverage curve: as many as a picture can show.
CURVE_POINTS = 300


def answer(
    table: xr.Dataset, experiment: Experiment, report: Report | None = None
) -> dict[str, Any]:
    """Everything an experiment asks of its table, as plain JSON values.

    Args:
        table: the performance table.
        experiment: the criteria, tolerances and methods.
        report: told about progress.

    Returns:
        `covers`, `curves`, `spent` and `home`. No time and no machine is in it.
    """
    report = report or (lambda stage, done, total: None)
    shape = getattr(experiment.sources, "shape", None)
    methods = [m for m in experiment.cover.methods if m != "uniform" or shape]
    tasks = [(spec, e) for spec in experiment.criteria for e in spec.epsilon]
    steps = len(tasks) * (len(methods) + 1)
    covers: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for number, (spec, epsilon) in enumerate(tasks):
        done = number * (len(methods) + 1)
        report("cover", done, steps)
        sets = table_sets(table, spec.criterion, spec.family, epsilon)
        for step, method in enumerate(methods):
            report("cover", done + step + 1, steps)
            cover = find_cover(
                sets,
                method,
                shape=shape,
                time_limit=experiment.cover.time_limit,
                seed=experiment.seed,
            )
            record = cover_record(
                cover,
                table=table,
                criterion=spec.criterion,
                family=spec.family,
                epsilon=epsilon,
            )
            del record["seconds"]
            if method in ("greedy", "uniform", "random"):
                curve = coverage_curve(
                    sets,
                    method=method,
                    n_repeats=experiment.cover.n_repeats,
                    seed=experiment.seed,
                    shape=shape,
                )
                curves.append(_curve_record(curve, spec, epsilon))
                if method == "random":
                    record["sizes"] = _spread(curve)
            record["assignment"] = cover.assignment.tolist()
            covers.append(record)
    report("cover", steps, steps)
    return {
        "covers": covers,
        "curves": curves,
        "best_known_kind": table.attrs["best_known_kind"],
        "spent": _spent(table),
        "home": _home(table, experiment),
    }


def _curve_record(
    curve: CoverageCurve, spec: CriterionSpec, epsilon: float
) -> dict[str, Any]:
    # All of a short curve; of a long one as many points as a picture can show.
    n = len(curve.n_policies)
    spread = np.geomspace(1, n, CURVE_POINTS) if n > CURVE_POINTS else np.arange(1, n)
    kept = np.unique(np.append(spread.round().astype(int), n) - 1)
    return {
        "criterion": spec.criterion,
        "family": spec.family,
        "epsilon": epsilon,
        "method": curve.method,
        "n_policies": curve.n_policies[kept].tolist(),
        "coverage": curve.coverage[kept].round(6).tolist(),
        "low": curve.low[kept].round(6).tolist(),
        "high": curve.high[kept].round(6).tolist(),
    }


def _spread(curve: CoverageCurve) -> dict[str, float]:
    return {
        "mean": float(curve.sizes.mean()),
        "least": int(curve.sizes.min()),
        "most": int(curve.sizes.max()),
    }


def _home(table: xr.Dataset, experiment: Experiment) -> dict[str, Any] | None:
    """How many policies learned their own task, where the system says what that is."""
    system = experiment.built_system
    if not isinstance(system, SimulatedSystem) or system.solved_return is None:
        return None
    scores = table["home_performance"].values
    solved = scores >= system.solved_return
    return {
        "solved_return": system.solved_return,
        "n_policies": int(scores.size),
        "n_failed": int((~solved).sum()),
        "n_sources_with_a_failure": int((~solved).any(1).sum()),
        "n_sources_all_failed": int((~solved).all(1).sum()),
        "worst": float(scores.min()),
    }


def _spent(table: xr.Dataset) -> dict[str, Any]:
    """What the whole table cost, and one source of it: the price of an oracle.

    `greedy`, `local` and `minimum` choose from the finished table, so they need all
    of it; `uniform` and `random` need the sources that they select.
    """
    n_sources, n_targets = table.sizes["source"], table.sizes["target"]
    n_policies = table.sizes["policy"]
    steps = int(table["environment_steps"].sum())
    return {
        "oracle_methods": [m for m in COVER_METHODS if m not in ("uniform", "random")],
        "trainings": n_sources * n_policies,
        "evaluations": n_sources * n_policies * n_targets,
        "environment_steps": steps,
        "trainings_per_source": n_policies,
        "evaluations_per_source": n_policies * n_targets,
        "environment_steps_per_source": steps / n_sources,
    }
