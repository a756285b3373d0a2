"""python-control: a library as a gain schedule (extra `control`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import OutsideError
from taskspace.deploy.regions import NamedRegions
from taskspace.errors import InvalidInputError
from taskspace.export.pid import with_integrators
from taskspace.policies import LinearController, LinearGain
from taskspace.systems.linear.control import import_control

if TYPE_CHECKING:
    import control


@dataclass(frozen=True, eq=False)
class GainSchedule:
    """Which gain to use in which context, as a library selects.

    Args:
        library: the library.
        gains: the gain of each policy (u = −K x), shape
            `(policy, n_inputs, n_states)`.
    """

    library: PolicyLibrary
    gains: Array

    @property
    def names(self) -> tuple[str, ...]:
        """The axes of a context."""
        return self.library.names

    def gain(self, context: Mapping[str, float]) -> Array:
        """Return the gain of a context; one that the library refuses raises.

        Args:
            context: a value for each axis.
        """
        return self._at(np.array([context[name] for name in self.names]))

    def _at(self, row: Array) -> Array:
        return self.gains[_selected(self.library, row)]

    def _columns(
        self, signals: Sequence[str], states: Sequence[int] | None
    ) -> list[int]:
        """Return places of the family's states; refuse signals that do not fit."""
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
        return columns

    def statefbk(
        self,
        plant: "control.NonlinearIOSystem",
        signals: Sequence[str],
        *,
        states: Sequence[int] | None = None,
        name: str = "scheduled",
    ) -> tuple[Any, Any]:
        """Return the controller and the closed loop, u = u_d − K (x − x_d).

        An input that carries the context becomes an input of the closed loop, after
        x_d and u_d, that goes to plant and controller alike; a parameter is set for
        both by `params` when the loop is simulated.

        Args:
            plant: the process, whose outputs are its states.
            signals: what carries the context, one per axis of `names`: names of
                outputs, inputs or parameters of the plant. One that has the name of
                another axis is refused.
            states: places of the family's states among the plant's; the others get
                a gain of zero. The same states in the same order if left out.
            name: what to call the controller.
        """
        columns = self._columns(signals, states)
        ct = import_control()
        context_inputs = [s for s in signals if s in plant.input_labels]
        parameters = [s for s in signals if s in plant.params]
        unknown = [s for s in signals if s not in [*context_inputs, *parameters]]
        unknown = [s for s in unknown if s not in plant.output_labels]
        controls = [
            label for label in plant.input_labels if label not in context_inputs
        ]
        n, m = plant.nstates, self.gains.shape[1]
        if unknown or len(controls) != m or plant.noutputs != n:
            raise InvalidInputError(
                f"The plant must have the context's signals {list(signals)} as inputs, "
                f"outputs or parameters, {m} other inputs, and its {n} states as "
                f"outputs, but has inputs {plant.input_labels}, outputs "
                f"{plant.output_labels} and parameters {list(plant.params)}."
            )
        set_points = [f"xd[{i}]" for i in range(n)] + [f"ud[{i}]" for i in range(m)]
        inputs = [*set_points, *context_inputs, *plant.output_labels]

        def output(_t: float, _x: Any, u: Any, params: Mapping[str, float]) -> Any:
            row = [
                params[s] if s in parameters else u[inputs.index(s)] for s in signals
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
                *(f"{name}.{s}" for s in set_points),
                *([f"{plant.name}.{s}", f"{name}.{s}"] for s in context_inputs),
            ],
            inputs=[*set_points, *context_inputs],
            outlist=[
                *(f"{plant.name}.{s}" for s in plant.output_labels),
                *(f"{name}.{s}" for s in controls),
            ],
            outputs=[*plant.output_labels, *controls],
            params=dict(plant.params),
        )
        return controller, loop


def library_schedule(library: PolicyLibrary) -> GainSchedule:
    """Return a view of a library as a gain schedule: same selection, same gains.

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
            f"{'names' if policies is None else policies.kind}. For controllers with "
            "states use library_controller."
        )
    library.require_coordinates("A gain schedule needs contexts with coordinates")
    return GainSchedule(library, policies.gain)


def library_controller(
    library: PolicyLibrary, *, name: str = "scheduled"
) -> "control.NonlinearIOSystem":
    """Return a library of controllers as one scheduled system of python-control.

    Its inputs are the axes of the context, then y[0], … and the set points r[0], …; its
    outputs are u[0], …. All controllers share the states, so the output may jump where
    the library selects another one; `export_pid` switches without a bump.

    Args:
        library: with controllers (`LinearController`). Connecting a loop tries zeros:
            use `outside="clamp"`, or keep zero inside the range.
        name: what to call the system.
    """
    ct = import_control()
    policies = library.policies
    if not isinstance(policies, LinearController) or isinstance(
        library.regions, NamedRegions
    ):
        raise InvalidInputError(
            "A schedule of controllers needs controllers, and contexts with "
            f"coordinates, but this library holds {getattr(policies, 'kind', 'names')} "
            "policies. For gains of the whole state use library_schedule."
        )
    stack = with_integrators(policies)
    assert stack.D_r is not None
    n_axes, (m, p) = len(library.names), stack.D.shape[-2:]
    n_set_points = stack.D_r.shape[-1]

    def one(u: Array) -> LinearController:
        return stack[_selected(library, u[:n_axes])]

    def update(_t: float, x: Any, u: Any, _params: Any) -> Any:
        return one(u).step(x, u[n_axes : n_axes + p], u[n_axes + p :])[1]

    def output(_t: float, x: Any, u: Any, _params: Any) -> Any:
        return one(u).step(x, u[n_axes : n_axes + p], u[n_axes + p :])[0]

    seen = [f"y[{i}]" for i in range(p)] + [f"r[{i}]" for i in range(n_set_points)]
    return ct.nlsys(
        update,
        output,
        inputs=[*library.names, *seen],
        outputs=[f"u[{i}]" for i in range(m)],
        states=stack.n_states,
        name=name,
        dt=0 if stack.time == "continuous" else True,
    )


def _selected(library: PolicyLibrary, row: Array) -> int:
    """Return the number of the policy for a context; refuse where there is none."""
    selection = library.select(row)
    if selection.policy < 0:
        raise OutsideError(
            f"The schedule must have a policy for the context {row.tolist()}, but the "
            "library refuses it. Use outside='clamp'.",
            selection,
        )
    return int(selection.policy)
