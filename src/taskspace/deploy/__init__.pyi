# The names of the package; __init__.py loads them when they are first used.

from .assign import ASSIGN_RULES as ASSIGN_RULES
from .base import PolicyLibrary as PolicyLibrary
from .files import contract as contract
from .files import load_library as load_library
from .files import save_library as save_library
from .make import library as library
from .records import Entry as Entry
from .records import Guarantee as Guarantee
from .records import OutsideError as OutsideError
from .records import Selection as Selection
from .records import Status as Status
from .regions import BoxRegions as BoxRegions
from .regions import regions_of as regions_of
from .tracker import Tracker as Tracker
from .trial.trial import Trial as Trial
from .trial.trial import try_library as try_library
