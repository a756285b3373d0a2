# The names of the package; __init__.py loads them when they are first used.

from .base import Entry as Entry
from .base import Guarantee as Guarantee
from .base import OutsideError as OutsideError
from .base import PolicyLibrary as PolicyLibrary
from .base import Selection as Selection
from .base import Status as Status
from .files import contract as contract
from .files import load_library as load_library
from .files import save_library as save_library
from .make import ASSIGN_RULES as ASSIGN_RULES
from .make import library as library
from .regions import BoxRegions as BoxRegions
from .regions import regions_of as regions_of
from .schedules import ScheduleLibrary as ScheduleLibrary
from .tracker import Tracker as Tracker
from .trial import Trial as Trial
from .trial import try_library as try_library
