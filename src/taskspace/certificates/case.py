"""What certifiers work on: a study, a question, and what was found so far."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from taskspace._util.betting import check_confidence
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Enclosure, find_enclosure
from taskspace.certificates.boxes.search import SLACKS, counted_cover
from taskspace.cover import Cover, settle_ties
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import TargetSets, join, pack
from taskspace.spaces import Grid, Points
from taskspace.systems.base import Provenance

MAX_PAIRS = 2**31
"""Pairs of a source and a target up to which smaller tolerances are looked at too."""


@dataclass(eq=False, kw_only=True)
class Case:
    """A study, a question, what `certify` was told, and what was found so far.

    The options are those of `certify`.

    Args:
        clock: of the whole command.
        found: what certifiers leave for those after them and for the result.
    """

    study: Study
    question: Question
    selection: ArrayLike | None = None
    confidence: float = 0.999
    max_episodes: int = 4096
    pilot: tuple[int, int] | None = None
    distribution: Any = None
    n_samples: int | None = None
    rates: ArrayLike | None = None
    bounds: Enclosure | None = None
    seed: int = 0
    progress: Progress = silent
    clock: Clock = field(default_factory=Clock)
    found: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        check_confidence(self.confidence)
        if self.distribution is None and self.n_samples is not None:
            raise InvalidInputError(
                "n_samples says how many contexts to draw, but no distribution is "
                "given. Say what to draw from: distribution='uniform' "
                "(--distribution uniform)."
            )
        if self.rates is not None:
            self.question.check_single("A Lipschitz constant")

    @cached_property
    def table(self) -> xr.Dataset:
        """The performance table, with the score that the criterion reads."""
        return self.question.table_of(self.study)

    @cached_property
    def provenance(self) -> Provenance:
        """Where the numbers come from that the question reads."""
        return self.question.provenance_of(self.study)

    @property
    def sources(self) -> Grid | Points | None:
        """Contexts of the sources, if they have some on the targets' axes."""
        sources, targets = self.study.sources, self.study.targets
        if sources and targets and sources.names == targets.names:
            return sources
        return None

    @cached_property
    def sets(self) -> list[TargetSets]:
        """Tolerance sets; in a table that is not huge also for smaller tolerances."""
        if self.study.n_sources * self.study.n_targets > MAX_PAIRS:
            return [self.question.sets(self.table)]
        epsilon = self.question.epsilon
        epsilons = [epsilon, *(epsilon - t * abs(epsilon) for t in SLACKS)]
        blocks = [
            [pack(block <= e) for e in epsilons]
            for _, block in self.question.blocks(self.table)
        ]
        n_targets = self.study.n_targets
        return [join(parts, n_targets) for parts in zip(*blocks, strict=True)]

    @cached_property
    def cover(self) -> Cover:
        """Minimum cover of the table's targets, or what the given selection serves."""
        fewest = counted_cover(self.sets[0], self.clock, self.seed)
        if self.selection is None:
            limit = self.clock.left
            return settle_ties(
                fewest, self.table, self.question, time_limit=limit, seed=self.seed
            )
        n = fewest.n_sources
        indices = np.asarray(self.selection).reshape(-1)
        whole = np.issubdtype(indices.dtype, np.integer)
        if not whole or not len(indices) or not ((indices >= 0) & (indices < n)).all():
            raise InvalidInputError(
                f"selection must hold indices of sources, 0 to {n - 1}, at least one, "
                f"but got {indices.tolist()}."
            )
        sources = np.unique(indices).astype(np.int64)
        assignment = self.question.assign(self.table, sources)
        served = int((assignment >= 0).sum())
        is_full = served + len(fewest.uncoverable) == fewest.n_targets
        return replace(
            fewest,
            method="given",
            sources=sources,
            assignment=assignment,
            coverage=served / fewest.n_targets,
            size=len(sources),
            cost=float(len(sources)),
            lower_bound=fewest.lower_bound if is_full else 1.0,
            optimal=is_full and fewest.lower_bound >= len(sources),
            stop_reason="given",
        )

    @cached_property
    def enclosure(self) -> tuple[Enclosure | None, str]:
        """Bounds over boxes of true contexts, None and why where there are none."""
        question, study, own = self.question, self.study, self.bounds
        if own is None:
            if study.system is None or study.targets is None:
                return None, ""
            # Only `signed` compares with homes, and it has no losses without them.
            homes = study.system.contexts(study.sources or study.targets)
            if study.sources is None:
                homes = np.repeat(homes[:1], study.n_sources, axis=0)
            exact = question.measured_with(None)
            return find_enclosure(study.system, study.policies, homes, exact)
        if own.question.key != question.key:
            raise InvalidInputError(
                f"The enclosure must be for {question.key!r} (criterion and policy), "
                f"but is for {own.question.key!r}."
            )
        if own.n_sources != study.n_sources:
            raise InvalidInputError(
                f"The enclosure must be for the {study.n_sources} sources of the "
                f"table, in their order, but has {own.n_sources}."
            )
        return own, ""
