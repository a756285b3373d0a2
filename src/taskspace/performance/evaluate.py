"""Evaluation: J of every policy at every target, a block of sources at a time."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import UnknownNameError
from taskspace.performance.table import BLOCK_CELLS, REDUCTIONS, make_table
from taskspace.policies import Policy
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.base import Trainer

__all__ = ["best_known", "evaluate", "evaluate_block", "kept_variables"]

# Up to this many values of J (256 MB) a table holds J itself.
FULL_TABLE_CELLS = 2**25


def evaluate(
    system: System,
    trainer: Trainer,
    space: Space,
    *,
    seed: int,
    targets: Space | None = None,
    families: Sequence[str] = ("all", "any"),
    progress: Callable[[int], None] | None = None,
) -> xr.Dataset:
    """Train at every source, evaluate at every target, and return the table.

    For tables that outlive the process, or do not fit in memory, use a run
    (`taskspace run`), which stores blocks as they are finished.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        space: the sources.
        seed: seed of the trainer.
        targets: where policies are tried; the sources if left out.
        families: which families to keep reductions for, where J itself would be
            too large to keep.
        progress: called with the number of sources evaluated so far.

    Returns:
        A performance table, see `taskspace.performance.table`.
    """
    source_contexts = system.contexts(space)
    target_contexts = source_contexts if targets is None else system.contexts(targets)
    trained = trainer.train(system, source_contexts, seed=seed)
    home = system.home_performance(trained.policies, source_contexts)
    n_sources, n_targets = len(source_contexts), len(target_contexts)
    keep = kept_variables(n_sources, trainer.n_policies, n_targets, families)

    step = max(1, BLOCK_CELLS // (n_targets * trainer.n_policies))
    blocks: list[dict[str, NDArray]] = []
    top = np.full(n_targets, -np.inf)
    for first in range(0, n_sources, step):
        rows = slice(first, min(first + step, n_sources))
        block, block_top = evaluate_block(
            system, trained.policies[rows], home[rows], target_contexts, keep
        )
        blocks.append(block)
        np.maximum(top, block_top, out=top)
        if progress:
            progress(rows.stop)
    variables = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
    reference, kind = best_known(system, target_contexts, top)
    return make_table(
        variables
        | {
            "home_performance": home,
            "best_known": reference,
            "environment_steps": trained.environment_steps,
        },
        space,
        space if targets is None else targets,
        {
            "system": system.id,
            "trainer": trainer.id,
            "seed": seed,
            "best_known_kind": kind,
        },
    )


def kept_variables(
    n_sources: int, n_policies: int, n_targets: int, families: Sequence[str]
) -> tuple[str, ...]:
    """What to keep of an evaluation: J itself if it fits, else reductions.

    Args:
        n_sources: number of sources.
        n_policies: members of each family.
        n_targets: number of targets.
        families: `"all"`, `"any"` or both.
    """
    for family in families:
        if family not in REDUCTIONS:
            raise UnknownNameError("family", family, REDUCTIONS)
    if n_sources * n_policies * n_targets <= FULL_TABLE_CELLS:
        return ("performance",)
    return tuple(name for family in families for name in REDUCTIONS[family])


def evaluate_block(
    system: System,
    policies: Policy,
    home: NDArray[np.float64],
    contexts: NDArray[np.float64],
    keep: Sequence[str],
) -> tuple[dict[str, NDArray], NDArray[np.float64]]:
    """Evaluate some sources at all targets.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        home: J at each policy's own source, dims `(source, policy)`.
        contexts: full context rows of the targets.
        keep: names of the variables wanted, from `kept_variables`, or also
            `"returns"` for a simulated system.

    Returns:
        The variables by name, and the best J seen at each target.
    """
    if "returns" in keep and isinstance(system, SimulatedSystem):
        returns = system.returns(policies, contexts)
        performance = returns.mean(-1, dtype=np.float64)
        return (
            {"returns": returns, "performance": performance},
            performance.max((0, 1)),
        )
    if "performance" in keep:
        performance = system.performance(policies, contexts)
        return {"performance": performance}, performance.max((0, 1))
    reduced = system.reduce_family(policies, home, contexts)
    return {name: getattr(reduced, name) for name in keep}, reduced.best.max(0)


def best_known(
    system: System, contexts: NDArray[np.float64], top: NDArray[np.float64]
) -> tuple[NDArray[np.float64], str]:
    """The reference of regret: the optimum where known, else the best seen.

    Args:
        system: the tasks.
        contexts: full context rows of the targets.
        top: best J seen at each target.

    Returns:
        Best known J at each target, and where it comes from: `"optimum"`, `"best of
        the table"`, or `"optimum where known"` if the system knows it at some targets
        only (NaN at the others).
    """
    optimum = system.optimum(contexts)
    if optimum is None or np.isnan(optimum).all():
        return top, "best of the table"
    kind = "optimum where known" if np.isnan(optimum).any() else "optimum"
    return np.fmax(optimum, top), kind
