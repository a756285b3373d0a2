"""What a cover of least mean loss claims, checked against the losses themselves."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Cover
from taskspace.cover.verify.tree import Selecting, TreeProof, tree_fault
from taskspace.sets import TargetSets

__all__ = ["mean_failures"]

_LARGEST = 2.0**60  # integers in units of a proof, so that sums fit 64 bits


def mean_failures(
    cover: Cover,
    sets: TargetSets,
    target_weights: ArrayLike | None,
    proven: list[str],
    open_: list[str],
) -> list[str]:
    """Return what is wrong with the mean loss of a cover and with its bound.

    Args:
        cover: the claim.
        sets: the targets that each source serves, with their losses.
        target_weights: weight of each target, as given to the method.
        proven: is told what is proven again.
        open_: is told what is not.
    """
    if sets.losses is None:
        return ["a mean loss is claimed of sets without losses"]
    if cover.budget is None or cover.size > cover.budget:
        return [f"{cover.size} sources are more than budget={cover.budget}"]
    weights = np.ones(sets.n_targets)
    if target_weights is not None:
        weights = np.asarray(target_weights, np.float64)
    weights = weights.copy()
    weights[cover.uncoverable] = 0.0  # the mean is over targets that can be served
    proof = cover.proof
    about = mean_claim(
        sets, weights, cover.budget, cover.include, cover.exclude,
        proof or TreeProof(Fraction(1), 0, False, ()),
    )  # fmt: skip
    total = sum((Fraction(w) for w in weights.tolist()), Fraction(0))
    cost = about.cost(np.asarray(cover.sources))
    if cost is None or not total:
        return ["a mean loss is claimed, but some target is not served"]
    mean, claimed = cost / total, Fraction(cover.mean_loss or 0)
    failures = []
    if abs(claimed - mean) > abs(mean) / 2**50:
        failures.append(
            f"mean_loss={cover.mean_loss} is claimed, but it is {float(mean)}"
        )
    low = Fraction(cover.lower_bound)
    if low > mean:
        failures.append(
            f"lower_bound={cover.lower_bound} exceeds the mean {float(mean)}"
        )
    if cover.optimal and mean - low > abs(mean) / 2**50:
        failures.append(
            f"optimal is claimed, but lower_bound={cover.lower_bound} is not the mean "
            f"{float(mean)}"
        )
    if failures:
        return failures
    what = f"lower_bound={cover.lower_bound} (mean loss, {cover.lower_bound_kind})"
    if proof is None:
        open_.append(f"{what} was not refuted, and was not proven again: no proof")
        return []
    fault = tree_fault(proof, about, low * total)
    if fault:
        return [f"the proof of {what} proves nothing: {fault}"]
    proven.append(f"{what} is proven again by its tree of prices")
    return []


def mean_claim(
    sets: TargetSets,
    weights: NDArray[np.float64],
    budget: int,
    include: NDArray[np.int64],
    exclude: NDArray[np.int64],
    proof: TreeProof,
) -> Selecting:
    """Return what the proof of a mean is about: the least weighted sum of losses.

    Args:
        sets: the targets that each source serves, with their losses.
        weights: weight of each target.
        budget: sources at most, those that must be in among them.
        include: sources that must be in.
        exclude: sources that must not be in.
        proof: whose shift counts.
    """
    exact = [Fraction(w) for w in weights.tolist()]

    def row(source: int) -> NDArray[np.float64]:
        return served_losses(sets, source)

    def loads(units: NDArray[np.int64]) -> NDArray[np.int64] | None:
        sums = np.zeros(sets.n_sources, np.int64)
        for source in range(sets.n_sources):
            losses = row(source)
            with np.errstate(invalid="ignore", over="ignore"):
                product = np.where(weights == 0, 0.0, losses * weights)
            # One step down, unless it is exact: the true product is not below that.
            is_exact = (weights == 1) | (weights == 0) | (losses == 0)
            down = np.where(is_exact, product, np.nextafter(product, -np.inf))
            with np.errstate(over="ignore"):
                floor = np.floor(np.ldexp(down, proof.shift))
            if not floor.min(initial=0.0) >= -_LARGEST:
                return None
            saved = np.maximum(units - np.minimum(floor, _LARGEST).astype(np.int64), 0)
            if saved.sum(dtype=np.float64) >= 2 * _LARGEST:
                return None
            sums[source] = saved.sum()
        return sums

    def cost(sources: NDArray[np.int64]) -> Fraction | None:
        best = np.full(sets.n_targets, np.inf)
        for source in sources.tolist():
            best = np.minimum(best, row(source))
        if np.isinf(best[weights > 0]).any():
            return None
        pairs = zip(best.tolist(), exact, strict=True)
        return sum((Fraction(v) * w for v, w in pairs if w), Fraction(0))

    return Selecting(
        n_sources=sets.n_sources,
        n_targets=sets.n_targets,
        budget=budget,
        costs=np.zeros(sets.n_sources, np.int64),
        loads=loads,
        price_fault=lambda units, rate: "" if proof.unit == 1 else "its unit is not 1",
        slack=0,
        cost=cost,
        include=include,
        exclude=exclude,
    )


def served_losses(sets: TargetSets, source: int) -> NDArray[np.float64]:
    """Return the losses of one source, inf where it does not serve.

    Args:
        sets: the targets that each source serves, with their losses.
        source: the source.
    """
    assert sets.losses is not None
    losses = np.asarray(sets.losses(source), np.float64)
    return np.where(sets.row(source), losses, np.inf)
