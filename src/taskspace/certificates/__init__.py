"""Certificates: what is proven about the space between and around grid points."""

from taskspace import _cache as _cache  # before kernels are compiled or loaded
from taskspace.certificates.balls import check_balls as check_balls
from taskspace.certificates.balls import inner_radius as inner_radius
from taskspace.certificates.balls import outer_radius as outer_radius
from taskspace.certificates.base import Bound as Bound
from taskspace.certificates.base import Certificate as Certificate
from taskspace.certificates.cells import certified_cover as certified_cover
from taskspace.certificates.chance import Law as Law
from taskspace.certificates.chance import law_of as law_of
from taskspace.certificates.chance import served_share as served_share
from taskspace.certificates.claims import check_consistent as check_consistent
from taskspace.certificates.claims import claim as claim
from taskspace.certificates.confidence import BettingTests as BettingTests
from taskspace.certificates.confidence import share_bound as share_bound
from taskspace.certificates.continuum import ContinuumCover as ContinuumCover
from taskspace.certificates.continuum import box_edges as box_edges
from taskspace.certificates.continuum import certify_cover as certify_cover
from taskspace.certificates.enclosures import ENCLOSURES as ENCLOSURES
from taskspace.certificates.enclosures import Boxes as Boxes
from taskspace.certificates.enclosures import Enclosure as Enclosure
from taskspace.certificates.enclosures import LinearEnclosure as LinearEnclosure
from taskspace.certificates.enclosures import LipschitzEnclosure as LipschitzEnclosure
from taskspace.certificates.enclosures import MsdEnclosure as MsdEnclosure
from taskspace.certificates.enclosures import enclosure_for as enclosure_for
from taskspace.certificates.engine import CertifyResult as CertifyResult
from taskspace.certificates.engine import certify as certify
from taskspace.certificates.exploring import Explored as Explored
from taskspace.certificates.exploring import explore as explore
from taskspace.certificates.exploring import least_assignment as least_assignment
from taskspace.certificates.fresh import FreshCheck as FreshCheck
from taskspace.certificates.fresh import (
    check_on_fresh_episodes as check_on_fresh_episodes,
)
from taskspace.certificates.grid import estimate_rates as estimate_rates
from taskspace.certificates.grid import margin_rule as margin_rule
from taskspace.certificates.grid import radius_rule as radius_rule
from taskspace.certificates.rates import LossRates as LossRates
from taskspace.certificates.rates import local_slopes as local_slopes
from taskspace.certificates.rates import loss_rates as loss_rates
from taskspace.certificates.rates import rate_bounds as rate_bounds
from taskspace.certificates.smoothness import compare_covers as compare_covers
from taskspace.certificates.smoothness import model_smoothness as model_smoothness
from taskspace.certificates.smoothness import (
    performance_smoothness as performance_smoothness,
)
from taskspace.certificates.smoothness import (
    smoothness_certificate as smoothness_certificate,
)
from taskspace.certificates.volume import engine_bounds as engine_bounds
from taskspace.certificates.volume import volume_bounds as volume_bounds
