"""python-control: gain schedules of covers and libraries (extra `control`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import OutsideError
from taskspace.deploy.regions.choose import NamedRegions
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.spaces import Space
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.control import import_control

if TYPE_CHECKING:
    import control

__all__ = ["GainSchedule", "gain_schedule", "library_schedule"]

FAR = 1e6
"""Where the outermost gains of a one-dimensional schedule end, in its widths."""


@dataclass(frozen=True, eq=False)
class GainSchedule:
    """Which gain to use in which context, as a cover assigned them.

    Args:
        names: names of the context axes, one a column of `points`.
        points: the targets of the cover, shape `(target, len(names))`.
        gains: the gain assigned to each, u = −K x, shape
            `(target, n_inputs, n_states)`.
        find: gives the gain of a context, a row in the order of `names`; that of the
            nearest target if left out. `library_schedule` gives a library's own
            selection.
    """

    names: tuple[str, ...]
    points: NDArray[np.float64]
    gains: NDArray[np.float64]
    find: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None

    def gain(self, context: Mapping[str, float]) -> NDArray[np.float64]:
        """The gain of a context: of the nearest target, ties to the first, or `find`.

        Args:
            context: value of every axis, by name.
        """
        return self._at(np.array([context[name] for name in self.names]))

    def _at(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.find is not None:
            return self.find(row)
        return self.gains[np.linalg.norm(self.points - row, axis=1).argmin()]

    def statefbk(
        self,
        plant: "control.NonlinearIOSystem",
        signals: Sequence[str | int],
        *,
        states: Sequence[int] | None = None,
        extend: bool = True,
        **options: Any,
    ) -> tuple[Any, Any]:
        """The controller and the closed loop, from `create_statefbk_iosystem`.

        python-control takes the gain of the nearest target (`gainsched_method` is
        `"nearest"`), so at every target the loop is the one that the cover vouches
        for. Between targets, and with another method that blends gains, nothing
        follows from the cover alone. Beyond the targets the outermost gains are held,
        which the cover does not vouch for either. Left to itself python-control
        raises ValueError there for a schedule on one signal (SciPy's `interp1d`), even
        in simulations that stay inside: connecting the loop first tries zeros.

        A context that is an input or a parameter of the plant is no signal that
        python-control can schedule on; then, and for a schedule with its own `find`,
        the controller is built here, with the gain that `gain` gives. An input becomes
        an input of the closed loop, after x_d and u_d, that goes to plant and
        controller alike; a parameter is set for both by `params` when the loop is
        simulated.

        Args:
            plant: the process, whose outputs are its states.
            signals: what carries the context, one an axis of `names`: the
                controller's inputs, as names or numbers in `[x_d, u_d, x]`, or names
                of inputs or parameters of the plant. One that has the name of another
                axis is refused.
            states: places of the family's states among the plant's; the others get
                a gain of zero. The same states in the same order if left out.
            extend: hold the outermost gains beyond the range of a schedule on one
                signal; `False` leaves it to python-control.
            options: further arguments of `create_statefbk_iosystem`; only `name` if
                the context is an input or a parameter.
        """
        ct = import_control()
        n_states = self.gains.shape[2]
        columns = list(range(n_states) if states is None else states)
        if len(columns) != n_states or len(signals) != len(self.names):
            raise InvalidInputError(
                f"There must be {n_states} states and {len(self.names)} signals (for "
                f"{', '.join(self.names)}), but got {len(columns)} and {len(signals)}."
            )
        swapped = [
            (axis, signal)
            for axis, signal in zip(self.names, signals, strict=True)
            if signal in self.names and signal != axis
        ]
        if swapped:
            axis, signal = swapped[0]
            raise InvalidInputError(
                f"Signals must be in the order of the axes {', '.join(self.names)}, "
                f"but the signal {signal!r} is given for the axis {axis!r}."
            )
        known = [*plant.input_labels, *plant.params]
        if self.find is not None or any(s in known for s in signals):
            return self._outside(plant, list(signals), columns, **options)
        gains = np.zeros((*self.gains.shape[:2], plant.nstates or n_states))
        gains[:, :, columns] = self.gains
        points = self.points
        if len(self.names) == 1:
            order = np.argsort(points[:, 0], kind="stable")
            points, gains = points[order], gains[order]
            if extend:
                far = FAR * max(1.0, float(np.abs(points).max()))
                points = np.concatenate([[[-far]], points, [[far]]])
                gains = np.concatenate([gains[:1], gains, gains[-1:]])
        options = {"gainsched_method": "nearest", **options}
        return ct.create_statefbk_iosystem(
            plant,
            (list(gains), points),
            gainsched_indices=list(signals),
            **options,
        )

    def _outside(
        self,
        plant: Any,
        signals: list[str | int],
        columns: list[int],
        *,
        name: str = "scheduled",
    ) -> tuple[Any, Any]:
        """Controller and loop for a context that is no state of the plant.

        Args:
            plant: the process, whose outputs are its states.
            signals: inputs, outputs or parameters of the plant, one an axis.
            columns: places of the family's states among the plant's.
            name: what to call the controller.
        """
        ct = import_control()
        given = [s for s in signals if s in plant.input_labels]
        parameters = [str(s) for s in signals if s in plant.params]
        unknown = [s for s in signals if s not in [*given, *parameters]]
        unknown = [s for s in unknown if s not in plant.output_labels]
        controls = [label for label in plant.input_labels if label not in given]
        n, m = plant.nstates, self.gains.shape[1]
        if unknown or len(controls) != m or plant.noutputs != n:
            raise InvalidInputError(
                f"The plant must have the context's signals {signals} as inputs, "
                f"outputs or parameters, {m} other inputs, and its {n} states as "
                f"outputs, but has inputs {plant.input_labels}, outputs "
                f"{plant.output_labels} and parameters {list(plant.params)}."
            )
        wanted = [f"xd[{i}]" for i in range(n)] + [f"ud[{i}]" for i in range(m)]
        inputs = [*wanted, *given, *plant.output_labels]

        def output(_t: float, _x: Any, u: Any, params: Mapping[str, float]) -> Any:
            row = [
                params[str(s)] if s in parameters else u[inputs.index(s)]
                for s in signals
            ]
            error = (u[-n:] - u[:n])[columns]
            return u[n : n + m] - self._at(np.array(row)) @ error

        controller = ct.nlsys(
            None,
            output,
            inputs=inputs,
            outputs=controls,
            params={s: plant.params[s] for s in parameters},
            name=name,
            dt=plant.dt,
        )
        loop = ct.interconnect(
            [plant, controller],
            connections=[
                *([f"{plant.name}.{s}", f"{name}.{s}"] for s in controls),
                *([f"{name}.{s}", f"{plant.name}.{s}"] for s in plant.output_labels),
            ],
            inplist=[
                *(f"{name}.{s}" for s in wanted),
                *([f"{plant.name}.{s}", f"{name}.{s}"] for s in given),
            ],
            inputs=[*wanted, *given],
            outlist=[
                *(f"{plant.name}.{s}" for s in plant.output_labels),
                *(f"{name}.{s}" for s in controls),
            ],
            outputs=[*plant.output_labels, *controls],
            params=dict(plant.params),
        )
        return controller, loop


def gain_schedule(
    system: LinearSystem,
    sources: Space,
    assignment: ArrayLike,
    *,
    targets: Space | None = None,
    gains: NDArray[np.float64] | None = None,
) -> GainSchedule:
    """The schedule of a cover: every target with the gain of its source.

    Args:
        system: the linear family.
        sources: the sources of the table.
        assignment: source of each target, `cover.assignment`.
        targets: the targets of the table; the sources if left out.
        gains: gain of each source, `(source, n_inputs, n_states)`; the optimal ones
            if left out.
    """
    chosen = np.asarray(assignment, np.intp)
    space = sources if targets is None else targets
    if len(chosen) != space.size:
        raise InvalidInputError(
            f"There must be one source a target, but there are {space.size} targets "
            f"and {len(chosen)} assignments."
        )
    unserved = np.flatnonzero(chosen < 0)
    if len(unserved):
        raise InvalidInputError(
            f"A schedule needs a source for every target, but {len(unserved)} have "
            f"none, the first is number {unserved[0]}. Use a larger epsilon."
        )
    if gains is None:
        gains, _ = system.optimal_gain(system.contexts(sources))
    return GainSchedule(tuple(space.names), space.points.copy(), gains[chosen])


def library_schedule(library: PolicyLibrary) -> GainSchedule:
    """A view of a library as a gain schedule: same selection, same gains.

    `statefbk` of the result gives the controller and the closed loop for a plant of
    python-control. Connecting a loop tries zeros, which may lie outside the range: use
    a library with `outside="clamp"`, or keep zero inside.

    Args:
        library: a library of linear gains.

    Examples:
        >>> import taskspace as ts
        >>> gains = LinearGain(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
        >>> points = ts.Points(["k"], [1.0, 3.0])
        >>> library = ts.PolicyLibrary.from_policies(gains, points)
        >>> library_schedule(library).gain({"k": 2.9}).tolist()
        [[3.0, 4.0]]
    """
    policies = library.policies
    if not isinstance(policies, LinearGain):
        raise InvalidInputError(
            "A gain schedule needs linear gains, but this library holds "
            f"{'names' if policies is None else policies.kind}."
        )
    if isinstance(library.regions, NamedRegions):
        raise InvalidInputError(
            "A gain schedule needs contexts with coordinates, but the targets of this "
            "library have names only."
        )
    gains = policies.gain

    def find(row: NDArray[np.float64]) -> NDArray[np.float64]:
        found = library.select(row)
        if found.policy < 0:
            raise OutsideError(
                f"The schedule must have a gain for the context {row.tolist()}, but "
                "the library refuses it. Use outside='clamp'.",
                found,
            )
        return gains[found.policy]

    used = np.maximum(library.regions.policy, 0)
    return GainSchedule(library.names, library.regions.centres, gains[used], find)
