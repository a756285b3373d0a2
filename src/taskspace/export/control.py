"""python-control: the gains of a library as the arrays that it schedules by."""

import numpy as np

from taskspace._util.arrays import Array
from taskspace.deploy.base import PolicyLibrary, require_coordinates
from taskspace.deploy.regions import GridRegions
from taskspace.deploy.schedules import ScheduleLibrary
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain


def schedule_arrays(
    library: PolicyLibrary | ScheduleLibrary,
) -> tuple[Array, Array]:
    """Return the gain at each node of a library's grid, and the nodes.

    They are what `control.create_statefbk_iosystem` takes:

        create_statefbk_iosystem(plant, schedule_arrays(library),
                                 gainsched_indices=[...], gainsched_method="nearest")

    Its "nearest" picks the library's node, borders apart, since borders of a grid lie
    halfway between neighbours. Outside the range it clamps, or raises where there is
    one axis. It can schedule by states, their set points and the inputs' set points;
    where the context is another signal, call `library.act` in a system of your own
    (examples/gain_schedule.py).

    Of an interpolated schedule these are the gains at its breakpoints and at the ends
    of the range, for `gainsched_method="linear"`. That is the schedule's law along one
    linear axis. Of two it is not, since python-control then interpolates on triangles.

    Args:
        library: of linear gains, on a grid without logarithmic axes; or of a schedule
            with breakpoints on one linear axis.

    Returns:
        Gains (u = −K x), shape `(node, n_inputs, n_states)`, and nodes
        `(node, axis)`.

    Examples:
        >>> import taskspace as ts
        >>> gains = LinearGain(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
        >>> points = ts.Points(["k"], [1.0, 3.0])
        >>> library = ts.PolicyLibrary.from_policies(gains, points)
        >>> schedule_arrays(library)[0].tolist()
        [[[1.0, 2.0]], [[3.0, 4.0]]]
    """
    if isinstance(library, ScheduleLibrary):
        return _of_schedule(library)
    policies, regions = library.policies, library.regions
    if not isinstance(policies, LinearGain):
        raise InvalidInputError(
            "A gain schedule needs linear gains, but this library holds "
            f"{'names' if policies is None else policies.kind}."
        )
    require_coordinates(library, "A gain schedule needs contexts with coordinates")
    if not isinstance(regions, GridRegions) or any(library.log_axes):
        kind = "logarithmic axes" if any(library.log_axes) else regions.plural
        raise InvalidInputError(
            "python-control schedules by the nearest point, which is the law of a grid "
            f"without logarithmic axes, but this library has {kind}. Call library.act "
            "in a system of your own instead."
        )
    if (regions.policy < 0).any():
        raise InvalidInputError(
            "A gain schedule needs a policy at every node, but the library refuses "
            f"{int((regions.policy < 0).sum())} of them. Narrow its range."
        )
    return policies.gain[regions.policy], np.asarray(regions.centres)


def _of_schedule(library: ScheduleLibrary) -> tuple[Array, Array]:
    schedule = library.schedule
    if not schedule.structure.is_gain:
        raise InvalidInputError(
            "A gain schedule needs linear gains of the state, but this one holds "
            f"{', '.join(library.numbers)}."
        )
    axis = int(np.argmax(schedule.shape))
    if schedule.size > schedule.shape[axis]:
        raise InvalidInputError(
            "python-control interpolates on triangles where there are several axes, "
            "which is another law than this schedule's. Call library.act in a system "
            "of your own instead."
        )
    name = library.names[axis]
    if schedule.interpolation[name] == "log":
        raise InvalidInputError(
            f"python-control interpolates linearly, but this schedule is linear in the "
            f"logarithm of {name}. Call library.act in a system of your own instead."
        )
    ends = library.low[axis], library.high[axis]
    points = np.unique([*schedule.breakpoints[name], *ends])
    rows = np.tile(library.low, (len(points), 1))
    rows[:, axis] = points
    gains = schedule.numbers_at(rows).reshape(-1, *schedule.structure.shape)
    return gains, points[:, None]
