"""Designs: gains for whole regions, and bounds on their number over all gains.

`problem.py` has what is designed, `gain_sets.py` where gains that serve a context are,
`gain_boxes.py` what boxes of gains may serve, `bound.py` the bound, `search.py` the
search for few gains, `design.py` the whole.
"""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.designs.bound import GainBound as GainBound
from taskspace.designs.bound import bound_all_gains as bound_all_gains
from taskspace.designs.design import Design as Design
from taskspace.designs.design import design as design
from taskspace.designs.problem import DESIGNED as DESIGNED
