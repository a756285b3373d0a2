"""What there is to certify with: a table, and perhaps a system and constants."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.certificates.boxes.enclosures import (
    Enclosure,
    find_enclosure,
)
from taskspace.certificates.boxes.enclosures.lipschitz import check_rates
from taskspace.certificates.lipschitz.constants import RateCheck, refute_rates
from taskspace.certificates.options import LossBounds
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.spaces import Grid, Points
from taskspace.systems.base import Provenance, System

__all__ = ["Setting", "make_setting", "refute_given", "target_rates"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What there is to certify with.

    Args:
        study: what is known.
        question: what is asked.
        rates: Lipschitz constants that the user knows, if any.
        enclosure: bounds over boxes of true contexts, if there are some.
        clock: of the whole command.
        seed: of the cover engine and of samples.
    """

    study: Study
    question: Question
    rates: NDArray[np.float64] | None
    enclosure: Enclosure | None
    clock: Clock
    seed: int

    @property
    def table(self) -> xr.Dataset:
        """The performance table, with the score that the criterion reads."""
        return self.question.table_of(self.study)

    @property
    def provenance(self) -> Provenance:
        """Where the table's numbers come from."""
        return self.study.provenance

    @property
    def system(self) -> System | None:
        """The tasks, if they are known."""
        return self.study.system

    @property
    def policies(self) -> Policy | None:
        """The policies of all sources, if they are at hand."""
        return self.study.all_policies

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


def make_setting(
    study: Study,
    question: Question,
    bounds: LossBounds,
    seed: int,
) -> Setting:
    """Return a setting, with what the study can add to what the user gives.

    Args:
        study: what is known.
        question: what is asked.
        bounds: what the user knows of the losses between the targets.
        seed: of the cover engine.
    """
    rates, enclosure = bounds.rates, bounds.enclosure
    constants = None
    if rates is not None:
        names = _names(study.system, study.targets)
        constants = check_rates(rates, names) if names else None
    if enclosure is not None and enclosure.question.key != question.key:
        raise InvalidInputError(
            f"The enclosure must be for {question.key!r} (criterion and policy), but "
            f"is for {enclosure.question.key!r}."
        )
    if enclosure is not None and enclosure.n_sources != study.n_sources:
        raise InvalidInputError(
            f"The enclosure must be for the {study.n_sources} sources of the table, "
            f"in their order, but has {enclosure.n_sources}."
        )
    if enclosure is None and study.system is not None and study.sources is not None:
        contexts = study.system.contexts(study.sources)
        enclosure, _ = find_enclosure(
            study.system,
            study.all_policies,
            contexts,
            question.measured_with(None),
        )
    return Setting(study, question, constants, enclosure, Clock(), seed)


def _names(
    system: System | None, targets: Grid | Points | None
) -> tuple[str, ...] | None:
    """Axes that given constants are for: the system's, else the targets'."""
    if system is not None:
        return tuple(axis.name for axis in system.axes)
    return None if targets is None else tuple(targets.names)


def target_rates(setting: Setting) -> NDArray[np.float64]:
    """Given constants, of the axes of the targets alone.

    Args:
        setting: with `rates` and `targets`.
    """
    assert setting.rates is not None
    assert setting.targets is not None
    if setting.rates.ndim == 0 or setting.system is None:
        return setting.rates
    names = [axis.name for axis in setting.system.axes]
    return setting.rates[[names.index(name) for name in setting.targets.names]]


def refute_given(setting: Setting) -> RateCheck:
    """Refuse constants that the table contradicts.

    Args:
        setting: with `rates` and `targets`.
    """
    assert setting.targets is not None
    return refute_rates(
        setting.table,
        setting.question.measured_with(None),
        setting.targets,
        target_rates(setting),
        clock=Clock(0.2 * setting.clock.left),
    )
