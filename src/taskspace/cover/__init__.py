"""Covers of tolerance sets: methods, lower bounds, verification."""

from collections.abc import Callable

from taskspace.cover.base import Cover as Cover
from taskspace.cover.base import Progress as Progress
from taskspace.cover.baselines import random_cover as random_cover
from taskspace.cover.baselines import uniform_cover as uniform_cover
from taskspace.cover.baselines import uniform_grids as uniform_grids
from taskspace.cover.curve import CoverageCurve as CoverageCurve
from taskspace.cover.curve import coverage_curve as coverage_curve
from taskspace.cover.greedy import greedy_cover as greedy_cover
from taskspace.cover.minimum import minimum_cover as minimum_cover
from taskspace.cover.verify import CoverRefutedError as CoverRefutedError
from taskspace.cover.verify import Verification as Verification
from taskspace.cover.verify import verify_cover as verify_cover

COVER_METHODS: dict[str, Callable[..., Cover]] = {
    "greedy": greedy_cover,
    "minimum": minimum_cover,
    "uniform": uniform_cover,
    "random": random_cover,
}
