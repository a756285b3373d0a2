"""Switching and drift of a library: its regions as boxes, and what is proven."""

from dataclasses import replace

import numpy as np

from taskspace._util.arrays import Numbers
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.operation.certify import (
    OperationCertificate,
    certify_operation,
)
from taskspace.certificates.operation.loops import GainLoops
from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem


def certify_library_operation(
    library: PolicyLibrary,
    system: System,
    *,
    hysteresis: float = 0.0,
    factor: float = 1.1,
    time_limit: float = 60.0,
) -> OperationCertificate:
    """Prove what holds of a library while contexts drift and policies are switched.

    Args:
        library: of linear gains.
        system: the linear family that they control.
        hysteresis: of the selector, a share of the width of each axis: a policy may be
            held so far beyond its region.
        factor: by which costs may exceed their guarantee while the context drifts.
        time_limit: seconds.
    """
    if not isinstance(system, LinearSystem) or not isinstance(
        library.policies, LinearGain
    ):
        raise InvalidInputError(
            "Switching and drift are proven for linear plants and gains, but got "
            f"{type(system).__name__} with {type(library.policies).__name__}."
        )
    boxes, which = used_boxes(library, hysteresis)
    full = Boxes(*(library.contexts(system, x) for x in (boxes.low, boxes.high)))
    loops = GainLoops(system, library.policies.gain, full.centre)
    band = hysteresis * (library.high - library.low)
    return certify_operation(
        loops,
        full,
        which,
        band=dict(zip(library.names, band.tolist(), strict=True)),
        factor=factor,
        time_limit=time_limit,
    )


def used_boxes(library: PolicyLibrary, hysteresis: float) -> tuple[Boxes, Numbers]:
    """Return boxes of true contexts in which policies are used, and which policy.

    Args:
        library: whose regions are cells of a grid, or boxes.
        hysteresis: a share of the width of each axis.
    """
    regions = library.regions
    if isinstance(regions, GridRegions):
        ends = zip(regions.values, regions.borders, strict=True)
        edges = [np.concatenate([v[:1], b, v[-1:]]) for v, b in ends]
        low = np.meshgrid(*(e[:-1] for e in edges), indexing="ij")
        high = np.meshgrid(*(e[1:] for e in edges), indexing="ij")
        boxes = Boxes(*(np.stack([x.ravel() for x in y], -1) for y in (low, high)))
    elif isinstance(regions, BoxRegions):
        boxes = Boxes(regions.box_low, regions.box_high)
    else:
        raise InvalidInputError(
            "Switching and drift are proven for regions that are cells of a grid or "
            f"boxes, but these are {regions.kind!r}. Make the library from a grid or "
            "from a certified cover."
        )
    used = np.flatnonzero(regions.policy >= 0)
    boxes, which = boxes[used], regions.policy[used].astype(np.int64)
    band = hysteresis * (library.high - library.low)
    low, high = boxes.low - band, boxes.high + band
    question = library.question
    if question is not None and question.error is not None:
        low, high = question.error.dilate(library.names, low, high)
        # What is held for a dwell time was measured in its region, and drifts since.
        ends = question.error.dilate(library.names, boxes.low, boxes.high)
        low, high = np.minimum(low, ends[0] - band), np.maximum(high, ends[1] + band)
    return Boxes(np.maximum(low, library.low), np.minimum(high, library.high)), which


def with_operation(
    library: PolicyLibrary,
    system: System,
    *,
    hysteresis: float = 0.02,
    factor: float = 1.1,
    time_limit: float = 60.0,
) -> PolicyLibrary:
    """Return the library with what is proven of switching and drift in its guarantee.

    Args:
        library: of linear gains.
        system: the linear family that they control.
        hysteresis: of the selector, a share of the width of each axis.
        factor: by which costs may exceed their guarantee while the context drifts.
        time_limit: seconds.
    """
    proven = certify_library_operation(
        library, system, hysteresis=hysteresis, factor=factor, time_limit=time_limit
    )
    values = {
        **library.guarantee.values,
        "operation": proven.to_dict() | {"hysteresis": hysteresis},
    }
    return replace(library, guarantee=replace(library.guarantee, values=values))
