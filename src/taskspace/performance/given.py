"""A performance table of policies that exist already."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import best_known
from taskspace.performance.study import Study
from taskspace.performance.table import make_table
from taskspace.policies import Policy
from taskspace.spaces import Points, Space
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.function import FunctionSystem, PythonPolicies

__all__ = ["evaluate_policies"]


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
    n_rows = len(next(iter(stack.arrays().values())))
    if sources is not None:
        if sources.size != n_rows:
            raise InvalidInputError(
                f"There must be one source a policy, but got {n_rows} policies and "
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
    reference, kind = best_known(system, contexts, performance.max((0, 1)))
    variables["best_known"] = reference
    if sources is not None:
        own = system.contexts(sources)
        variables["home_performance"] = system.home_performance(stack, own)
    notes: dict[str, Any] = {
        "system": system.id,
        "best_known_kind": kind,
        "provenance": system.provenance,
        "cost": system.objective.statement,
    }
    if system.n_episodes:
        notes["n_episodes"] = system.n_episodes
    table = make_table(variables, sources, targets, notes)
    return Study.of(table, system=system, policies=stack, targets=targets)


def _families(stack: PythonPolicies, sources: Space) -> tuple[PythonPolicies, Space]:
    """Policies of the same source together; a smaller family repeats its first."""
    groups: dict[tuple[float, ...], list[Any]] = {}
    for row, members in zip(sources.points.tolist(), stack.objects, strict=True):
        groups.setdefault(tuple(row), []).extend(members)
    if len(groups) == sources.size:
        return stack, sources
    size = max(map(len, groups.values()))
    rows = [[*group, *[group[0]] * (size - len(group))] for group in groups.values()]
    objects = np.empty((len(rows), size), object)
    for i, row in enumerate(rows):
        objects[i] = row
    return PythonPolicies(objects), Points(sources.names, list(groups))
