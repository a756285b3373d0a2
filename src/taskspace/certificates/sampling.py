"""What sampling adds to a table: fresh episodes, and draws from a law."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskspace.certificates.base import Certificate
from taskspace.certificates.chance import (
    Deployed,
    Law,
    ShareCheck,
    law_of,
    nearest_source,
    served_share,
)
from taskspace.certificates.continuum import (
    ContinuumCover,
)
from taskspace.certificates.fresh import FreshCheck, check_on_fresh_episodes
from taskspace.certificates.setting import Setting
from taskspace.cover import Cover
from taskspace.errors import InvalidInputError
from taskspace.spaces import Points
from taskspace.systems.episodic import EpisodicSystem

__all__ = ["certify_fresh", "certify_share"]


Report = Callable[[str], None]


def certify_fresh(
    setting: Setting,
    cover: Cover,
    confidence: float,
    max_episodes: int,
    time_limit: float,
    tell: Report,
) -> tuple[FreshCheck | None, Certificate]:
    """The cover's pairs on episodes that its selection never saw.

    Args:
        setting: with an episodic system and its policies.
        cover: of the table's targets.
        confidence: of the statement.
        max_episodes: for each source that is tried at a target.
        time_limit: seconds.
        tell: called with how far it is.
    """
    assert isinstance(setting.system, EpisodicSystem)
    assert setting.policies is not None
    try:
        found = check_on_fresh_episodes(
            setting.table,
            setting.question,
            cover.assignment,
            setting.system,
            setting.policies,
            confidence=confidence,
            max_episodes=max_episodes,
            time_limit=time_limit,
            progress=tell,
        )
    except InvalidInputError as error:
        return None, Certificate("fresh episodes", False, "vacuous", str(error))
    return found, found.certificate


def certify_share(
    setting: Setting,
    assignment: NDArray[np.int64],
    continuum: ContinuumCover | None,
    law: str | Path | Law,
    confidence: float,
    draws: int | None,
    until: float | None,
) -> tuple[ShareCheck | None, Certificate]:
    """The share of contexts that the selection serves as it is deployed.

    Args:
        setting: what there is to certify with.
        assignment: source of each target, −1 for none.
        continuum: a cover of the box; where it serves for certain, it chooses.
        law: how contexts are drawn.
        confidence: of the statement.
        draws: how many contexts.
        until: draw until the bound is above this.
    """
    system, sources, targets = setting.system, setting.sources, setting.targets
    name = "share of contexts"
    if system is None or setting.policies is None or not sources or not targets:
        why = "Drawing contexts needs the system and the policies, and contexts."
        return None, Certificate(name, False, "vacuous", why)
    drawn = law if isinstance(law, Law) else law_of(law, targets)
    nearest = nearest_source(assignment, targets)

    def select(rows: NDArray[np.float64]) -> NDArray[np.int64]:
        chosen = nearest(rows)
        if continuum is None:
            return chosen
        contexts = system.contexts(Points(drawn.names, rows))
        certain = continuum.source_at(contexts)
        return np.where(certain >= 0, certain, chosen)

    play = Deployed(
        system,
        setting.policies,
        system.contexts(sources),
        drawn.names,
        setting.question,
        select,
    )
    try:
        found = served_share(
            play,
            drawn,
            setting.question,
            confidence=confidence,
            draws=draws,
            until=until,
            seed=setting.seed,
            time_limit=setting.clock.left,
            of_what=play.of_what,
        )
    except InvalidInputError as error:
        return None, Certificate(name, False, "vacuous", str(error))
    return found, found.certificate
