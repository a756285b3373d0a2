"""Everything that can be certified about one study, in one call.

It knows no system by name: what a system allows comes from its enclosure. A new kind of
certificate is a function of a `Case` in a file of its own, and a line in `CERTIFIERS`.
"""

from collections.abc import Callable

import xarray as xr
from numpy.typing import ArrayLike

from taskspace._util.clock import Clock
from taskspace.certificates.boxes.certify import certify_continuum
from taskspace.certificates.case import Case
from taskspace.certificates.options import LossBounds, Sampling
from taskspace.certificates.paper.geometry import certify_geometry
from taskspace.certificates.result import CertifyResult
from taskspace.certificates.sampled.certify import certify_fresh, certify_share
from taskspace.certificates.statements.claims import Certificate, check_consistent
from taskspace.certificates.table import (
    MAX_LP_PAIRS,
    certify_bounds,
    certify_grid,
)
from taskspace.performance.study import Study, as_study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question

Certifier = Callable[[Case], list[Certificate]]
CERTIFIERS: dict[str, Certifier] = {
    "grid cover": certify_grid,
    "cover bounds": certify_bounds,
    "loss rates": certify_geometry,
    "continuum": certify_continuum,
    "fresh episodes": certify_fresh,
    "draws": certify_share,
}
"""What is certified, in the order in which it is told; each may say nothing."""
DEFAULT_SAMPLING, UNKNOWN_BOUNDS = Sampling(), LossBounds()


def certify(
    study: Study | xr.Dataset,
    question: Question | str,
    *,
    sampling: Sampling = DEFAULT_SAMPLING,
    bounds: LossBounds = UNKNOWN_BOUNDS,
    selection: ArrayLike | None = None,
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
        sampling: how much is sampled, and from what: confidence, episodes, contexts.
        bounds: what you know of the losses between the targets.
        selection: numbers of the sources to certify; by default they are searched
            for, as few as possible.
        time_limit: processor seconds for all of it; reading the table and compiling
            the kernels, once per installation, come on top.
        seed: of the cover engine, and of samples together with all that they judge.
        progress: told what is being done.
    """
    progress, clock = progress or silent, Clock(time_limit)
    study, question = as_study(study), as_question(question)
    if study.experiment is not None and study.policies is not None:
        study.require_system()  # code that is not trusted is no reason to prove less
    if bounds.rates is not None:
        question.check_single("A Lipschitz constant")
    told = (sampling, bounds, selection, seed, progress)
    question.table_of(study)  # reading and measuring are not charged
    clock.restart()
    case = Case(study, question, *told, clock=clock)
    _ = case.rate_check  # constants that the table contradicts end it here
    names = list(CERTIFIERS)
    if not question.rule.compares_with_home and not _is_small(study):
        # Loss rates that only describe, and take long, come after what is proven.
        names.insert(names.index("continuum"), names.pop(names.index("loss rates")))
    stated: dict[str, list[Certificate]] = {}
    for number, name in enumerate(names):
        progress("certify", number, len(names), name)
        stated[name] = CERTIFIERS[name](case)
    progress("certify", len(names), len(names), "")
    certificates = [one for name in CERTIFIERS for one in stated[name]]
    check_consistent(certificates)
    return CertifyResult(
        question=question,
        certificates=tuple(certificates),
        cover=case.cover,
        seconds=case.clock.seconds,
        **vars(case.findings),
    )


def _is_small(study: Study) -> bool:
    return study.n_sources * study.n_targets <= MAX_LP_PAIRS
