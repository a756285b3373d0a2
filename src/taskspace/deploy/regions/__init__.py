"""Which policy where: regions over nodes, boxes and names.

Four kinds, one interface. On a grid or a list of points a context belongs to the
nearest node, and what is known is known at the node itself; in the boxes of a
certified cover it is known on the whole box; where targets have names only, a name is
looked up.
"""

from taskspace.deploy.regions.base import Regions as Regions
from taskspace.deploy.regions.boxes import BoxRegions as BoxRegions
from taskspace.deploy.regions.nodes import GridRegions as GridRegions
from taskspace.deploy.regions.nodes import NamedRegions as NamedRegions
from taskspace.deploy.regions.nodes import PointRegions as PointRegions
from taskspace.deploy.regions.nodes import regions_of as regions_of

REGION_KINDS: dict[str, type[Regions]] = {
    cls.kind: cls for cls in (GridRegions, PointRegions, BoxRegions, NamedRegions)
}
"""Kinds of regions by name."""
