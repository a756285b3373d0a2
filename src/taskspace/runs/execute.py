"""Running an experiment: train, evaluate, cover; in one process or in many."""

import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from taskspace.cover import COVER_METHODS, CoverageCurve, coverage_curve
from taskspace.criteria import table_sets
from taskspace.errors import InvalidInputError, MissingExtraError, RunStoreError
from taskspace.performance import best_known, evaluate_block
from taskspace.runs.covers import cover_record, find_cover
from taskspace.runs.experiment import CriterionSpec, Experiment
from taskspace.runs.store import RunStore, write_atomically
from taskspace.systems.simulated import SimulatedSystem

__all__ = ["RunResult", "run_experiment"]

CURVE_POINTS = 300
Report = Callable[[str, int, int], None]
"""Called with a stage's name, and how many of how many pieces are done."""


@dataclass(frozen=True)
class RunResult:
    """What a run found.

    Args:
        path: the run directory.
        seconds: wall-clock time of this call.
        results: contents of `results.json`: `covers`, `curves`, `spent`, `home`.
        reused: nothing had to be computed.
    """

    path: Path
    seconds: float
    results: dict[str, Any]
    reused: bool


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    report: Report | None = None,
) -> RunResult:
    """Run an experiment into a directory, or finish one that was interrupted.

    Args:
        experiment: what to run.
        out: the run directory.
        workers: processes; 0 works in this one. By default as many as there are
            processors for simulated systems, 0 for exact ones (whose kernels use
            all processors by themselves).
        scheduler: address of a Dask scheduler whose workers see the same files.
        report: told about progress.

    Returns:
        The results, which are also in `results.json`.
    """
    began = time.perf_counter()
    report = report or (lambda stage, done, total: None)
    store = RunStore.create(out, experiment)
    stored = store.path / "results.json"
    if store.is_complete() and stored.is_file():
        with contextlib.suppress(ValueError):
            results = json.loads(stored.read_text())
            return RunResult(store.path, time.perf_counter() - began, results, True)
    if workers is None:
        simulated = isinstance(store.experiment.built_system, SimulatedSystem)
        workers = (os.cpu_count() or 1) if simulated else 0
    if workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    with _executor(workers, scheduler) as executor:
        for stage, work, has in (
            ("train", train_block, store.has_policies),
            ("evaluate", table_block, store.has_rows),
        ):
            blocks = store.layout.blocks("train" if stage == "train" else "table")
            todo = [block for block in range(len(blocks)) if not has(block)]
            _work_off(stage, work, store.path, todo, len(blocks), executor, report)
    system = store.experiment.built_system
    contexts = system.contexts(store.experiment.target_space)
    store.write_best_known(*best_known(system, contexts, store.best_seen()))
    results = _results(store, report)
    write_atomically(stored, json.dumps(results) + "\n")
    return RunResult(store.path, time.perf_counter() - began, results, False)


def train_block(path: Path, block: int) -> None:
    """Train one block of sources of a run; callable in any process."""
    store = RunStore.open(path)
    experiment = store.experiment
    rows = store.layout.blocks("train")[block]
    system = experiment.built_system
    contexts = system.contexts(experiment.sources)[rows]
    trained = experiment.built_trainer.train(system, contexts, seed=experiment.seed)
    home = system.home_performance(trained.policies, contexts)
    store.write_policies(block, trained, home)


def table_block(path: Path, block: int) -> None:
    """Evaluate one block of sources at all targets; callable in any process."""
    store = RunStore.open(path)
    experiment = store.experiment
    rows = store.layout.blocks("table")[block]
    trained, home = store.read_policies(rows)
    system = experiment.built_system
    variables, top = evaluate_block(
        system,
        trained.policies,
        home,
        system.contexts(experiment.target_space),
        store.layout.variables,
    )
    store.write_rows(block, variables, top)


def _work_off(
    stage: str,
    work: Callable[[Path, int], None],
    path: Path,
    todo: Sequence[int],
    total: int,
    executor: Executor | None,
    report: Report,
) -> None:
    done = total - len(todo)
    report(stage, done, total)
    if executor is None:
        for block in todo:
            work(path, block)
            done += 1
            report(stage, done, total)
        return
    futures = [executor.submit(work, path.absolute(), block) for block in todo]
    try:
        for future in as_completed(futures):
            future.result()
            done += 1
            report(stage, done, total)
    finally:
        for future in futures:
            future.cancel()


@contextlib.contextmanager
def _executor(workers: int, scheduler: str | None) -> Iterator[Executor | None]:
    if scheduler is not None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtraError("Running on a Dask scheduler", "dask") from error
        try:
            client = Client(scheduler, timeout=10)
        except (OSError, ValueError) as error:
            raise RunStoreError(
                f"There is no Dask scheduler at {scheduler}: {error}."
            ) from error
        with client:
            yield client.get_executor()
    elif workers == 0:
        yield None
    else:
        # One thread a worker: the workers themselves fill the machine. Libraries
        # read these when they are imported, so they must be set before a start.
        threads = {
            "NUMBA_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")
            + " --xla_cpu_multi_thread_eigen=false",
        }
        before = {name: os.environ.get(name) for name in threads}
        os.environ.update(threads)
        try:
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
                yield pool
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _results(store: RunStore, report: Report) -> dict[str, Any]:
    """Covers and curves; nothing in it depends on the time or the machine."""
    table = store.table()
    experiment = store.experiment
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
        "spent": _spent(store, table),
        "home": _home(store, table),
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


def _home(store: RunStore, table: xr.Dataset) -> dict[str, Any] | None:
    """How many policies learned their own task, where the system says what that is."""
    system = store.experiment.built_system
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


def _spent(store: RunStore, table: xr.Dataset) -> dict[str, Any]:
    """What the whole table cost, and one source of it: the price of an oracle.

    `greedy`, `local` and `minimum` choose from the finished table, so they need all
    of it; `uniform` and `random` need the sources that they select.
    """
    layout = store.layout
    steps = int(table["environment_steps"].sum())
    return {
        "oracle_methods": [m for m in COVER_METHODS if m not in ("uniform", "random")],
        "trainings": layout.n_sources * layout.n_policies,
        "evaluations": layout.n_sources * layout.n_policies * layout.n_targets,
        "environment_steps": steps,
        "trainings_per_source": layout.n_policies,
        "evaluations_per_source": layout.n_policies * layout.n_targets,
        "environment_steps_per_source": steps / layout.n_sources,
    }
