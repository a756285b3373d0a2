"""Gain schedules that interpolate: the fewest breakpoints, and what is proven of them.

`table.py` has the schedule and how it interpolates, `search.py` what a cell between
breakpoints loses and the fewest breakpoints, `schedule.py` the whole, `proof.py` what
is proven of a schedule on a box.
"""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.schedules.schedule import schedule as schedule
from taskspace.schedules.table import Schedule as Schedule
