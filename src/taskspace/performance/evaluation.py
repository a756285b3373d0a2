"""Studies in memory: of trainings, of policies that are given, of numbers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from taskspace.errors import InvalidInputError
from taskspace.performance.io.frame import even_families, numbered
from taskspace.performance.io.read import read_matrix
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study
from taskspace.performance.table import (
    DIMS,
    best_reference,
    make_table,
    table_from_matrix,
    table_notes,
)
from taskspace.performance.work import Task, reduced_variables
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.spaces import Points, Space, require_space
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.trainers.base import Trainer, check_tasks


def evaluate(
    system: System,
    trainer: Trainer,
    space: Space,
    *,
    seed: int = 0,
    targets: Space | None = None,
    judges: Sequence[str] = ("worst", "best"),
    measures: Sequence[str] = (),
    computed: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Train at every source, evaluate at every target, and keep all of it.

    For tables that outlive the process, or do not fit in memory, use a run
    (`taskspace run`), which stores blocks as they are finished.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        space: the sources.
        seed: seed of the trainer.
        targets: where policies are tried; the sources if left out.
        judges: which reductions over a family to keep, where J itself would be too
            large to keep.
        measures: scores beside J that a criterion reads, e.g. `["disk_margin"]`.
        computed: keep the policies alone: rows of the table are evaluated when they
            are read. For systems that know their optimum and evaluate faster than a
            table of this size is read.
        progress: told how many blocks are trained and evaluated.

    Returns:
        The study: its table, the system, and the policies that were trained.
    """
    targets = space if targets is None else targets
    check_tasks(system, trainer, space, targets)
    task = Task(system, trainer, system.contexts(targets), seed)
    if computed:
        keep = reduced_variables(judges, measures)
        return _computed_study(replace(task, keep=keep), space, targets, progress)
    ledger = Ledger(task.keeping(space.size, judges, measures), space, targets)
    ledger.work_off(progress)
    return ledger.study()


def _computed_study(
    task: Task, sources: Space, targets: Space, progress: Progress | None
) -> Study:
    """Train at every source, and evaluate rows of the table when they are read."""
    system, optimum = task.system, task.system.optimum(task.targets)
    # The best of the table would need the table.
    if optimum is None or np.isnan(optimum).any():
        raise InvalidInputError(
            "A table that is computed as it is read needs a system that knows its "
            f"optimum at every target, but {system.id} does not. Leave computed out."
        )
    ledger = Ledger(replace(task, keep=()), sources, targets, computed=task)
    ledger.work_off(progress)
    notes = table_notes(system, **task.made_by)
    return Study.of(
        ledger.table_of(task.keep, (optimum, "optimum"), notes),
        system=system,
        policies=ledger.policies(np.arange(sources.size)).trained.policies,
        targets=targets,
        origin="evaluate",
        is_computed=True,
    )


def study_from(
    data: Any,
    *,
    system: System | None = None,
    policies: Policy | None = None,
    **options: Any,
) -> Study:
    """Make a study of a transfer matrix that a program holds.

    Args:
        data: a wide or long pandas `DataFrame`; an xarray `DataArray` or `Dataset`; or
            an array of J, larger is better, of shape `(source, target)` or `(source,
            policy, target)`.
        system: the tasks, if they are known.
        policies: policies of the sources, leading dims `(source, policy)`.
        options: for an array `sources` and `targets` (contexts), `home`,
            `standard_error`, `provenance` and `n_episodes`, see `table_from_matrix`,
            and `lower_is_better`; else `contexts`, `lower_is_better`, `targets`
            (names), `ignore` and `missing`, see `read_matrix`.

    Examples:
        >>> study_from([[3.0, 1.0], [2.0, 4.0]])
        Study(2 sources, 1 policy each, 2 targets, given)
    """
    if isinstance(data, xr.Dataset) and not options and _is_table(data):
        table = data
    elif isinstance(data, pd.DataFrame | xr.DataArray | xr.Dataset):
        table = read_matrix(data, **options)
    else:
        try:
            numbers = np.asarray(data, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                "A study is made from a pandas DataFrame, an xarray object or an array "
                f"of numbers, but got {type(data).__name__}. For a file use ts.open."
            ) from error
        if options.pop("lower_is_better", False):
            numbers = 0.0 - numbers
            if options.get("home") is not None:
                options["home"] = 0.0 - np.asarray(options["home"], np.float64)
        table = table_from_matrix(numbers, **options)
    return Study.of(table, system=system, policies=policies)


def _is_table(data: xr.Dataset) -> bool:
    """Whether a dataset is a performance table already, as this library makes them."""
    score = "performance" if "performance" in data else "worst"
    return "best_known_kind" in data.attrs and all(
        name in data and data[name].dims == DIMS[name] for name in (score, "best_known")
    )


def evaluate_policies(
    system: System | Callable[[dict[str, float], Any], float],
    policies: Policy | Sequence[Any],
    targets: Space,
    *,
    sources: Space | None = None,
    workers: int = 0,
) -> Study:
    """Evaluate given policies at every target.

    Args:
        system: the tasks, or a plain function J(context, policy), larger is better;
            see `FunctionSystem`.
        policies: a stack, or a list with one policy per row: anything the system plays;
            for a linear system arrays K with u = −K x, or `LinearController`s.
        targets: where policies are tried.
        sources: the context that each policy was made for, if there is one. Policies
            of the same context form a family. Without it the `signed` criterion is
            not available.
        workers: processes that share the evaluation of a plain function.

    Returns:
        A study with one source per policy, or one per family.

    Examples:
        >>> from taskspace.spaces import Grid
        >>> study = evaluate_policies(
        ...     lambda context, policy: 1 - abs(context["x"] - policy),
        ...     [0.0, 3.0],
        ...     Grid(x=(0.0, 3.0, 4)),
        ... )
        >>> study.table["best_known"].values.tolist()
        [1.0, 0.0, 0.0, 1.0]
    """
    require_space(targets)
    if not isinstance(system, System):
        axes = [
            ContextAxis(name, float(column[0]))
            for name, column in zip(targets.names, targets.points.T, strict=True)
        ]
        system = FunctionSystem(system, axes, workers=workers)
    elif workers:
        raise InvalidInputError(
            "workers is for a plain function; a system has its own setting."
        )
    from taskspace.systems.linear import LinearSystem  # loads slowly

    if isinstance(system, LinearSystem):
        stack = system.stacked(policies)
    elif isinstance(policies, Policy):
        stack = policies
    else:
        stack = PythonPolicies(list(policies))
    n_rows = stack.stack_shape[0]
    if sources is not None:
        if sources.size != n_rows:
            raise InvalidInputError(
                f"There must be one source per policy, but got {n_rows} policies and "
                f"{sources.size} sources."
            )
        if isinstance(stack, PythonPolicies):
            stack, sources = _families(stack, sources)
    contexts = system.contexts(targets)
    variables = system.measure(stack, contexts)
    variables.pop("returns", None)
    performance = variables["performance"]
    if np.isnan(performance).any():
        row, member, column = np.argwhere(np.isnan(performance))[0].tolist()
        raise InvalidInputError(
            f"Performance must be a number (−inf for a failure), but policy {member} "
            f"of source {row} has NaN at target {column}."
        )
    top = performance.max((0, 1))
    reference, kind = best_reference(system.optimum(contexts), top)
    variables["best_known"] = reference
    if sources is not None:
        own = system.contexts(sources)
        variables["home_performance"] = system.home_performance(stack, own)
    notes = table_notes(system, best_known_kind=kind)
    table = make_table(variables, sources, targets, notes)
    return Study.of(table, system=system, policies=stack, targets=targets)


def _families(stack: PythonPolicies, sources: Space) -> tuple[PythonPolicies, Space]:
    """Return policies by source; a smaller family repeats its first members."""
    family, first = numbered(list(sources.points.T))
    if len(first) == sources.size:
        return stack, sources
    rows = even_families(family, 1, "the policies")
    objects = stack.objects[rows].reshape(len(rows), -1)
    return PythonPolicies(objects), Points(sources.names, sources.points[first])
