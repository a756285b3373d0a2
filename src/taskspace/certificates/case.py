"""What certifiers work on, and the list of certifiers.

A certifier is a function of a `Case` that returns certificates, none where it has
nothing to say. It is registered by a decorator beside its definition, here or in a
user's package:

    @certifier("my statement", before="continuum")
    def certify_mine(case: Case) -> list[Certificate]: ...
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from taskspace._util.betting import check_confidence
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Enclosure, find_enclosure
from taskspace.certificates.boxes.search import SLACKS, counted_cover
from taskspace.certificates.statements import Certificate
from taskspace.cover import Cover, settle_ties
from taskspace.cover.thresholds import Losses, Thresholds
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import TargetSets
from taskspace.spaces import Grid, Points
from taskspace.systems.base import Provenance

MAX_PAIRS = 2**31
"""Pairs of a source and a target up to which smaller tolerances are looked at too."""


@dataclass(eq=False, kw_only=True)
class Case:
    """A study, a question, what `certify` was told, and what was found so far.

    Args:
        study: what is known.
        question: what is asked.
        selection: indices of the sources to certify; None to search for them.
        confidence: of statements from fresh episodes and from drawn contexts.
        max_episodes: fresh episodes for each source that is tried at a target.
        pilot: sources and episodes of a pilot, see `certify`.
        distribution: what contexts are drawn from, see `certify`.
        n_samples: how many contexts to draw.
        target_share: draw until the bound on the share is above this.
        radius: r of the loss rates; None for the default.
        rates: Lipschitz constants of the losses that the user knows.
        bounds: the user's own bounds over boxes.
        seed: of the cover engine, and of samples together with all that they judge.
        progress: told what is being done.
        clock: of the whole command.
        found: what certifiers leave for those after them and for the result.
        rate_check: how `rates` were compared with the table.
    """

    study: Study
    question: Question
    selection: ArrayLike | None = None
    confidence: float = 0.999
    max_episodes: int = 4096
    pilot: tuple[int, int] | None = None
    distribution: Any = None
    n_samples: int | None = None
    target_share: float | None = None
    radius: float | None = None
    rates: ArrayLike | None = None
    bounds: Enclosure | None = None
    seed: int = 0
    progress: Progress = silent
    clock: Clock = field(default_factory=Clock)
    found: dict[str, Any] = field(default_factory=dict)
    rate_check: str = ""

    def __post_init__(self):
        check_confidence(self.confidence)
        for name in ("n_samples", "target_share"):
            if self.distribution is None and getattr(self, name) is not None:
                raise InvalidInputError(
                    f"{name} says how many contexts to draw, but no distribution is "
                    "given. Say what to draw them from: distribution='uniform'."
                )
        if self.rates is not None:
            self.question.check_single("A Lipschitz constant")
        if isinstance(self.distribution, Path):
            self.distribution = str(self.distribution)

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
        epsilons = np.array([epsilon, *(epsilon - t * abs(epsilon) for t in SLACKS)])
        made = Thresholds(Losses(self.table, self.question), epsilons)
        places = range(len(epsilons))
        return [made.at(k, places[k + 1 :]) for k in places]

    @cached_property
    def cover(self) -> Cover:
        """Minimum cover of the table's targets, or what the given selection serves."""
        fewest = counted_cover(self.sets[0], self.clock, self.seed)
        if self.selection is not None:
            return self._serve_with(self.selection, fewest)
        limit = self.clock.left
        return settle_ties(
            fewest, self.table, self.question, time_limit=limit, seed=self.seed
        )

    def _serve_with(self, selection: ArrayLike, fewest: Cover) -> Cover:
        """Return what given sources serve, with the bound on how few could."""
        n = fewest.n_sources
        indices = np.asarray(selection).reshape(-1)
        whole = np.issubdtype(indices.dtype, np.integer)
        if not whole or not len(indices) or not ((indices >= 0) & (indices < n)).all():
            raise InvalidInputError(
                f"selection must hold numbers of sources, 0 to {n - 1}, at least one, "
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


Certifier = Callable[[Case], list[Certificate]]


@dataclass(frozen=True)
class Registered:
    """A certifier and its place in the order.

    Args:
        make: the function.
        before: the certifier before which its statements are told; None for the end.
        runs_last: whether it runs after the others, as one that only describes.
    """

    make: Certifier
    before: str | None
    runs_last: bool


CERTIFIERS: dict[str, Registered] = {}
"""All certifiers by name."""


def certifier(
    name: str, *, before: str | None = None, runs_last: bool = False
) -> Callable[[Certifier], Certifier]:
    """Return a decorator that adds a certifier to `ts.certify`.

    Args:
        name: what progress calls it.
        before: the certifier before which it runs and its statements are told. The
            last statement of all is the one that the command line puts first.
        runs_last: run it after the others, as one that takes long and only describes.
    """

    def register(make: Certifier) -> Certifier:
        CERTIFIERS[name] = Registered(make, before, runs_last)
        return make

    return register


def order_of_telling() -> list[str]:
    """Return the names of all certifiers such that each comes before its `before`."""
    names: list[str] = []
    waiting = list(CERTIFIERS)
    while waiting:
        held = {CERTIFIERS[name].before for name in waiting}
        free = [name for name in waiting if name not in held]
        # Those that name no successor come last.
        first = [name for name in free if CERTIFIERS[name].before in CERTIFIERS]
        chosen = (first or free or waiting)[0]
        waiting.remove(chosen)
        names.append(chosen)
    return names
