"""What a result may call itself, decided here and nowhere else.

A statement has two legs: the numbers it uses (`exact`, `sampled` or `given`, see
`taskspace.systems.base.Provenance`) and the argument that leads from them to it. Exact
numbers and a rigorous argument make a proof. Sampled or given numbers never do,
whatever the argument: a conclusion from them is an estimate, and says which table it
is about. Fresh samples with a stated level make a statement of confidence.
"""

from collections.abc import Sequence

from taskspace.certificates.statements.base import Bound, Certificate, CertificateKind
from taskspace.errors import ContradictionError
from taskspace.systems.base import PROVENANCE_WORDS, Provenance

__all__ = [
    "Bound",
    "Certificate",
    "ContradictionError",
    "check_consistent",
    "claim",
    "on_table",
]

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
