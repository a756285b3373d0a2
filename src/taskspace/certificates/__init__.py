"""Certificates: what is proven about the space between and around grid points."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.certificates.boxes.check import ContinuumCover as ContinuumCover
from taskspace.certificates.boxes.check import box_edges as box_edges
from taskspace.certificates.boxes.check import certify_cover as certify_cover
from taskspace.certificates.boxes.enclosures import ENCLOSURES as ENCLOSURES
from taskspace.certificates.boxes.enclosures import Boxes as Boxes
from taskspace.certificates.boxes.enclosures import Enclosure as Enclosure
from taskspace.certificates.boxes.enclosures import LinearEnclosure as LinearEnclosure
from taskspace.certificates.boxes.enclosures import (
    LipschitzEnclosure as LipschitzEnclosure,
)
from taskspace.certificates.boxes.enclosures import MsdEnclosure as MsdEnclosure
from taskspace.certificates.boxes.enclosures import enclosure_for as enclosure_for
from taskspace.certificates.boxes.search import certified_cover as certified_cover
from taskspace.certificates.certifiers import CERTIFIERS as CERTIFIERS
from taskspace.certificates.certifiers import certify as certify
from taskspace.certificates.lipschitz.grid import estimate_rates as estimate_rates
from taskspace.certificates.lipschitz.grid import margin_rule as margin_rule
from taskspace.certificates.lipschitz.grid import radius_rule as radius_rule
from taskspace.certificates.options import LossBounds as LossBounds
from taskspace.certificates.options import Sampling as Sampling
from taskspace.certificates.paper.balls import check_balls as check_balls
from taskspace.certificates.paper.balls import inner_radius as inner_radius
from taskspace.certificates.paper.balls import outer_radius as outer_radius
from taskspace.certificates.paper.rates import LossRates as LossRates
from taskspace.certificates.paper.rates import local_slopes as local_slopes
from taskspace.certificates.paper.rates import loss_rates as loss_rates
from taskspace.certificates.paper.rates import rate_bounds as rate_bounds
from taskspace.certificates.paper.smoothness import compare_covers as compare_covers
from taskspace.certificates.paper.smoothness import model_smoothness as model_smoothness
from taskspace.certificates.paper.smoothness import (
    performance_smoothness as performance_smoothness,
)
from taskspace.certificates.paper.smoothness import (
    smoothness_certificate as smoothness_certificate,
)
from taskspace.certificates.paper.volume import volume_bounds as volume_bounds
from taskspace.certificates.result import CertifyResult as CertifyResult
from taskspace.certificates.sampled.betting import BettingTests as BettingTests
from taskspace.certificates.sampled.betting import share_bound as share_bound
from taskspace.certificates.sampled.episodes import FreshCheck as FreshCheck
from taskspace.certificates.sampled.episodes import (
    check_on_fresh_episodes as check_on_fresh_episodes,
)
from taskspace.certificates.sampled.pilot import Explored as Explored
from taskspace.certificates.sampled.pilot import explore as explore
from taskspace.certificates.sampled.pilot import least_assignment as least_assignment
from taskspace.certificates.sampled.share import Distribution as Distribution
from taskspace.certificates.sampled.share import distribution_of as distribution_of
from taskspace.certificates.sampled.share import served_share as served_share
from taskspace.certificates.statements.base import Bound as Bound
from taskspace.certificates.statements.base import Certificate as Certificate
from taskspace.certificates.statements.claims import (
    check_consistent as check_consistent,
)
from taskspace.certificates.statements.claims import claim as claim
