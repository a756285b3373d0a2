# The names of the package; __init__.py loads them when they are first used.

from .base import Guarantee as Guarantee
from .base import OutsideError as OutsideError
from .base import Status as Status
from .files import load_library as load_library
from .make import library as library
from .policies import Entry as Entry
from .policies import PolicyLibrary as PolicyLibrary
from .policies import Selection as Selection
from .policies import Tracker as Tracker
from .regions import BoxRegions as BoxRegions
from .regions import regions_of as regions_of
from .schedules import ScheduleLibrary as ScheduleLibrary
from .trial import Trial as Trial
from .trial import try_library as try_library
