"""What certifiers work on: a study, a question, options, and what is found so far."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Enclosure, find_enclosure
from taskspace.certificates.boxes.enclosures.lipschitz import check_rates
from taskspace.certificates.boxes.shrink import SLACKS
from taskspace.certificates.lipschitz.constants import refute_rates
from taskspace.certificates.options import LossBounds, Sampling
from taskspace.certificates.result import Findings
from taskspace.cover import Cover, minimum_cover, settle_ties
from taskspace.cover.thresholds import TableLosses, Thresholds
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.policies import Policy
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import TargetSets
from taskspace.spaces import Grid, Points
from taskspace.systems.base import Provenance, System

MAX_PAIRS = 2**31
"""Pairs of a source and a target up to which smaller tolerances are looked at too."""
# Of the time, to look for the cover of least worst loss among those of a size.
LEAST_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Case:
    """A study, a question and options, and what is found from them on first use.

    Args:
        study: what is known.
        question: what is asked.
        sampling: how much is sampled, and from what.
        bounds: what is known of the losses between the targets.
        selection: numbers of the sources to certify; None to search for them.
        seed: of the cover engine, and of samples together with all that they judge.
        progress: told what is being done.
        clock: of the whole command.
        findings: what certifiers have found so far.
    """

    study: Study
    question: Question
    sampling: Sampling = field(default_factory=Sampling)
    bounds: LossBounds = field(default_factory=LossBounds)
    selection: ArrayLike | None = None
    seed: int = 0
    progress: Progress = silent
    clock: Clock = field(default_factory=Clock)
    findings: Findings = field(default_factory=Findings)

    @property
    def table(self) -> xr.Dataset:
        """The performance table, with the score that the criterion reads."""
        return self.question.table_of(self.study)

    @property
    def provenance(self) -> Provenance:
        """Where the numbers come from that the question reads."""
        return self.question.provenance_of(self.study)

    @property
    def system(self) -> System | None:
        """The tasks, if they are known."""
        return self.study.system

    @property
    def policies(self) -> Policy | None:
        """The policies of all sources, if they are at hand."""
        return self.study.policies

    @property
    def sources(self) -> Grid | Points | None:
        """Contexts of the sources, if they have some on the targets' axes."""
        sources, targets = self.study.sources, self.study.targets
        if sources and targets and sources.names == targets.names:
            return sources
        return None

    @property
    def targets(self) -> Grid | Points | None:
        """Contexts of the targets, if they have some."""
        return self.study.targets

    @cached_property
    def sets(self) -> list[TargetSets]:
        """Tolerance sets; in a table that is not huge also for smaller tolerances."""
        if self.study.n_sources * self.study.n_targets > MAX_PAIRS:
            return [self.question.sets(self.table)]
        epsilon = self.question.epsilon
        epsilons = np.array([epsilon, *(epsilon - t * abs(epsilon) for t in SLACKS)])
        made = Thresholds(TableLosses(self.table, self.question), epsilons)
        places = range(len(epsilons))
        return [made.at(k, places[k + 1 :]) for k in places]

    @cached_property
    def cover(self) -> Cover:
        """Minimum cover of the table's targets, or what the given selection serves."""
        limit = 0.25 * self.clock.left
        fewest = minimum_cover(self.sets[0], time_limit=limit, seed=self.seed)
        if self.selection is not None:
            return self._serve_with(self.selection, fewest)
        limit = LEAST_SHARE * self.clock.left
        return settle_ties(
            fewest, self.table, self.question, time_limit=limit, seed=self.seed
        )

    def _serve_with(self, selection: ArrayLike, fewest: Cover) -> Cover:
        """Return what given sources serve, beside the bound on how few could."""
        n = fewest.n_sources
        numbers = np.asarray(selection).reshape(-1)
        whole = np.issubdtype(numbers.dtype, np.integer)
        if not whole or not len(numbers) or not ((numbers >= 0) & (numbers < n)).all():
            raise InvalidInputError(
                f"selection must hold numbers of sources, 0 to {n - 1}, at least one, "
                f"but got {numbers.tolist()}."
            )
        sources = np.unique(numbers).astype(np.int64)
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

    @property
    def enclosure(self) -> Enclosure | None:
        """Bounds over boxes of true contexts: the user's, or those of the system."""
        return self._enclosure[0]

    @property
    def no_enclosure_reason(self) -> str:
        """Why there are no bounds over boxes, empty where it is not known."""
        return self._enclosure[1]

    @cached_property
    def _enclosure(self) -> tuple[Enclosure | None, str]:
        question, study = self.question, self.study
        enclosure = self.bounds.enclosure
        if enclosure is None:
            if study.system is None or study.targets is None:
                return None, ""
            exact = question.measured_with(None)
            return find_enclosure(study.system, self.policies, self._homes, exact)
        if enclosure.question.key != question.key:
            raise InvalidInputError(
                f"The enclosure must be for {question.key!r} (criterion and policy), "
                f"but is for {enclosure.question.key!r}."
            )
        if enclosure.n_sources != study.n_sources:
            raise InvalidInputError(
                f"The enclosure must be for the {study.n_sources} sources of the "
                f"table, in their order, but has {enclosure.n_sources}."
            )
        return enclosure, ""

    @property
    def _homes(self) -> Array:
        """Full context rows of the sources; any of the range where they have none.

        Only `signed` compares with them, and it has no losses without them.
        """
        study = self.study
        assert study.system is not None
        assert study.targets is not None
        if study.sources is not None:
            return study.system.contexts(study.sources)
        rows = study.system.contexts(study.targets)
        return np.repeat(rows[:1], study.n_sources, axis=0)

    @cached_property
    def rates(self) -> Array | None:
        """Lipschitz constants that the user knows, of the system's axes if it has."""
        names = None if self.targets is None else tuple(self.targets.names)
        if self.system is not None:
            names = tuple(axis.name for axis in self.system.axes)
        constants = self.bounds.rates
        if constants is None or names is None:
            return None
        return check_rates(constants, names)

    @property
    def target_rates(self) -> Array:
        """Given constants, of the axes of the targets alone."""
        assert self.rates is not None
        assert self.targets is not None
        if self.rates.ndim == 0 or self.system is None:
            return self.rates
        names = [axis.name for axis in self.system.axes]
        return self.rates[[names.index(name) for name in self.targets.names]]

    @cached_property
    def rate_check(self) -> str:
        """How given constants were compared with the table; it may contradict them.

        Empty where there are none.
        """
        if self.rates is None or self.targets is None:
            return ""
        exact = self.question.measured_with(None)
        return refute_rates(self.table, exact, self.targets, self.target_rates)
