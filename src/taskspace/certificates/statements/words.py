"""The sentences of certificates: one renderer, which speaks from typed fields."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from taskspace.certificates.statements.claims import on_table
from taskspace.cover import Cover
from taskspace.cover.answer import no_reference_words
from taskspace.questions import Question
from taskspace.systems.base import Provenance

__all__ = [
    "Shares",
    "between_sentence",
    "context_words",
    "continuum_sentence",
    "few_sentence",
    "fresh_sentence",
    "grid_sentence",
    "hopeless_sentence",
    "look_sentence",
    "share_sentence",
]


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
    """`"1 source"`, `"3 sources"`, `"3 of 400 sources"`.

    Args:
        n: how many.
        noun: of what, in the singular.
        of: out of how many.
    """
    if of is None:
        return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    return f"{n:,} of {of:,} {noun}" if of == 1 else f"{n:,} of {of:,} {noun}s"


def context_words(context: Mapping[str, float], names: Sequence[str]) -> str:
    """A context for people: `k = 1.5, c = 2`.

    Args:
        context: values by name.
        names: which of them to tell.
    """
    return ", ".join(f"{name} = {context[name]:.6g}" for name in names)


def grid_sentence(
    cover: Cover,
    question: Question,
    worst_regret: float,
    provenance: Provenance,
    n_without_reference: int = 0,
) -> str:
    """What a cover of the table's targets is worth.

    Args:
        cover: of the targets.
        question: what it answers.
        worst_regret: largest regret that it leaves where it serves.
        provenance: where the table's numbers come from.
        n_without_reference: targets at which the loss has no reference.
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
    why = f"{count(cover.size, 'source')} {verb} {whom}{where}, {few}."
    n_missing -= n_without_reference
    if n_without_reference:
        why += f" {no_reference_words(n_without_reference)}"
    if n_missing:
        be = "is" if n_missing == 1 else "are"
        why += f" {count(n_missing, 'target')} {be} served by no source."
    if question.criterion == "signed" and worst_regret > question.epsilon:
        why += (
            f" They leave a regret of {worst_regret:.4g}, more than epsilon: signed "
            "compares with the source's own score."
        )
    return why


def continuum_sentence(
    question: Question,
    names: Sequence[str],
    *,
    holds: bool,
    n_sources: int,
    n_policies: int,
    n_open: int,
    shares: Shares,
    witness: Mapping[str, float] | None,
    basis: str,
) -> str:
    """What is shown of some sources on a whole box.

    Args:
        question: what they are asked to do.
        names: axes that vary.
        holds: whether they do it everywhere.
        n_sources: how many they are.
        n_policies: members of each family.
        n_open: boxes that were not decided.
        shares: how much of the box is certified, refuted and open.
        witness: a context at which all of them fail, if one was found.
        basis: what the bounds rest on.
    """
    every = names[0] if len(names) == 1 else f"({', '.join(names)})"
    where = f"every {every} in the box, not only the grid,"
    what = question.rule.clause(question.epsilon)
    noun = "controller" if n_policies == 1 else "source"
    if holds:
        whom = f"these {count(n_sources, noun)}" if n_sources != 1 else f"this {noun}"
        if n_policies > 1:
            which = {"worst": "whichever policy", "best": "the best policy"}
            whom = f"{which[question.judge]} of {whom}"
        return f"{where[0].upper()}{where[1:]} {what}, by {whom}: {basis}."
    if not n_sources:
        return f"Not so that {where} {what}: no {noun} is selected."
    many = n_sources != 1
    whom = f"these {count(n_sources, noun)}" if many else f"this {noun}"
    surely = f"certainly {'serve' if many else 'serves'} {percent(shares.certified)}"
    if witness is not None:
        none = f"none of {whom} manages" if many else f"{whom} does not manage"
        place = context_words(witness, names)
        return (
            f"Not so that {where} {what}: {none} {place}, for one. "
            f"{'They' if many else 'It'} {surely} of the box; {rest_words(shares)}."
        )
    boxes = "1 box" if n_open == 1 else f"{n_open:,} boxes"
    return (
        f"Not shown that {where} {what}: {whom} {surely} of the box; "
        f"{rest_words(shares)} ({boxes}). A larger time limit or more sources may "
        f"close {'it' if n_open == 1 else 'them'}."
    )


def rest_words(shares: Shares) -> str:
    """What of a box is not certified: refuted, or neither.

    Args:
        shares: of the box.
    """
    return (
        f"{percent(shares.refuted)} is refuted (parts that hold a context which none "
        f"serves), {percent(shares.open)} is open"
    )


def percent(share: float) -> str:
    """A share for people, never rounded up to all or down to nothing.

    Args:
        share: between 0 and 1.
    """
    if 0 < share < 1:
        share = min(max(share, 1e-4), 0.9999)
    return f"{100 * share:.4g} %"


def between_sentence(cover: Cover, why: str) -> str:
    """How a cover of the nodes does between them.

    Args:
        cover: of the nodes.
        why: the sentence of the check on the whole box.
    """
    n_served = int((cover.assignment >= 0).sum())
    nodes = (
        "every node"
        if n_served == cover.n_targets
        else f"{n_served:,} of the {cover.n_targets:,} nodes"
    )
    who = f"The {cover.size} sources that serve" if cover.size != 1 else ""
    return f"{who or 'The source that serves'} {nodes}, between nodes. {why}"


def few_sentence(size: float, bound: float, n_candidates: int, n_sources: int) -> str:
    """How few sources could do, by the bounds over candidates and over all.

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


def hopeless_sentence(
    n_sources: int,
    size: int,
    shares: Shares,
    context: Mapping[str, float],
    names: Sequence[str],
) -> str:
    """That no cover of the box exists, and where.

    Args:
        n_sources: all sources.
        size: of the selection that serves most.
        shares: how much of the box it serves, certainly or not.
        context: where every source fails.
        names: axes that vary.
    """
    why = (
        f"No cover of the whole box exists: none of the {count(n_sources, 'source')} "
        f"manages {context_words(context, names)}."
    )
    if size:
        these = (
            f"These {size} certainly serve" if size > 1 else "This 1 certainly serves"
        )
        why += f" {these} {percent(shares.certified)} of it; {rest_words(shares)}."
    return why


def fresh_sentence(
    question: Question,
    confidence: float,
    *,
    n_targets: int,
    n_certified: int,
    n_refuted: int,
    n_undecided: int,
    n_untried: int,
    n_reassigned: int,
    n_added: int,
    n_episodes: int,
) -> str:
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
    """
    what = question.rule.clause(question.epsilon)
    share = f"confidence {100 * confidence:.6g} %, {n_episodes:,} fresh episodes"
    if n_certified == n_targets:
        why = f"Every one of the {n_targets:,} targets {what} ({share})."
    else:
        why = f"{count(n_certified, 'target', of=n_targets)} certainly so: {what}"
        why += f" ({share}). {n_refuted:,} certainly not, {n_undecided:,} undecided"
        why += f", at {n_untried:,} of them no source was tried." if n_untried else "."
    if n_reassigned:
        why += f" {count(n_reassigned, 'target')} of these by another "
        why += f"source, {n_added:,} added." if n_added else "selected source."
    return why


def look_sentence(n_sources: int, n_episodes: int, n_selected: int) -> str:
    """How the sources that were judged were selected.

    Args:
        n_sources: sources that had a closer look.
        n_episodes: of that look.
        n_selected: sources that were selected on it.
    """
    return (
        f"Selected were {count(n_selected, 'source')} of a shortlist of {n_sources}, "
        f"on {n_episodes:,} other episodes."
    )


def share_sentence(
    question: Question,
    law: str,
    *,
    bound: float,
    confidence: float,
    n_draws: int,
    n_failed: int,
    n_all: int,
    of_what: str,
) -> str:
    """How large a share of contexts is served.

    Args:
        question: what they are asked.
        law: how contexts are drawn.
        bound: on the share, from below.
        confidence: that the bound holds.
        n_draws: contexts that the bound rests on, 0 if there is none.
        n_failed: those of them that were not served.
        n_all: contexts that were drawn.
        of_what: `"contexts"`, or contexts and starts.
    """
    if not n_draws:
        return (
            f"No bound on the share of {of_what} that are served, drawn {law}: time "
            f"was up after {count(n_all, 'draw')}, before the first number of draws at "
            "which a bound was to be read."
        )
    failed = "none failed" if not n_failed else f"{n_failed:,} failed"
    if n_all > n_draws:
        failed += f"; {n_all:,} were drawn in all"
    return (
        f"At least {100 * bound:.4g} % of {of_what} are served, drawn {law}: each "
        f"{question.rule.clause(question.epsilon)} (confidence {100 * confidence:.6g} "
        f"%; {n_draws:,} draws, {failed})."
    )
