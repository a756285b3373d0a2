"""A performance table of policies that exist already, without a trainer."""

import xarray as xr

from taskspace.errors import InvalidInputError
from taskspace.performance import best_known, make_table
from taskspace.policies import Policy
from taskspace.spaces import Space
from taskspace.systems.base import System

__all__ = ["policy_table"]


def policy_table(
    system: System, policies: Policy, space: Space, *, targets: Space | None = None
) -> xr.Dataset:
    """J of a given stack of policies at every target, as a performance table.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`, one row a source.
        space: the context to which each row belongs; home of its policies.
        targets: where policies are tried; the sources if left out.
    """
    sources = system.contexts(space)
    contexts = sources if targets is None else system.contexts(targets)
    n_rows = len(next(iter(policies.arrays().values())))
    if n_rows != len(sources):
        raise InvalidInputError(
            f"There must be one row of policies a source, but got {n_rows} rows and "
            f"{len(sources)} sources."
        )
    performance = system.performance(policies, contexts)
    reference, kind = best_known(system, contexts, performance.max((0, 1)))
    return make_table(
        {
            "performance": performance,
            "home_performance": system.home_performance(policies, sources),
            "best_known": reference,
        },
        space,
        space if targets is None else targets,
        {"system": system.id, "best_known_kind": kind},
    )
