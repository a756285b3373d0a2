"""What sampling adds to a table: fresh episodes, and draws from a distribution."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.case import Case
from taskspace.certificates.identity import describe_selection, sample_seed
from taskspace.certificates.sampled.episodes import FreshCheck, check_on_fresh_episodes
from taskspace.certificates.sampled.pilot import Pilot, least_assignment, play_pilot
from taskspace.certificates.sampled.share import (
    Deployed,
    Distribution,
    distribution_of,
    nearest_source,
    served_share,
)
from taskspace.certificates.statements.claims import Certificate
from taskspace.certificates.statements.words import PilotFacts
from taskspace.errors import InvalidInputError
from taskspace.spaces import Points
from taskspace.systems.episodic import EpisodicSystem

# Of the time, for fresh episodes where contexts are drawn as well.
FRESH_SHARE = 0.6


def certify_fresh(case: Case) -> list[Certificate]:
    """Judge the cover's pairs on episodes that its selection never saw.

    Args:
        case: its findings get the check; nothing is said of a system without episodes.
    """
    system, policies, sampling = case.system, case.policies, case.sampling
    if not isinstance(system, EpisodicSystem) or policies is None:
        return []
    share = 1.0 if sampling.distribution is None else FRESH_SHARE
    clock, progress = Clock(share * case.clock.left, on_wall=True), case.progress
    table, assignment, pilot = case.table, case.cover.assignment, None
    try:
        case.question.check_exact("Fresh episodes")
        if sampling.pilot is not None:
            pilot = play_pilot(
                table,
                case.question,
                system,
                policies,
                n_sources=sampling.pilot[0],
                n_episodes=sampling.pilot[1],
                time_limit=0.5 * clock.left,
                progress=progress,
            )
            table, policies = pilot.table, policies[pilot.sources]
            assignment = least_assignment(table, case.question)
        fresh = check_on_fresh_episodes(
            table,
            case.question,
            assignment,
            system,
            policies,
            confidence=sampling.confidence,
            max_episodes=sampling.max_episodes,
            time_limit=clock.left,
            seed=case.seed,
            progress=progress,
        )
    except InvalidInputError as error:
        return [Certificate("fresh episodes", False, "vacuous", str(error))]
    if pilot is not None:
        fresh = _of_all(fresh, pilot, len(np.unique(assignment)))
    case.findings.fresh = fresh
    return [fresh.certificate]


def _of_all(check: FreshCheck, pilot: Pilot, n_selected: int) -> FreshCheck:
    """Return what was found about a shortlist, with the whole table's sources.

    Args:
        check: of the table of the shortlist.
        pilot: the shortlist.
        n_selected: sources of the cover that was chosen on it.
    """
    n_episodes = pilot.table.attrs["n_episodes"]
    said = check.certificate
    values = {
        **said.values,
        "sources": pilot.sources[said.values["sources"]].tolist(),
        "shortlist": pilot.sources.tolist(),
        "n_selected": n_selected,
        "pilot_episodes": n_episodes,
    }
    stated = PilotFacts(len(pilot.sources), n_episodes, n_selected)
    facts = replace(check.facts, pilot=stated)
    return replace(
        check,
        certificate=replace(said, why=facts.sentence, values=values),
        facts=facts,
        assignment=np.where(check.assignment >= 0, pilot.sources[check.assignment], -1),
    )


def certify_share(case: Case) -> list[Certificate]:
    """Return bound the share of contexts that the selection serves as it is deployed.

    Args:
        case: its findings get the check; nothing is said without a distribution.
    """
    sampling, question, findings = case.sampling, case.question, case.findings
    system, policies = case.system, case.policies
    sources, targets = case.sources, case.targets
    name, drawn = "share of contexts", sampling.distribution
    continuum = findings.continuum
    if drawn is None:
        return []
    if system is None or policies is None or not sources or not targets:
        why = "Drawing contexts needs the system and the policies, and contexts."
        return [Certificate(name, False, "vacuous", why)]
    if not isinstance(drawn, Distribution):
        drawn = distribution_of(drawn, targets)
    fresh = findings.fresh
    assignment = case.cover.assignment if fresh is None else fresh.assignment
    nearest = nearest_source(assignment, targets)

    def select(rows: Array) -> NDArray[np.int64]:
        chosen = nearest(rows)
        if continuum is None:
            return chosen
        contexts = system.contexts(Points(drawn.names, rows))
        certain = continuum.source_at(contexts)
        return np.where(certain >= 0, certain, chosen)

    seed = sample_seed(
        "draws",
        case.seed,
        describe_selection(case.table, question, assignment, system, policies),
        [system.contexts(sources), system.contexts(targets)],
        _boxes(continuum),
        [drawn.description, drawn.names, drawn.contents],
    )
    contexts = system.contexts(sources)
    play = Deployed(system, policies, contexts, drawn.names, question, select, seed)
    try:
        question.check_exact("A share of drawn contexts")
        findings.share = served_share(
            play,
            drawn,
            question,
            confidence=sampling.confidence,
            n_samples=sampling.n_samples,
            target_share=sampling.target_share,
            seed=seed,
            time_limit=case.clock.left,
            of_what=play.of_what,
        )
    except InvalidInputError as error:
        return [Certificate(name, False, "vacuous", str(error))]
    return [findings.share.certificate]


def _boxes(continuum: Any) -> list[NDArray[Any]]:
    """Return where a cover of the box chooses, and which source."""
    if continuum is None:
        return []
    boxes = continuum.boxes
    return [boxes.low, boxes.high, continuum.status, continuum.assignment]
