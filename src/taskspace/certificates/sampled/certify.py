"""What sampling adds to a table: fresh episodes, and draws from a distribution."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.certificates.boxes.check import (
    ContinuumCover,
)
from taskspace.certificates.options import Sampling
from taskspace.certificates.sampled.episodes import FreshCheck, check_on_fresh_episodes
from taskspace.certificates.sampled.identity import describe_selection, sample_seed
from taskspace.certificates.sampled.pilot import Explored, explore, least_assignment
from taskspace.certificates.sampled.share import (
    Deployed,
    Distribution,
    ShareCheck,
    distribution_of,
    nearest_source,
    served_share,
)
from taskspace.certificates.setting import Setting
from taskspace.certificates.statements.base import Certificate
from taskspace.certificates.statements.words import PilotFacts
from taskspace.cover import Cover
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.spaces import Points
from taskspace.systems.episodic import EpisodicSystem

__all__ = ["certify_fresh", "certify_share"]


def certify_fresh(
    setting: Setting,
    cover: Cover,
    sampling: Sampling,
    time_limit: float,
    progress: Progress,
) -> tuple[FreshCheck | None, Certificate]:
    """The cover's pairs on episodes that its selection never saw.

    Args:
        setting: with an episodic system and its policies.
        cover: of the table's targets.
        sampling: confidence, episodes and pilot.
        time_limit: seconds.
        progress: told how far it is.
    """
    system, policies = setting.system, setting.policies
    assert isinstance(system, EpisodicSystem)
    assert policies is not None
    clock = Clock(time_limit)
    table, assignment, explored = setting.table, cover.assignment, None
    try:
        setting.question.check_exact("Fresh episodes")
        if sampling.pilot is not None:
            explored = explore(
                table,
                setting.question,
                system,
                policies,
                n_sources=sampling.pilot[0],
                n_episodes=sampling.pilot[1],
                time_limit=0.5 * clock.left,
                progress=progress,
            )
            table, policies = explored.table, policies[explored.sources]
            assignment = least_assignment(table, setting.question)
        found = check_on_fresh_episodes(
            table,
            setting.question,
            assignment,
            system,
            policies,
            confidence=sampling.confidence,
            max_episodes=sampling.max_episodes,
            time_limit=clock.left,
            seed=setting.seed,
            progress=progress,
        )
    except InvalidInputError as error:
        return None, Certificate("fresh episodes", False, "vacuous", str(error))
    if explored is not None:
        found = _of_all(found, explored, len(np.unique(assignment)))
    return found, found.certificate


def _of_all(found: FreshCheck, explored: Explored, n_selected: int) -> FreshCheck:
    """What was found about a shortlist, with the sources as the whole table has them.

    Args:
        found: of the table of the shortlist.
        explored: the shortlist.
        n_selected: sources of the cover that was chosen on it.
    """
    n_episodes = explored.table.attrs["n_episodes"]
    said = found.certificate
    values = {
        **said.values,
        "sources": explored.sources[said.values["sources"]].tolist(),
        "shortlist": explored.sources.tolist(),
        "n_selected": n_selected,
        "pilot_episodes": n_episodes,
    }
    pilot = PilotFacts(len(explored.sources), n_episodes, n_selected)
    facts = replace(found.facts, pilot=pilot)
    return replace(
        found,
        certificate=replace(said, why=facts.sentence, values=values),
        facts=facts,
        assignment=np.where(
            found.assignment >= 0, explored.sources[found.assignment], -1
        ),
    )


def certify_share(
    setting: Setting,
    assignment: NDArray[np.int64],
    continuum: ContinuumCover | None,
    sampling: Sampling,
) -> tuple[ShareCheck | None, Certificate]:
    """The share of contexts that the selection serves as it is deployed.

    Args:
        setting: what there is to certify with.
        assignment: source of each target, −1 for none.
        continuum: a cover of the box; where it serves for certain, it chooses.
        sampling: what contexts are drawn from, and how many.
    """
    system, sources, targets = setting.system, setting.sources, setting.targets
    name = "share of contexts"
    if system is None or setting.policies is None or not sources or not targets:
        why = "Drawing contexts needs the system and the policies, and contexts."
        return None, Certificate(name, False, "vacuous", why)
    drawn = sampling.distribution
    assert drawn is not None
    if not isinstance(drawn, Distribution):
        drawn = distribution_of(drawn, targets)
    nearest = nearest_source(assignment, targets)

    def select(rows: NDArray[np.float64]) -> NDArray[np.int64]:
        chosen = nearest(rows)
        if continuum is None:
            return chosen
        contexts = system.contexts(Points(drawn.names, rows))
        certain = continuum.source_at(contexts)
        return np.where(certain >= 0, certain, chosen)

    seed = sample_seed(
        "draws",
        setting.seed,
        describe_selection(
            setting.table, setting.question, assignment, system, setting.policies
        ),
        [system.contexts(sources), system.contexts(targets)],
        _boxes(continuum),
        [drawn.description, drawn.names, drawn.contents],
    )
    play = Deployed(
        system,
        setting.policies,
        system.contexts(sources),
        drawn.names,
        setting.question,
        select,
        seed,
    )
    try:
        setting.question.check_exact("A share of drawn contexts")
        found = served_share(
            play,
            drawn,
            setting.question,
            confidence=sampling.confidence,
            n_samples=sampling.n_samples,
            target_share=sampling.target_share,
            seed=seed,
            time_limit=setting.clock.left,
            of_what=play.of_what,
        )
    except InvalidInputError as error:
        return None, Certificate(name, False, "vacuous", str(error))
    return found, found.certificate


def _boxes(continuum: ContinuumCover | None) -> list[NDArray[Any]]:
    """Where a cover of the box chooses, and which source."""
    if continuum is None:
        return []
    boxes = continuum.boxes
    return [boxes.low, boxes.high, continuum.status, continuum.assignment]
