"""Covers of tolerance sets: methods, lower bounds, verification."""

from taskspace import _cache as _cache  # before kernels are compiled or loaded
from taskspace.cover.answer import CoverAnswer as CoverAnswer
from taskspace.cover.base import Cover as Cover
from taskspace.cover.baselines import random_cover as random_cover
from taskspace.cover.baselines import uniform_cover as uniform_cover
from taskspace.cover.baselines import uniform_grids as uniform_grids
from taskspace.cover.bounds import BOUND_KINDS as BOUND_KINDS
from taskspace.cover.bounds import LowerBound as LowerBound
from taskspace.cover.bounds import lower_bounds as lower_bounds
from taskspace.cover.budget import SmallestEpsilon as SmallestEpsilon
from taskspace.cover.budget import least_cover as least_cover
from taskspace.cover.budget import smallest_epsilon as smallest_epsilon
from taskspace.cover.curve import CoverageCurve as CoverageCurve
from taskspace.cover.curve import coverage_curve as coverage_curve
from taskspace.cover.files import SetCoverProblem as SetCoverProblem
from taskspace.cover.files import read_set_cover_file as read_set_cover_file
from taskspace.cover.greedy import greedy_cover as greedy_cover
from taskspace.cover.local import local_cover as local_cover
from taskspace.cover.methods import METHODS as METHODS
from taskspace.cover.methods import CoverMethod as CoverMethod
from taskspace.cover.methods import find_cover as find_cover
from taskspace.cover.minimum import minimum_cover as minimum_cover
from taskspace.cover.profile import Profile as Profile
from taskspace.cover.profile import ProfilePoint as ProfilePoint
from taskspace.cover.profile import complexity_profile as complexity_profile
from taskspace.cover.proof import PriceProof as PriceProof
from taskspace.cover.verify import CoverRefutedError as CoverRefutedError
from taskspace.cover.verify import Verification as Verification
from taskspace.cover.verify import verify_cover as verify_cover
