"""The policy library: from a cover to what runs on the target."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.deploy.assign import ASSIGN_RULES as ASSIGN_RULES
from taskspace.deploy.assign import count_regions as count_regions
from taskspace.deploy.base import PolicyLibrary as PolicyLibrary
from taskspace.deploy.files import contract as contract
from taskspace.deploy.files import load_library as load_library
from taskspace.deploy.files import save_library as save_library
from taskspace.deploy.make import library as library
from taskspace.deploy.records import Entry as Entry
from taskspace.deploy.records import Guarantee as Guarantee
from taskspace.deploy.records import OutsideError as OutsideError
from taskspace.deploy.records import Selection as Selection
from taskspace.deploy.records import Status as Status
from taskspace.deploy.regions.choose import BoxRegions as BoxRegions
from taskspace.deploy.regions.choose import regions_of as regions_of
from taskspace.deploy.tracker import Tracker as Tracker
from taskspace.deploy.trial.networks import conditioned_networks as conditioned_networks
from taskspace.deploy.trial.trial import Trial as Trial
from taskspace.deploy.trial.trial import try_library as try_library
