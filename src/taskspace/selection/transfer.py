r"""A model of the loss of an untrained source at every target, learned from rows.

To second order, what a policy loses away from home is a quadratic form in how far its
parameters are from the best ones there: $\sqrt{\mathrm{loss}(s, t)} \approx
\|A(t)\,(g(t) - g(s))\|$, with $g$ and $A$ polynomials of low degree in the context. It
is exact for a linear regulator near its optimum, and needs nothing but losses. One row
already tells much: it has a value at every target.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from taskspace._util.arrays import Array, Numbers

# Degrees of g and A, by number of axes; while there are few rows, and then.
FIRST_DEGREES = {1: (3, 2), 2: (3, 2), 3: (2, 1)}
DEGREES = {1: (3, 2), 2: (4, 3), 3: (3, 2), 4: (2, 2)}
FEW_ROWS = 2
# Pull of the coefficients towards "g is the context, A is constant", in cells.
PRIOR = 1.0
MAX_CELLS = 3000
ITERATIONS = 25


@dataclass(frozen=True)
class TransferModel:
    """The fitted model.

    Args:
        powers_g: exponents of the terms of g.
        powers_a: exponents of the terms of A.
        g: coefficients of g, `(term, latent)`.
        a: coefficients of the upper triangle of A, `(term, entry)`.
    """

    powers_g: Numbers
    powers_a: Numbers
    g: Array
    a: Array

    def predict(self, sources: Array, targets: Array) -> Array:
        """√loss of each source at each target.

        Args:
            sources: coordinates in the unit box, one row per source.
            targets: likewise.
        """
        here = _terms(sources, self.powers_g) @ self.g
        there = _terms(targets, self.powers_g) @ self.g
        rows, columns = np.triu_indices(self.g.shape[1])
        entries = _terms(targets, self.powers_a) @ self.a
        square = np.zeros((len(sources), len(targets)), np.float32)
        for axis in range(self.g.shape[1]):
            in_row = rows == axis
            part, axes = entries[:, in_row], columns[in_row]
            at_home = (part * there[:, axes]).sum(1).astype(np.float32)
            away = here[:, axes].astype(np.float32) @ part.T.astype(np.float32)
            np.subtract(at_home, away, out=away)
            np.multiply(away, away, out=away)
            square += away
        return np.sqrt(square, out=square)


def fit_transfer(
    sources: Array,
    targets: Array,
    excess: Array,
    scale: float,
    rng: np.random.Generator,
) -> TransferModel | None:
    """Return the model that fits some rows, None if they hold no finite loss.

    Args:
        sources: coordinates of the sources in the unit box.
        targets: coordinates of the targets.
        excess: loss above the least possible, dims `(source, target)`.
        scale: the loss that matters, i.e. the tolerance; > 0.
        rng: chooses the cells that are used, where there are many.
    """
    root = np.sqrt(excess.ravel())
    usable = np.flatnonzero(np.isfinite(root))
    if not len(usable) or not root[usable].any():
        return None
    # An error counts relative to the loss, and near the tolerance most of all.
    weight = 1 / (np.sqrt(scale) + root[usable])
    if len(usable) > MAX_CELLS:
        share = weight**2 if len(sources) > 1 else np.ones(len(usable))
        kept = rng.choice(len(usable), MAX_CELLS, replace=False, p=share / share.sum())
        usable, weight = usable[kept], weight[kept]
    degrees = FIRST_DEGREES if len(sources) <= FEW_ROWS else DEGREES
    of_source, of_target = np.divmod(usable, len(targets))
    return _fit(
        degrees.get(sources.shape[1], (1, 1)),
        sources[of_source],
        targets[of_target],
        root[usable],
        weight,
    )


def _terms(units: Array, powers: Numbers) -> Array:
    """Return monomials at some coordinates of the unit box."""
    centred = 2 * units - 1
    out = np.ones((len(units), len(powers)))
    for axis, exponents in enumerate(powers.T):
        each = np.vander(centred[:, axis], exponents.max() + 1, increasing=True)
        out *= each[:, exponents]
    return out


def _powers(n_axes: int, degree: int, constant: bool) -> Numbers:
    every = itertools.product(range(degree + 1), repeat=n_axes)
    kept = [p for p in every if (0 if constant else 1) <= sum(p) <= degree]
    return np.array(sorted(kept, key=lambda p: (sum(p), p)), np.int64)


def _fit(
    degrees: tuple[int, int], sources: Array, targets: Array, root: Array, weight: Array
) -> TransferModel:
    """Levenberg and Marquardt's least squares, from g = context and A = constant."""
    n_axes = sources.shape[1]
    powers_g = _powers(n_axes, degrees[0], constant=False)
    powers_a = _powers(n_axes, degrees[1], constant=True)
    rows, columns = np.triu_indices(n_axes)
    step = _terms(targets, powers_g) - _terms(sources, powers_g)
    at = _terms(targets, powers_a)
    g = np.zeros((len(powers_g), n_axes))
    g[(powers_g.sum(1) == 1).nonzero()[0]] = powers_g[powers_g.sum(1) == 1]
    length = np.linalg.norm(step @ g, axis=1)
    square = (weight * length) @ (weight * length)
    size = (weight**2 * root * length).sum() / max(square, 1e-300)
    a = np.zeros((len(powers_a), len(rows)))
    a[0, rows == columns] = size
    start = np.concatenate([g.ravel(), a.ravel()])
    unit = np.concatenate([np.ones(g.size), np.full(a.size, size or 1.0)])

    def unpack(values: Array) -> tuple[Array, Array]:
        return values[: g.size].reshape(g.shape), values[g.size :].reshape(a.shape)

    def forward(values: Array) -> tuple[Array, Array, Array, Array, float]:
        g, a = unpack(values)
        delta, entries = step @ g, at @ a
        v = np.zeros_like(delta)
        for place, (i, j) in enumerate(zip(rows, columns, strict=True)):
            v[:, i] += entries[:, place] * delta[:, j]
        norm = np.sqrt((v**2).sum(1))
        cost = ((weight * (norm - root)) ** 2).sum()
        cost += PRIOR * (((values - start) / unit) ** 2).sum()
        return delta, entries, v, norm, float(cost)

    values, damping = start, 1e-2
    state = forward(values)
    for _ in range(ITERATIONS):
        delta, entries, v, norm, cost = state
        direction = v / np.maximum(norm, 1e-12 * (norm.max() or 1.0))[:, None]
        along = np.zeros_like(delta)
        for place, (i, j) in enumerate(zip(rows, columns, strict=True)):
            along[:, j] += direction[:, i] * entries[:, place]
        by_a = direction[:, rows] * delta[:, columns]
        parts = step[:, :, None] * along[:, None], at[:, :, None] * by_a[:, None]
        jacobian = np.hstack([part.reshape(len(root), -1) for part in parts])
        jacobian *= weight[:, None] * unit
        slope = jacobian.T @ (weight * (norm - root)) + PRIOR * (values - start) / unit
        hessian = jacobian.T @ jacobian + PRIOR * np.eye(len(values))
        for _ in range(6):
            damped = hessian + damping * np.diag(np.diag(hessian))
            trial = values - unit * np.linalg.solve(damped, slope)
            reached = forward(trial)
            if reached[-1] < cost:
                break
            damping *= 5
        else:
            break
        values, state = trial, reached
        damping /= 3
        if cost - reached[-1] < 1e-4 * cost:
            break
    return TransferModel(powers_g, powers_a, *unpack(values))
