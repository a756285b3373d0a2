"""`ts.certify`: everything that can be certified about one study, in one call."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import ContinuumCover
from taskspace.certificates.boxes.continuum import certify_continuum
from taskspace.certificates.boxes.enclosures import Enclosure
from taskspace.certificates.case import Case
from taskspace.certificates.draws import certify_share
from taskspace.certificates.fresh import FreshCheck, certify_fresh
from taskspace.certificates.paper import certify_geometry
from taskspace.certificates.statements import Certificate, check_consistent
from taskspace.certificates.table import certify_grid, check_given_rates
from taskspace.cover import Cover
from taskspace.cover.cover import html_view
from taskspace.performance.study import Study, as_study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question


@dataclass(kw_only=True, eq=False, repr=False)
class CertifyResult:
    """Certificates of a study, and what the figures need.

    Args:
        question: what the covers are about.
        certificates: all of them, in the order in which they build on each other.
        seconds: wall-clock time.
        cover: minimum cover of the table's targets, of least worst loss; or what the
            selection that was given serves of them. None for a schedule.
        continuum: a cover of the whole box, if the system has bounds over boxes.
        fresh: what fresh episodes say of the cover, if the system is played in
            episodes.
    """

    question: Question
    certificates: tuple[Certificate, ...]
    seconds: float
    cover: Cover | None = None
    continuum: ContinuumCover | None = None
    fresh: FreshCheck | None = None

    def __repr__(self) -> str:
        lines = [f"Certificates for {self.question.statement} ({self.seconds:.3g} s)"]
        lines += [f"  {certificate}" for certificate in self.certificates]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(c.name, c.kind, c.holds, c.why) for c in self.certificates]
        frame = pd.DataFrame(rows, columns=["name", "kind", "holds", "why"])
        return html_view(repr(self).splitlines()[0], frame)

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __getitem__(self, name: str) -> Certificate:
        """Return the certificate of this name."""
        for certificate in self.certificates:
            if certificate.name == name:
                return certificate
        raise KeyError(name)


Certifier = Callable[[Case], list[Certificate]]
"""Returns certificates of a case, none where it has nothing to say."""

CERTIFIERS: dict[str, Certifier] = {
    "grid cover": certify_grid,
    "loss rates": certify_geometry,
    "continuum": certify_continuum,
    "fresh episodes": certify_fresh,
    "draws": certify_share,
}
"""All certifiers by name, in the order in which their statements are told. The last
statement of all is the one that the command line puts first."""
# It takes long and only describes.
RUNS_LAST = "loss rates"


def certifier(
    name: str, *, before: str | None = None
) -> Callable[[Certifier], Certifier]:
    """Return a decorator that adds a certifier to `ts.certify`.

    Args:
        name: what progress calls it.
        before: the certifier before which it runs and its statements are told; by
            default it comes last.
    """

    def register(make: Certifier) -> Certifier:
        names = [known for known in CERTIFIERS if known != name]
        names.insert(names.index(before) if before in names else len(names), name)
        makers = CERTIFIERS | {name: make}
        CERTIFIERS.clear()
        CERTIFIERS.update({one: makers[one] for one in names})
        return make

    return register


def certify(
    study: Study | xr.Dataset,
    question: Question | str,
    *,
    selection: ArrayLike | None = None,
    schedule: Any = None,
    confidence: float = 0.999,
    max_episodes: int = 4096,
    pilot: tuple[int, int] | None = None,
    distribution: Any = None,
    n_samples: int | None = None,
    rates: ArrayLike | None = None,
    bounds: Enclosure | None = None,
    time_limit: float = 20.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyResult:
    """Certify what can be certified: covers, bounds, loss rates, balls, the continuum.

    What a table alone allows is always there; where the study knows the system and the
    policies, also what holds between its targets.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance. Balls and volume bounds are derived
            for the criterion `signed` only.
        selection: indices of the sources to certify; by default they are searched
            for, as few as possible.
        schedule: an interpolated schedule (`ts.schedule`): what holds of it at every
            context of the box, in place of statements about covers.
        confidence: of statements from fresh episodes and from drawn contexts.
        max_episodes: fresh episodes at each target, where the system is played in
            episodes.
        pilot: sources and episodes of a pilot, e.g. `(16, 256)`: 16 sources are played
            again in 256 other episodes, and the cover that fresh episodes judge is
            chosen on these. For tables that are noisier than ε.
        distribution: draw contexts from it and bound the share that is served:
            `"uniform"`, `"loguniform"`, a frozen distribution of `scipy.stats` for each
            axis by name, or one for all axes together.
        n_samples: how many contexts to draw, 1000 by default.
        rates: Λ, if you know one: Lipschitz constants of every policy's loss in the
            target, one number or one per axis of the targets (of the system, where
            one is given). One that two targets of a cell contradict is refused.
        bounds: your own bounds on the losses over boxes; by default those of the
            system, if there are some.
        time_limit: processor seconds for all of it; reading the table and compiling
            the kernels, once per installation, come on top.
        seed: of the cover engine, and of samples together with all that they judge.
        progress: told what is being done.
    """
    report, clock = progress or silent, Clock(time_limit)
    study, question = as_study(study), as_question(question)
    if study.experiment is not None and study.policies is not None:
        # Fail here rather than skip proofs that need the user's code.
        study.require_system()
    if schedule is not None:
        stated_of_it = schedule.certificates(
            study, question, time_limit=time_limit, progress=report
        )
        return CertifyResult(
            question=question, certificates=stated_of_it, seconds=clock.seconds
        )
    case = Case(
        study=study,
        question=question,
        selection=selection,
        confidence=confidence,
        max_episodes=max_episodes,
        pilot=pilot,
        distribution=distribution,
        n_samples=n_samples,
        rates=rates,
        bounds=bounds,
        seed=seed,
        progress=report,
        clock=clock,
    )
    _ = case.table  # reading and measuring are not charged
    clock.restart()
    check_given_rates(case)
    stated: dict[str, list[Certificate]] = {}
    for name in sorted(CERTIFIERS, key=lambda one: one == RUNS_LAST):
        report("certify", len(stated), len(CERTIFIERS), name)
        stated[name] = CERTIFIERS[name](case)
    report("certify", len(stated), len(stated), "")
    certificates = tuple(one for name in CERTIFIERS for one in stated[name])
    check_consistent(certificates)
    return CertifyResult(
        question=question,
        certificates=certificates,
        cover=case.cover,
        seconds=clock.seconds,
        **case.found,
    )
