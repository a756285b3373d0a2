"""Selectors to compare with: by chance, evenly, where nothing serves yet, and MBTL."""

import numpy as np

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.performance import family_rows
from taskspace.selection.base import Known, OneByOne, distances, selector


@selector("random")
class Random(OneByOne):
    """Uniformly among the candidates that are left."""

    def pick(self, seen: Known, left: Mask) -> int | None:
        """Return any candidate that is left."""
        return int(self.rng(seen).choice(np.flatnonzero(left)))


@selector("uniform")
class Uniform(OneByOne):
    """The candidate farthest from all sources; the middle first."""

    def pick(self, seen: Known, left: Mask) -> int | None:
        """Return the candidate whose nearest source is farthest."""
        if not len(seen.planned):
            return self.candidates.middle
        planned = self.candidates.units_of(seen.planned)
        gap = distances(self.candidates.unit, planned).min(1)
        return int(np.where(left, gap, -1.0).argmax())


class _AtHomes(OneByOne):
    """A selector of candidates at home of uncovered targets."""

    def open_homes(self, seen: Known, left: Mask) -> Numbers:
        """Return the candidate nearest to each uncovered target.

        A target whose own candidate was tried before waits for the others.

        Args:
            seen: what is known.
            left: candidates that are not planned.
        """
        uncovered = seen.targets[~seen.covered]
        homes = self.homes(uncovered)
        if left[homes].any() or not len(uncovered):
            return homes[left[homes]]
        indices = np.flatnonzero(left)
        units = self.candidates.units_of(uncovered)
        return indices[distances(self.candidates.unit[indices], units).argmin(0)]


@selector("uncovered")
class Uncovered(_AtHomes):
    """The home of a random target among those that are not covered."""

    def pick(self, seen: Known, left: Mask) -> int | None:
        """Return a candidate nearest to some uncovered target."""
        homes = self.open_homes(seen, left)
        return int(self.rng(seen).choice(homes)) if len(homes) else None


@selector("farthest")
class Farthest(_AtHomes):
    """The home of the uncovered target farthest from all sources; the middle first."""

    def pick(self, seen: Known, left: Mask) -> int | None:
        """Return the candidate nearest to the most distant uncovered target."""
        if not len(seen.planned) and not seen.covered.any():
            return self.candidates.middle
        homes = np.unique(self.open_homes(seen, left))
        if not len(homes):
            return None
        units = self.candidates.unit[homes]
        if not len(seen.planned):  # policies of regions serve the others
            middle = units.mean(0, keepdims=True)
            return int(homes[distances(units, middle)[:, 0].argmin()])
        planned = self.candidates.units_of(seen.planned)
        return int(homes[distances(units, planned).min(1).argmax()])


# --- MBTL ---------------------------------------------------------------------------

NOISE = 0.1
# Length scales and amplitudes among which the likelihood chooses.
LENGTHS = np.geomspace(0.1, 3.0, 8)
AMPLITUDES = np.array([0.1, 0.3, 1.0, 3.0, 10.0])


@selector("mbtl")
class Mbtl(OneByOne):
    r"""Model-based transfer learning (Cho et al. 2024), in any number of dimensions.

    A Gaussian process (constant × RBF, noise 0.1²) on the scores of the trained sources
    at home gives mean $\mu_i$ and deviation $s_i$ for every candidate. The score of its
    policy at a target is taken to fall with the distance, $\mu_i - c\,|x_i - x_j|$. The
    next source maximises

    $$\frac1m\sum_j \max(0,\ \mu_i + \sqrt{\log(k+1)}\,s_i - c\,|x_i - x_j| - V_j),$$

    $V_j$ the best score so far at target $j$, $k$ the number of trained sources. The
    first source is the middle. Distances are Euclidean in the unit box, scores are
    divided by their spread so that the noise means the same in every unit, and $c$ is
    the mean fall per unit of distance in the rows seen. It goes on until every target
    is covered.
    """

    def pick(self, seen: Known, left: Mask) -> int | None:
        """Return the candidate of largest acquisition, the first among equals."""
        if not len(seen.planned):
            return self.candidates.middle
        if not len(seen.sources):
            return int(np.flatnonzero(left)[0])
        scores, home = self._scores(seen)
        sources = self.candidates.units_of(seen.sources)
        targets = self.candidates.units_of(seen.targets)
        mean, deviation = gaussian_process(sources, home, self.candidates.unit)
        value = acquisition(
            mean,
            deviation,
            distances(self.candidates.unit, targets),
            fall(scores, home, distances(sources, targets)),
            scores.max(0),
            len(seen.sources),
        )
        return int(np.where(left, value, -np.inf).argmax())

    def _scores(self, seen: Known) -> tuple[Array, Array]:
        """Return scores at all targets and at home, in units of their spread.

        The judge of the question reduces a family; a failure counts as the worst
        score seen.
        """
        table = seen.ledger.table()
        judge = seen.question.judge
        scores = family_rows(table, judge, slice(0, len(seen.sources)))
        home = table["home_performance"].values
        home = home.min(1) if judge == "worst" else home.max(1)
        finite = scores[np.isfinite(scores)]
        low = finite.min() if len(finite) else 0.0
        scores, home = (np.where(np.isfinite(v), v, low) for v in (scores, home))
        middle, spread = home.mean(), scores.std()
        spread = spread if spread > 0 else 1.0
        return (scores - middle) / spread, (home - middle) / spread


def fall(scores: Array, home: Array, away: Array) -> float:
    """Return the mean fall of the score per unit of distance, at least 0.

    Args:
        scores: scores of each source at each target.
        home: score of each source at home.
        away: distance of each source to each target.
    """
    loss = home[:, None] - scores
    return float(max(0.0, loss.sum() / max(away.sum(), np.finfo(float).tiny)))


def gaussian_process(
    inputs: Array, values: Array, wanted: Array
) -> tuple[Array, Array]:
    """Return mean and deviation of a Gaussian process, constant × RBF with noise 0.1².

    Amplitude and length scale maximise the marginal likelihood over a fixed list.

    Args:
        inputs: one row per point.
        values: one per point.
        wanted: where to predict.
    """
    square = distances(inputs, inputs) ** 2
    best = None
    for length in LENGTHS:
        shape = np.exp(-square / (2 * length**2))
        for amplitude in AMPLITUDES:
            matrix = amplitude * shape + NOISE**2 * np.eye(len(inputs))
            factor = np.linalg.cholesky(matrix)
            white = np.linalg.solve(factor, values)
            likelihood = -0.5 * white @ white - np.log(np.diag(factor)).sum()
            if best is None or likelihood > best[0]:
                best = likelihood, length, amplitude, factor, white
    assert best is not None
    _, length, amplitude, factor, white = best
    cross = amplitude * np.exp(-(distances(inputs, wanted) ** 2) / (2 * length**2))
    half = np.linalg.solve(factor, cross)
    variance = np.maximum(amplitude - (half**2).sum(0), 0.0)
    return half.T @ white, np.sqrt(variance)


def acquisition(
    mean: Array, deviation: Array, away: Array, slope: float, best: Array, k: int
) -> Array:
    """Return the expected improvement of each candidate, as in the formula of `Mbtl`.

    Args:
        mean: predicted score of each candidate at home.
        deviation: its deviation.
        away: distance of each candidate to each target.
        slope: fall of the score per unit of distance.
        best: best score so far at each target.
        k: number of trained sources.
    """
    top = mean + np.sqrt(np.log(k + 1)) * deviation
    out = np.empty(len(top))
    for first in range(0, len(top), 512):
        part = slice(first, first + 512)
        gain = top[part, None] - slope * away[part] - best
        out[part] = np.maximum(gain, 0.0).mean(1)
    return out
