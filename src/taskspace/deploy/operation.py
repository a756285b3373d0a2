"""Switching of a library: its regions as boxes, and what is proven of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taskspace._util.arrays import Numbers
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.identity import contexts_of_comparison, describe_system
from taskspace.certificates.switching import GainLoops, certify_operation
from taskspace.deploy.policies import PolicyLibrary
from taskspace.deploy.regions import GridRegions
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearGain
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem


def with_operation(
    library: PolicyLibrary,
    system: System,
    *,
    hysteresis: float = 0.02,
    constant: Sequence[str] = (),
    time_limit: float = 60.0,
) -> PolicyLibrary:
    """Return the library with what is proven of switching in its guarantee.

    Where nothing is proven, the guarantee says nothing about switching, and
    `guarantee.values["operation"]` has the reason.

    Args:
        library: of linear gains.
        system: the linear family that they control; it must be the one that the
            library was made for.
        hysteresis: of the selector, a share of the width of each axis: a policy may be
            held so far beyond its region.
        constant: axes that do not change while the plant runs, though their values are
            not known: the stiffness of one machine.
        time_limit: processor seconds.
    """
    policies = library.policies
    if not isinstance(system, LinearSystem) or not isinstance(policies, LinearGain):
        raise InvalidInputError(
            "Switching is proven for linear plants and gains, but got "
            f"{type(system).__name__} with {type(policies).__name__}."
        )
    library.require_coordinates("Switching needs contexts with coordinates")
    _check_plant(library, system)
    for name in constant:
        if name not in library.names:
            raise UnknownNameError("context axis", name, library.names)
    boxes, which, share = used_boxes(library, hysteresis)
    full = Boxes(*(library.full_contexts(system, x) for x in (boxes.low, boxes.high)))
    where = "within the range"
    if share < 1:
        percent = np.floor(1000 * share) / 10
        where = (
            f"within the regions of the policies ({percent:g} % of the range; "
            "elsewhere there is no policy and nothing is said)"
        )
    band = hysteresis * (library.high - library.low)
    proven = certify_operation(
        GainLoops(system, policies.gain, full, which),
        where=where,
        constant=constant,
        band=dict(zip(library.names, band.tolist(), strict=True)),
        time_limit=time_limit,
    )
    operation = {"mode": "none", "why": proven.statement}
    if proven.mode != "none":
        operation = proven.to_dict() | {"hysteresis": hysteresis}
    values = {**library.guarantee.values, "operation": operation}
    return replace(library, guarantee=replace(library.guarantee, values=values))


def used_boxes(
    library: PolicyLibrary, hysteresis: float
) -> tuple[Boxes, Numbers, float]:
    """Return boxes of true contexts in which policies are used, and which policy.

    Args:
        library: whose regions are cells of a grid, or boxes.
        hysteresis: a share of the width of each axis.

    Returns:
        The boxes, dilated by the error of the measured context and the hysteresis; the
        policy of each; and the share of the range in which there is a policy.
    """
    regions = library.regions
    if isinstance(regions, GridRegions):
        ends = zip(regions.values, regions.borders, strict=True)
        edges = [np.concatenate([v[:1], b, v[-1:]]) for v, b in ends]
        low = np.meshgrid(*(e[:-1] for e in edges), indexing="ij")
        high = np.meshgrid(*(e[1:] for e in edges), indexing="ij")
        boxes = Boxes(*(np.stack([x.ravel() for x in y], -1) for y in (low, high)))
    else:
        boxes = Boxes(regions.box_low, regions.box_high)
    is_used = regions.policy >= 0
    width = library.high - library.low
    sides = (boxes.high - boxes.low)[:, width > 0] / width[width > 0]
    share = 1.0 if is_used.all() else float(sides.prod(1)[is_used].sum())
    boxes, which = boxes[np.flatnonzero(is_used)], regions.policy[is_used]
    band = hysteresis * width
    low, high = boxes.low - band, boxes.high + band
    question = library.question
    if question is not None and question.error is not None:
        low, high = question.error.dilate(library.names, low, high)
        # A policy held for a dwell time was chosen in its region; the context moved.
        ends = question.error.dilate(library.names, boxes.low, boxes.high)
        low, high = np.minimum(low, ends[0] - band), np.maximum(high, ends[1] + band)
    inside = Boxes(np.maximum(low, library.low), np.minimum(high, library.high))
    return inside, which.astype(np.int64), share


def _check_plant(library: PolicyLibrary, system: System) -> None:
    """Refuse another plant than that for which the library was made."""
    made_for = library.provenance.get("plant")
    if made_for is None:
        return
    ends = contexts_of_comparison(library.low, library.high)
    now = describe_system(system, library.full_contexts(system, ends))
    changed = [name for name in made_for if made_for[name] != now.get(name)]
    if changed:
        raise InvalidInputError(
            "Switching must be proven of the plant that the library was made for, but "
            f"this one has other {' and '.join(changed)}. Give study.system."
        )
