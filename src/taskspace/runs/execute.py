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

from taskspace.errors import InvalidInputError, MissingExtraError, RunStoreError
from taskspace.performance import best_known, evaluate_block
from taskspace.runs.answer import Report, answer
from taskspace.runs.experiment import Experiment
from taskspace.runs.store import RunStore, write_atomically
from taskspace.systems.simulated import SimulatedSystem

__all__ = ["RunResult", "run_experiment"]


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
    if workers is not None and workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
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
    results = answer(store.table(), store.experiment, report)
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
            "NPROC": "1",  # XLA's pool of threads
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
