"""The map from contexts to regions in C99: grid index, tree of boxes, nearest point."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.regions.choose import (
    BoxRegions,
    GridRegions,
    PointRegions,
    Regions,
)
from taskspace.export.c99_text import Real, fill, integers, reals


def region_source(regions: Regions, real: Real) -> tuple[str, list[str]]:
    """Return the functions `locate` and `knows`, and the tables that they read.

    Args:
        regions: the map.
        real: precision of the numbers.
    """
    low = real.up(regions.low)
    if isinstance(regions, GridRegions):
        return _grid_source(regions, real, low)
    if isinstance(regions, BoxRegions):
        return _tree_source(regions, real)
    assert isinstance(regions, PointRegions)
    return _points_source(regions, real, low)


def _grid_source(
    regions: GridRegions, real: Real, low: NDArray[Any]
) -> tuple[str, list[str]]:
    shape = regions.shape
    first = np.concatenate([[0], np.cumsum(shape)])
    values = [
        _only_exact(real, value, bottom)
        for value, bottom in zip(regions.values, low, strict=True)
    ]
    # One border fewer than values: the last of each axis is padding, never read.
    borders = [np.append(real.down(b), real.nearest(0.0)) for b in regions.borders]
    tables = [
        integers("AXIS_SIZE", np.array(shape)),
        integers("AXIS_FIRST", first[:-1]),
        reals(real, "NODE", np.concatenate(values)),
        reals(real, "BORDER", np.concatenate(borders)),
    ]
    return fill("grid.c", d=len(shape)), tables


def _tree_source(regions: BoxRegions, real: Real) -> tuple[str, list[str]]:
    tables = [
        integers("TREE_AXIS", regions.axis),
        reals(real, "TREE_CUT", real.down(regions.cut)),
        integers("TREE_FOLLOW", regions.follow),
    ]
    code = fill("boxes.c", d=len(regions.low), depth=regions.depth)
    return code, tables


def _points_source(
    regions: PointRegions, real: Real, low: NDArray[Any]
) -> tuple[str, list[str]]:
    n, d = regions.points.shape
    exact = np.stack(
        [
            _only_exact(real, column, bottom)
            for column, bottom in zip(regions.points.T, low, strict=True)
        ],
        1,
    )
    # Distances in double also for float contexts: rounded points have other bisectors.
    double = Real("double")
    tables = [
        reals(double, "POINT", regions.points),
        reals(double, "POINT_SCALE", regions.scale),
        reals(double, "POINT_LOW", regions.low),
        reals(double, "POINT_HIGH", regions.high),
        reals(real, "NODE", exact),
    ]
    return fill("points.c", d=d, n=n), tables


def _only_exact(real: Real, values: NDArray[Any], low: Any) -> NDArray[Any]:
    """Nodes that the precision has exactly; others become a value out of range.

    A context in `float` is never equal to a node that is not a `float`, so what is
    known at the node is not claimed for a neighbour.
    """
    rounded = real.nearest(values)
    outside = np.nextafter(low, np.array(-np.inf, low.dtype))
    return np.where(rounded.astype(np.float64) == values, rounded, outside)
