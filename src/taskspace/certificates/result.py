"""What `certify` finds: certificates, and what figures and later certifiers need."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from taskspace.certificates.boxes.check import ContinuumCover
from taskspace.certificates.paper.balls import Balls
from taskspace.certificates.paper.rates import LossRates
from taskspace.certificates.sampled.episodes import FreshCheck
from taskspace.certificates.sampled.share import ShareCheck
from taskspace.certificates.statements.claims import Certificate
from taskspace.cover import Cover
from taskspace.cover.cover import html_view
from taskspace.questions import Question


@dataclass(kw_only=True, eq=False)
class Findings:
    """What certifiers have found so far, for those after them and for figures.

    Args:
        rates: loss rates of every source, if they could be had.
        balls: inner and outer radii, if the criterion is the signed one.
        continuum: a cover of the whole box, if the system has bounds over boxes.
        fresh: what fresh episodes say of the cover, if the system is played in
            episodes.
        share: what draws from a distribution say, if one was given.
    """

    rates: LossRates | None = None
    balls: Balls | None = None
    continuum: ContinuumCover | None = None
    fresh: FreshCheck | None = None
    share: ShareCheck | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class CertifyResult(Findings):
    """Certificates of a study, and what the figures need.

    Args:
        question: what the covers are about.
        certificates: all of them, in the order in which they build on each other.
        cover: minimum cover of the table's targets, of least worst loss; or what the
            selection that was given serves of them.
        seconds: wall-clock time.
    """

    question: Question
    certificates: tuple[Certificate, ...]
    cover: Cover
    seconds: float

    def __repr__(self) -> str:
        lines = [f"Certificates for {self.question.statement} ({self.seconds:.3g} s)"]
        lines += [f"  {certificate}" for certificate in self.certificates]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        frame = pd.DataFrame(
            [(c.name, c.kind, c.holds, c.why) for c in self.certificates],
            columns=["name", "kind", "holds", "why"],
        )
        return html_view(repr(self).splitlines()[0], frame)

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __getitem__(self, name: str) -> Certificate:
        """Return the certificate of this name."""
        for certificate in self.certificates:
            if certificate.name == name:
                return certificate
        raise KeyError(name)
