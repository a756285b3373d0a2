"""Studies whose table is computed as it is read, and never held.

A table of 10⁶ × 10⁶ numbers takes 8 TB; its tolerance sets, as runs, a few GB. Where
a system evaluates faster than a disk reads, only the policies are kept, and the rows
of the table are evaluated when they are asked for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from taskspace.errors import InvalidInputError
from taskspace.performance.readers import MemoryReader
from taskspace.performance.study import Study
from taskspace.performance.table import DIMS, REDUCTIONS, make_table, reduced_name
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.trainers.base import Trained, Trainer

__all__ = ["computed_study"]


def computed_study(
    system: System,
    trainer: Trainer,
    sources: Space,
    targets: Space,
    *,
    seed: int,
    judges: Sequence[str],
    measures: Sequence[str] = (),
    progress: Progress | None = None,
) -> Study:
    """Train at every source, and evaluate rows of the table when they are read.

    Args:
        system: the tasks; it must know its optimum, because the best of the table
            would need the table.
        trainer: makes the policies of each source.
        sources: where policies are trained.
        targets: where they are tried.
        seed: seed of the trainer.
        judges: which reductions over a family the table has.
        measures: scores beside J that a criterion reads.
        progress: told how many sources are trained.
    """
    contexts, at = system.contexts(sources), system.contexts(targets)
    optimum = system.optimum(at)
    if optimum is None or np.isnan(optimum).any():
        raise InvalidInputError(
            "A table that is computed as it is read needs a system that knows its "
            f"optimum at every target, but {system.id} does not. Leave computed out."
        )
    step, parts = trainer.sources_per_block, []
    for first in range(0, len(contexts), step):
        parts.append(trainer.train(system, contexts[first : first + step], seed=seed))
        if progress is not None:
            progress("train", min(first + step, len(contexts)), len(contexts))
    trained = Trained.concatenate(parts)
    home = system.home_performance(trained.policies, contexts)
    names = [name for judge in judges for name in REDUCTIONS[judge]]
    names += [reduced_name(m, judge) for m in measures for judge in judges]
    rows = _Rows(system, trained.policies, home, at, "")
    table = make_table(
        {
            **{name: rows.variable(name) for name in names},
            "home_performance": home,
            "environment_steps": trained.environment_steps,
            "best_known": optimum,
        },
        sources,
        targets,
        {
            "system": system.id,
            "trainer": trainer.id,
            "seed": seed,
            "provenance": system.provenance,
            "best_known_kind": "optimum",
            "cost": system.objective.statement,
        },
    )
    return Study(
        MemoryReader(
            table, system, trained.policies, targets, "evaluate", is_computed=True
        )
    )


class _Rows(BackendArray):
    """A reduction over families, evaluated for the sources that are asked for."""

    def __init__(
        self,
        system: System,
        policies: Policy,
        home: NDArray[np.float64],
        contexts: NDArray[np.float64],
        name: str,
    ):
        self._parts = system, policies, home, contexts
        self._name = name
        self.shape, self.dtype = (len(home), len(contexts)), np.dtype(np.float64)

    def variable(self, name: str) -> xr.Variable:
        """Return a variable of the table."""
        rows = _Rows(*self._parts, name)
        return xr.Variable(DIMS[name], indexing.LazilyIndexedArray(rows))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._get
        )

    def _get(self, key: tuple[Any, ...]) -> Any:
        numbers = np.arange(self.shape[0])[key[0]]
        values = self._evaluate(np.atleast_1d(numbers))[:, key[1]]
        return values if np.ndim(numbers) else values[0]

    def _evaluate(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        system, policies, home, contexts = self._parts
        measure, _, judge = self._name.rpartition("_")
        if measure in ("", "gap"):
            reduced = system.reduce_family(
                policies[numbers], home[numbers], contexts, (self._name,)
            )
            return reduced[self._name]
        scores = system.scores(measure, policies[numbers], contexts)
        return scores.min(1) if judge == "worst" else scores.max(1)
