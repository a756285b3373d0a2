"""The sentences of certificates: one renderer, which speaks from typed fields."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taskspace.certificates.statements.claims import on_table
from taskspace.cover import Cover
from taskspace.cover.answer import no_reference_words
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS, Provenance, System


class Shares(NamedTuple):
    """How much of a box is what; the three make up all of it.

    Args:
        certified: is certainly served.
        refuted: in parts that hold a context which no selected source serves.
        open: neither was shown, or it was not looked at.
    """

    certified: float
    refuted: float
    open: float


def count(n: int, noun: str, *, of: int | None = None) -> str:
    """Return a count: `"1 source"`, `"3 sources"`, `"3 of 400 sources"`.

    Args:
        n: how many.
        noun: of what, in the singular.
        of: out of how many.
    """
    if of is None:
        return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    return f"{n:,} of {of:,} {noun}" if of == 1 else f"{n:,} of {of:,} {noun}s"


def context_words(context: Mapping[str, float], names: Sequence[str]) -> str:
    """Return a context for people: `k = 1.5, c = 2`.

    Args:
        context: values by name.
        names: which of them to tell.
    """
    return ", ".join(f"{name} = {context[name]:.6g}" for name in names)


def caution_sentence(system: System | None, question: Question) -> str:
    """Return what costs and the best of them mean, where that needs a word.

    Args:
        system: the tasks, if they are known.
        question: what is asked.
    """
    if system is None:
        return ""
    caution = system.objective.caution
    if not caution or not question.rule.averages_starts:
        return ""
    return f"{caution[0].upper()}{caution[1:]}."


def grid_sentence(
    cover: Cover,
    question: Question,
    worst_regret: float,
    provenance: Provenance,
    n_without_reference: int = 0,
    caution: str = "",
    standard_error: float | None = None,
) -> str:
    """Return what a cover of the table's targets is worth.

    Args:
        cover: of the targets.
        question: what it answers.
        worst_regret: largest regret that it leaves where it serves.
        provenance: where the table's numbers come from.
        n_without_reference: targets at which the loss has no reference.
        caution: a sentence about what costs mean, if one is needed.
        standard_error: the largest of the scores that it rests on, if it is known.
    """
    n_served = int((cover.assignment >= 0).sum())
    n_missing = len(cover.uncoverable)
    n_left = cover.n_targets - n_served - n_missing
    verb = "serves" if cover.size == 1 else "serve"
    if n_served == cover.n_targets:
        whom = "every target of the table"
    elif n_missing and not n_left:
        whom = f"{count(n_served, 'target', of=cover.n_targets)}"
    else:
        whom = f"only {count(n_served, 'target', of=cover.n_targets)}"
    few = "the fewest possible" if cover.optimal else f"at least {cover.lower_bound:g}"
    where = on_table(provenance)
    if where and n_served == cover.n_targets:
        whom = "every target"
    if question.error is not None:
        whom += f" measured with {question.error.words} (of the targets within that)"
    parts = [f"{count(cover.size, 'source')} {verb} {whom}{where}, {few}."]
    n_missing -= n_without_reference
    if n_without_reference:
        parts.append(no_reference_words(n_without_reference))
    if n_missing:
        be = "is" if n_missing == 1 else "are"
        parts.append(f"{count(n_missing, 'target')} {be} served by no source.")
    if question.rule.compares_with_home and worst_regret > question.epsilon:
        parts.append(
            f"They leave a regret of {worst_regret:.4g}, more than epsilon: signed "
            "compares with the source's own score."
        )
    if caution:
        parts.append(caution)
    if standard_error is not None:
        parts.append(f"Standard error of its scores: up to {standard_error:.4g}.")
    return " ".join(parts)


def margin_sentence(
    n_open: int,
    basis: str,
    *,
    is_estimate: bool,
    provenance: Provenance = "exact",
    reason: str = "",
) -> str:
    """Return what the nodes of a grid say about the space between them.

    Args:
        n_open: cells whose nodes keep no margin.
        basis: where Λ comes from.
        is_estimate: whether Λ, or a loss, is an estimate.
        provenance: where the losses come from.
        reason: why there are no bounds over boxes, if that is known.
    """
    parts = [
        f"{n_open} cells are open: their nodes keep no margin of Λδ."
        if n_open
        else "Every node keeps a margin of Λδ, so every context is within epsilon.",
        basis,
    ]
    if is_estimate:
        parts.append("Λ is an estimate, so this is one too.")
    parts += [PROVENANCE_WORDS[provenance].caution, reason]
    return " ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class BoxFacts:
    """What is shown of some sources on a whole box, and how few could do.

    Args:
        question: what they are asked to do.
        names: axes that vary.
        holds: whether they do it everywhere.
        size: how many they are.
        n_policies: members of each family.
        n_open: boxes that were not decided.
        shares: how much of the box is certified, refuted and open.
        witness: a context at which all of them fail, if one was found.
        basis: what the bounds rest on.
        n_sources: all sources, of which these were selected.
        n_candidates: sources among which a search chose.
        bound_candidates: no fewer of the candidates do, if there was a search.
        bound: no fewer of all sources do, if that is to be told.
        uncoverable: a context at which every source fails, if one is known.
        is_time_up: whether the time ended before the search did.
        nodes: nodes of a grid that they serve, and how many it has, if they were
            selected for these.
    """

    question: Question
    names: Sequence[str]
    holds: bool
    size: int
    n_policies: int
    n_open: int
    shares: Shares
    witness: Mapping[str, float] | None
    basis: str
    n_sources: int
    n_candidates: int = 0
    bound_candidates: int | None = None
    bound: int | None = None
    uncoverable: Mapping[str, float] | None = None
    is_time_up: bool = False
    nodes: tuple[int, int] | None = None

    @property
    def sentence(self) -> str:
        """All of it, in a few sentences."""
        if self.uncoverable is not None:
            parts = [self._hopeless(self.uncoverable)]
        else:
            parts = [self._check(), *self._few()]
        # Where boxes are open, the sentence about them names the time limit.
        is_open = self.size > 0 and self.witness is None
        is_settled = self.holds or self.uncoverable is not None or is_open
        if self.is_time_up and not is_settled:
            parts.append("Time was up: a larger time limit may find a cover.")
        if self.nodes is not None and not self.holds:
            parts.insert(0, self._between(*self.nodes))
        return " ".join(parts)

    def _check(self) -> str:
        """Return what the selected sources do."""
        names = self.names
        every = names[0] if len(names) == 1 else f"({', '.join(names)})"
        where = f"every {every} in the box, not only the grid,"
        if self.question.error is not None:
            where += f" measured with {self.question.error.words},"
        what = self.question.clause
        noun = "controller" if self.n_policies == 1 else "source"
        many = self.size != 1
        whom = f"these {count(self.size, noun)}" if many else f"this {noun}"
        if self.holds:
            if self.n_policies > 1:
                which = {"worst": "whichever policy", "best": "the best policy"}
                whom = f"{which[self.question.judge]} of {whom}"
            return f"{where[0].upper()}{where[1:]} {what}, by {whom}: {self.basis}."
        if not self.size:
            return f"Not so that {where} {what}: no {noun} is selected."
        verb = "serve" if many else "serves"
        surely = f"certainly {verb} {percent(self.shares.certified)}"
        rest = rest_words(self.shares)
        if self.witness is not None:
            none = f"none of {whom} manages" if many else f"{whom} does not manage"
            place = context_words(self.witness, names)
            return (
                f"Not so that {where} {what}: {none} {place}, for one. "
                f"{'They' if many else 'It'} {surely} of the box; {rest}."
            )
        boxes = "1 box" if self.n_open == 1 else f"{self.n_open:,} boxes"
        return (
            f"Not shown that {where} {what}: {whom} {surely} of the box; {rest} "
            f"({boxes}). A larger time limit or more sources may close "
            f"{'it' if self.n_open == 1 else 'them'}."
        )

    def _few(self) -> list[str]:
        """Say how few could do; what holds for all is not said of the candidates."""
        size = self.size if self.holds else np.inf
        among, every = self.bound_candidates, self.bound
        said = []
        if (every is None or every < size) and among is not None and among >= size:
            said.append(few_sentence(size, among, self.n_candidates, self.n_sources))
        if every is not None and (self.holds or every > 1):
            said.append(few_sentence(size, every, self.n_sources, self.n_sources))
        return said

    def _hopeless(self, context: Mapping[str, float]) -> str:
        """Say that no cover of the box exists, and where."""
        none = (
            "No cover of the whole box exists: none of the "
            f"{count(self.n_sources, 'source')} manages "
            f"{context_words(context, self.names)}."
        )
        if not self.size:
            return none
        many = self.size > 1
        these = (
            f"These {self.size} certainly serve"
            if many
            else ("This 1 certainly serves")
        )
        served = f"{percent(self.shares.certified)} of it"
        return f"{none} {these} {served}; {rest_words(self.shares)}."

    def _between(self, n_served: int, n_nodes: int) -> str:
        """Say that what follows is about the space between the nodes."""
        all_served = n_served == n_nodes
        nodes = "every node" if all_served else f"{n_served:,} of the {n_nodes:,} nodes"
        many = self.size != 1
        who = (
            f"The {self.size} sources that serve"
            if many
            else ("The source that serves")
        )
        return f"{who} {nodes}, between nodes."


def rest_words(shares: Shares) -> str:
    """Return what of a box is not certified: refuted, or neither.

    Args:
        shares: of the box.
    """
    return (
        f"{percent(shares.refuted)} is refuted (parts that hold a context which none "
        f"serves), {percent(shares.open)} is open"
    )


def percent(share: float) -> str:
    """Return a share for people, never rounded up to all or down to nothing.

    Args:
        share: between 0 and 1.
    """
    if 0 < share < 1:
        share = min(max(share, 1e-4), 0.9999)
    return f"{100 * share:.4g} %"


def few_sentence(size: float, bound: float, n_candidates: int, n_sources: int) -> str:
    """Return how few sources could do, by the bounds over candidates and over all.

    Args:
        size: of the cover; infinite if there is none.
        bound: no fewer of the candidates do.
        n_candidates: sources among which the search chose.
        n_sources: all sources.
    """
    whole = n_candidates == n_sources
    among = "the" if whole else f"{n_candidates:,} candidates among the"
    if bound >= size:
        if size == 1:
            return "No selection is smaller."
        return f"No fewer of {among} {count(n_sources, 'source')} do."
    return f"At least {bound:g} of {among} {count(n_sources, 'source')} are needed."


@dataclass(frozen=True)
class PilotFacts:
    """How the sources that were judged were selected.

    Args:
        n_sources: sources that had a closer look.
        n_episodes: of that look.
        n_selected: sources that were selected on it.
    """

    n_sources: int
    n_episodes: int
    n_selected: int

    @property
    def sentence(self) -> str:
        """All of it, in one sentence."""
        return (
            f"Selected were {count(self.n_selected, 'source')} of a shortlist of "
            f"{self.n_sources}, on {self.n_episodes:,} other episodes."
        )


@dataclass(frozen=True, kw_only=True)
class FreshFacts:
    """What fresh episodes say of a cover.

    Args:
        question: what the cover answers.
        confidence: that all of it is true.
        n_targets: all targets.
        n_certified: targets that are served.
        n_refuted: targets that are not.
        n_undecided: targets of which neither was shown.
        n_untried: targets among these that have no source.
        n_reassigned: targets that another source serves.
        n_added: sources that were not selected before.
        n_episodes: how many were played.
        pilot: how the sources were selected, if on other episodes.
        is_cut: the time limit ended it before all was decided.
        undecided: contexts of the first few that were tried and are undecided.
        n_expected: episodes for a source at a target that may decide all of these,
            infinite where what was seen does not tell.
    """

    question: Question
    confidence: float
    n_targets: int
    n_certified: int
    n_refuted: int
    n_undecided: int
    n_untried: int
    n_reassigned: int
    n_added: int
    n_episodes: int
    pilot: PilotFacts | None = None
    is_cut: bool = False
    undecided: tuple[str, ...] = ()
    n_expected: float = math.inf

    @property
    def sentence(self) -> str:
        """All of it, in a few sentences."""
        what = self.question.clause
        share = (
            f"confidence {100 * self.confidence:.6g} %, {self.n_episodes:,} fresh "
            "episodes"
        )
        if self.n_certified == self.n_targets:
            parts = [f"Every one of the {self.n_targets:,} targets {what} ({share})."]
        else:
            served = count(self.n_certified, "target", of=self.n_targets)
            untried = f", at {self.n_untried:,} of them no source was tried"
            parts = [
                f"{served} certainly so: {what} ({share}).",
                f"{self.n_refuted:,} certainly not, {self.n_undecided:,} undecided"
                f"{untried if self.n_untried else ''}.",
            ]
            if self.undecided:
                parts.append(self._undecided_words)
            if self.is_cut:
                parts.append("The time limit ended it: a longer one may decide more.")
        if self.n_reassigned:
            which = (
                f"source, {self.n_added:,} added"
                if self.n_added
                else ("selected source")
            )
            moved = count(self.n_reassigned, "target")
            parts.append(f"{moved} of these by another {which}.")
        if self.pilot is not None:
            parts.append(self.pilot.sentence)
        return " ".join(parts)

    @property
    def _undecided_words(self) -> str:
        """Which targets are undecided, and what would decide them."""
        n_more = self.n_undecided - self.n_untried - len(self.undecided)
        more = f" and {n_more:,} more" if n_more else ""
        which = f"Undecided: {'; '.join(self.undecided)}{more}."
        if math.isinf(self.n_expected):
            return (
                f"{which} Their means lie too near the level, against the range of "
                "returns, to say how many episodes would decide."
            )
        digits = 10 ** max(0, math.floor(math.log10(self.n_expected)) - 1)
        n_episodes = math.ceil(self.n_expected / digits) * digits
        wide = ", for the range of returns is wide against their margins"
        return (
            f"{which} By what was seen, about {n_episodes:,} episodes for each "
            f"(max_episodes) would decide{wide if n_episodes > 1000 else ''}."
        )


def share_sentence(
    question: Question,
    distribution: str,
    *,
    bound: float,
    confidence: float,
    n_samples: int,
    n_failed: int,
    n_all: int,
    of_what: str,
) -> str:
    """Return how large a share of contexts is served.

    Args:
        question: what they are asked.
        distribution: how contexts are drawn.
        bound: on the share, from below.
        confidence: that the bound holds.
        n_samples: contexts that the bound rests on, 0 if there is none.
        n_failed: those of them that were not served.
        n_all: contexts that were drawn.
        of_what: `"contexts"`, or contexts and starts.
    """
    if not n_samples:
        return (
            f"No bound on the share of {of_what} that are served, drawn "
            f"{distribution}: time was up after {count(n_all, 'draw')}, before "
            "the first number of draws at which a bound was to be read."
        )
    failed = "none failed" if not n_failed else f"{n_failed:,} failed"
    if n_all > n_samples:
        failed += f"; {n_all:,} were drawn in all"
    return (
        f"At least {100 * bound:.4g} % of {of_what} are served, drawn {distribution}: "
        f"each {question.clause} (confidence "
        f"{100 * confidence:.6g} %; {n_samples:,} draws, {failed})."
    )
