"""Covers of tolerance sets: methods, lower bounds, verification."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.cover.answer import CoverAnswer as CoverAnswer
from taskspace.cover.base import Cover as Cover
from taskspace.cover.bounds.dual import BOUND_KINDS as BOUND_KINDS
from taskspace.cover.bounds.dual import LowerBound as LowerBound
from taskspace.cover.bounds.dual import lower_bounds as lower_bounds
from taskspace.cover.files import SetCoverProblem as SetCoverProblem
from taskspace.cover.files import read_set_cover_file as read_set_cover_file
from taskspace.cover.holes import CoverWithHoles as CoverWithHoles
from taskspace.cover.holes import cover_with_holes as cover_with_holes
from taskspace.cover.methods.baselines import random_cover as random_cover
from taskspace.cover.methods.baselines import uniform_cover as uniform_cover
from taskspace.cover.methods.baselines import uniform_grids as uniform_grids
from taskspace.cover.methods.catalogue import METHODS as METHODS
from taskspace.cover.methods.catalogue import CoverMethod as CoverMethod
from taskspace.cover.methods.catalogue import find_cover as find_cover
from taskspace.cover.methods.greedy import greedy_cover as greedy_cover
from taskspace.cover.methods.local import local_cover as local_cover
from taskspace.cover.methods.mean import least_mean as least_mean
from taskspace.cover.methods.minimum import minimum_cover as minimum_cover
from taskspace.cover.tolerance.budget import SmallestEpsilon as SmallestEpsilon
from taskspace.cover.tolerance.budget import least_cover as least_cover
from taskspace.cover.tolerance.budget import settle_ties as settle_ties
from taskspace.cover.tolerance.budget import smallest_epsilon as smallest_epsilon
from taskspace.cover.tolerance.curve import CoverageCurve as CoverageCurve
from taskspace.cover.tolerance.curve import coverage_curve as coverage_curve
from taskspace.cover.tolerance.profile import Profile as Profile
from taskspace.cover.tolerance.profile import ProfilePoint as ProfilePoint
from taskspace.cover.tolerance.profile import complexity_profile as complexity_profile
from taskspace.cover.values import SourceValue as SourceValue
from taskspace.cover.values import source_values as source_values
from taskspace.cover.verify.proof import PriceProof as PriceProof
from taskspace.cover.verify.verify import CoverRefutedError as CoverRefutedError
from taskspace.cover.verify.verify import Verification as Verification
from taskspace.cover.verify.verify import verify_cover as verify_cover
