"""Gain schedules that interpolate: the fewest breakpoints, and what is proven of them.

`table.py` has the schedule and how it interpolates, `cells.py` what a cell between
breakpoints loses, `search.py` the fewest breakpoints, `schedule.py` the whole.
"""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.schedules.schedule import ScheduleProfile as ScheduleProfile
from taskspace.schedules.schedule import schedule as schedule
from taskspace.schedules.schedule import schedule_profile as schedule_profile
from taskspace.schedules.table import Schedule as Schedule
