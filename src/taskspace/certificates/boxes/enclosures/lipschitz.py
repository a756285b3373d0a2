"""Bounds from a Lipschitz constant of the loss, for every system that is evaluated."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures.boxes import (
    Bounds,
    Boxes,
    PolicyEnclosure,
)
from taskspace.certificates.statements.claims import CertificateKind
from taskspace.certificates.statements.words import context_words
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.base import System

# Evaluations of J are right to this share of J, far above what rounding takes.
EVALUATION_SLACK = 1e-9


def check_rates(rates: ArrayLike, names: tuple[str, ...]) -> Array:
    """Return Lipschitz constants as an array: one number, or one for each axis.

    Args:
        rates: what a user gave.
        names: names of the axes.
    """
    array = np.asarray(rates, np.float64)
    if array.shape not in ((), (len(names),)) or not (
        np.isfinite(array).all() and (array >= 0).all()
    ):
        raise InvalidInputError(
            "rates must be one number >= 0, or one for each axis "
            f"({', '.join(names)}), but got {rates}."
        )
    return array


def largest_change(steps: Array, rates: Array) -> Array:
    """Return how much a loss may change over some steps, by Lipschitz constants.

    Args:
        steps: differences of contexts, one per row.
        rates: one number (Euclidean norm), or one per axis.
    """
    if rates.ndim:
        return np.abs(steps) @ rates
    return np.linalg.norm(steps, axis=1) * rates


def refuse_rates(
    rates: Array, source: str, names: Sequence[str], contexts: Array, losses: Array
) -> NoReturn:
    """Refuse Lipschitz constants that two losses of a source contradict.

    Args:
        rates: the constants.
        source: which one, for the message.
        names: of the columns of the contexts.
        contexts: the two contexts.
        losses: the losses there.
    """
    first, second = (
        context_words(dict(zip(names, row, strict=True)), names) for row in contexts
    )
    with np.errstate(invalid="ignore", over="ignore"):
        change = abs(losses[0] - losses[1])
        slope = change / float(np.linalg.norm(contexts[0] - contexts[1]))
    raise InvalidInputError(
        "A Lipschitz constant must bound every slope of the loss, but "
        f"{rates.tolist()} does not: {source} loses {losses[0]:.6g} at {first} and "
        f"{losses[1]:.6g} at {second}, a slope of {slope:.6g}. Give one that holds for "
        "every source, or none."
    )


class LipschitzEnclosure(PolicyEnclosure):
    r"""Bounds from the loss at a box's centre and a Lipschitz constant.

    The margin rule: $|loss(\theta) - loss(centre)| \le \sum_i \Lambda_i |\theta_i -
    centre_i|$ on a box, so a margin of $\sum_i \Lambda_i \delta_i$ certifies all of it.

    Args:
        system: evaluates the losses at the centres.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: criterion and judge; its tolerance does not matter here. `regret` and
            `ratio` need a system that knows its optimum.
        rates: Λ, two-point Lipschitz constants of every policy's loss along each
            axis of the system; or one number, for the Euclidean norm.
        kind: `"proof"` if Λ is known to hold, `"estimate"` if it was estimated. It
            is an estimate in any case where the system's J is not exact.
        basis: where Λ comes from.
    """

    def __init__(
        self,
        system: System,
        policies: Policy,
        sources: Array,
        question: Question,
        *,
        rates: ArrayLike,
        kind: CertificateKind,
        basis: str,
    ):
        question.check_single("A Lipschitz constant")
        super().__init__(system, policies, question)
        self._rule = question.rule
        if not self._rule.has_box_bounds:
            raise InvalidInputError(
                f"criterion={question.criterion!r} has no bounds between grid points. "
                "Use 'regret', 'ratio', 'signed' or 'floor'."
            )
        names = tuple(axis.name for axis in system.axes)
        self.rates = check_rates(rates, names)
        if self._rule.compares_with_best and system.optimum(sources[:1]) is None:
            raise InvalidInputError(
                f"criterion={question.criterion!r} between grid points needs the "
                f"optimum there, which {system.id} does not know. Use 'signed' or "
                "'floor'."
            )
        self.kind = kind if system.provenance == "exact" else "estimate"
        self.basis = basis
        self._home = system.home_performance(policies, sources)

    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return loss at the centre of each box, minus and plus the margin."""
        del epsilon
        rows = self._rows(sources)
        if not len(rows) or not len(boxes):
            return np.empty((len(rows), len(boxes))), np.empty((len(rows), len(boxes)))
        at_centre, slack = self._loss(rows.astype(np.int64), boxes.centre)
        if self.kind == "proof":
            self._refute(boxes.centre, at_centre, slack)
        margin = largest_change(boxes.radius, self.rates)
        slack = slack + EVALUATION_SLACK * margin
        # A failure at the centre says nothing about the rest of the box.
        low = np.where(at_centre == np.inf, -np.inf, at_centre - margin - slack)
        low = np.where((boxes.radius == 0).all(1) & (at_centre == np.inf), np.inf, low)
        # Where no optimum is known nothing bounds the regret.
        unknown = np.isnan(at_centre)
        high = np.where(unknown, np.inf, at_centre + margin + slack)
        return np.where(unknown, -np.inf, low), high

    def _refute(self, contexts: Array, losses: Array, slack: Array) -> None:
        """Refuse constants that neighbours among the evaluated contexts contradict."""
        allowed = largest_change(np.diff(contexts, axis=0), self.rates) * (
            1 + EVALUATION_SLACK
        )
        with np.errstate(invalid="ignore"):
            change = np.abs(np.diff(losses, axis=1))
        wrong = np.argwhere(change > allowed + slack[:, 1:] + slack[:, :-1])
        if not len(wrong):
            return
        row, place = wrong[0].tolist()
        two = slice(place, place + 2)
        names = [axis.name for axis in self.system.axes]
        refuse_rates(self.rates, "a source", names, contexts[two], losses[row, two])

    def _loss(self, rows: NDArray[np.int64], contexts: Array) -> tuple[Array, Array]:
        """Return losses `(source, context)`, and what rounding may do to them."""
        measure, stack = self._rule.measure, self.policies[rows]
        performance = self.system.scores(measure, stack, contexts)
        optimum = self.system.optimum
        reference = self._rule.against(
            best=lambda: np.asarray(optimum(contexts), np.float64),
            home=lambda: self._home[rows][:, :, None],
        )
        losses = self._rule.loss(performance, reference)
        # Losses are differences: they err by a share of what they are made of.
        size = np.abs(performance) + np.abs(reference)
        if self._rule.measure != "performance":
            size = 1 + size  # an excess over 1
        elif self._rule.is_relative:
            size = size / np.abs(reference)
        finite = np.isfinite(losses) & np.isfinite(size)
        slack = np.where(finite, EVALUATION_SLACK * size, 0.0).max(1)
        return losses.max(1) if self.question.judge == "worst" else losses.min(1), slack
