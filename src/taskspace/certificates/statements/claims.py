"""What a result may call itself, decided here and nowhere else.

A statement has two legs: the numbers it uses (`exact`, `sampled` or `given`, see
`taskspace.systems.base.Provenance`) and the argument that leads from them to it. Exact
numbers and a rigorous argument make a proof. Sampled or given numbers never do,
whatever the argument: a conclusion from them is an estimate, and says which table it
is about. Fresh samples with a stated level make a statement of confidence.
"""

from collections.abc import Sequence

import xarray as xr

from taskspace.certificates.statements.base import Bound, Certificate, CertificateKind
from taskspace.errors import ContradictionError
from taskspace.performance.table import provenance_of
from taskspace.questions import Question
from taskspace.systems.base import FOUND, PROVENANCE_WORDS, Provenance

# What is on the right holds all that is on its left.
TARGETS = ("nodes", "box")
SOURCES = ("candidates", "table", "any")


def claim(provenance: Provenance, *, rigorous: bool = True) -> CertificateKind:
    """Return the strongest word that a statement may use of itself.

    Args:
        provenance: where the numbers come from that it uses.
        rigorous: whether the argument allows no exception; a constant that was
            estimated from samples makes it not so.
    """
    return "proof" if provenance == "exact" and rigorous else "estimate"


def claim_on(table: xr.Dataset, question: Question) -> CertificateKind:
    """Return the strongest word for what a table says of targets that are served.

    Args:
        table: the numbers.
        question: what is asked.
    """
    kind = str(table.attrs.get("best_known_kind", ""))
    return claim(provenance_of(table), rigorous=not against_found(kind, question))


def against_found(kind: str, question: Question) -> bool:
    """Return whether a loss compares with the best that a search found.

    The true best may be better, so the loss is at least what the table says: bounds on
    the number of sources from below hold, and that a target is served is an estimate.

    Args:
        kind: of the reference, `best_known_kind` of a table or `System.optimum_kind`.
        question: what is asked.
    """
    compares = any(d.rule.reference == "best known" for d in question.demands)
    return compares and kind.startswith(FOUND)


def on_table(provenance: Provenance) -> str:
    """Return a clause for sentences, `""` where the numbers are exact.

    Args:
        provenance: where the table's numbers come from.
    """
    scope = PROVENANCE_WORDS[provenance].scope
    return f" {scope}" if scope else ""


def check_consistent(certificates: Sequence[Certificate]) -> None:
    """Refuse a result that holds an upper bound below a lower bound.

    A cover of more targets, chosen from fewer sources, also covers fewer targets
    and could have been chosen from more sources. So an upper bound contradicts every
    larger lower bound that is about no more targets and no fewer sources.

    Args:
        certificates: all statements about one question.
    """
    stated: list[tuple[Certificate, Bound]] = [
        (certificate, bound)
        for certificate in certificates
        if certificate.kind != "vacuous"
        for bound in certificate.bounds
    ]
    for low_name, low in stated:
        for high_name, high in stated:
            if low.side != "lower" or high.side != "upper":
                continue
            comparable = TARGETS.index(low.targets) <= TARGETS.index(
                high.targets
            ) and SOURCES.index(high.sources) <= SOURCES.index(low.sources)
            if comparable and high.value < low.value:
                raise ContradictionError(
                    f"{low_name.name!r} says that at least {low.value:g} sources are "
                    f"needed for the {low.targets}, and {high_name.name!r} that "
                    f"{high.value:g} suffice for the {high.targets}. One of them is "
                    "wrong, so neither is reported. Please report this with its data."
                )
