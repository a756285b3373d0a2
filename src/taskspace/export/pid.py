"""PI and PID controllers that run: in C99, and the same steps in Python.

The controllers of a library run in steps of `dt` (Tustin's rule), one step per call:

- the output is kept within [low, high]. While it is at a limit the integral does not
  move further beyond (conditional integration);
- where the library selects another controller, its integral is set so that the output
  goes on from the last one (bumpless switching); a controller without integral has
  none to set, and its output may jump;
- a refused context, and a measurement or set point that is not finite, keep the last
  output and move nothing.

`NAME_pid.c` and `PidRunner` do the same operations in the same order, in `double`. What
was proven of a library is about its controllers in continuous time, without limits, in
a context that does not move; so what runs here is called an estimate.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.deploy.files import write_new
from taskspace.deploy.policies import PolicyLibrary
from taskspace.errors import InvalidInputError
from taskspace.export.base import as_estimate, exporter, require_kind
from taskspace.export.c99 import Real, c99_files, fill, reals
from taskspace.policies import LinearController
from taskspace.systems.linear import Pi, Pid


class PidRunner:
    """The controllers of a library, step by step, as the exported C runs them.

    Args:
        library: with `Pi` or `Pid` controllers.
        dt: the time step, > 0.
        low: least output.
        high: largest output.
    """

    def __init__(
        self,
        library: PolicyLibrary,
        dt: float,
        *,
        low: float = -np.inf,
        high: float = np.inf,
    ):
        if not low < high:
            raise InvalidInputError(
                f"low < high must hold, but got low={low} and high={high}."
            )
        self._library, self._limits = library, (low, high)
        matrices = running_matrices(library, dt)
        self._matrices: Any = {key: array.tolist() for key, array in matrices.items()}
        self.restart()

    def restart(self) -> None:
        """Forget all states."""
        self._x = [0.0] * len(self._matrices["B"][0])
        self._policy, self._u = -1, 0.0

    def step(self, context: ArrayLike, y: float, r: float = 0.0) -> tuple[float, int]:
        """Return the output and the number of the controller, −1 where refused.

        Args:
            context: where the plant is.
            y: what is measured.
            r: the set point.
        """
        policy = int(self._library.select(np.asarray(context, float)).policy)
        low, high = self._limits
        if policy < 0 or not (np.isfinite(y) and np.isfinite(r)):
            last = self._u
            return (low if last < low else high if last > high else last), policy
        x = self._x
        A, B, B_r, C = (self._matrices[key][policy] for key in ("A", "B", "B_R", "C"))
        v = self._output(policy, y, r)
        if 0 <= self._policy != policy and C[0] != 0.0:
            x[0] = x[0] + (v - self._u) / C[0]
            v = self._output(policy, y, r)
        u = low if v < low else high if v > high else v
        moved = [
            _dot(row, x) + b * y + b_r * r
            for row, b, b_r in zip(A, B, B_r, strict=True)
        ]
        push = -C[0] * (moved[0] - x[0])
        if not ((v > high and push > 0.0) or (v < low and push < 0.0)):
            x[0] = moved[0]
        x[1:] = moved[1:]
        self._policy, self._u = policy, u
        return u, policy

    def _output(self, policy: int, y: float, r: float) -> float:
        C, D, D_r = (self._matrices[key][policy] for key in ("C", "D", "D_R"))
        return -(_dot(C, self._x) + D * y + D_r * r)


def _dot(row: list[float], x: list[float]) -> float:
    """Return the product of a row and the states, added up in the order of the C."""
    total = row[0] * x[0]
    for j in range(1, len(x)):
        total = total + row[j] * x[j]
    return total


def running_matrices(library: PolicyLibrary, dt: float) -> dict[str, NDArray[Any]]:
    """Return the controllers in steps of `dt`: matrices by their names in C.

    Args:
        library: with `Pi` or `Pid` controllers, of a plant or of a plant in rates.
        dt: the time step, > 0.
    """
    stack = library.policies
    if not isinstance(stack, LinearController) or stack.names[:2] != ("kp", "ki"):
        raise InvalidInputError(
            "Controllers that run step by step are Pi and Pid, but the library holds "
            f"policies of kind {getattr(stack, 'kind', None)!r}."
        )
    stack = with_integrators(stack).sampled(dt)
    n, n_states = len(stack.A), stack.n_states
    vectors: dict[str, Any] = {"B": stack.B, "C": stack.C, "B_R": stack.B_r}
    numbers: dict[str, Any] = {"D": stack.D, "D_R": stack.D_r}
    return {
        "A": stack.A,
        **{key: array.reshape(n, n_states) for key, array in vectors.items()},
        **{key: array.reshape(n) for key, array in numbers.items()},
    }


def with_integrators(stack: LinearController) -> LinearController:
    """Return controllers of a plant in rates as controllers of the plant itself.

    Args:
        stack: controllers; those of a plant, not of its rates, stay as they are.
    """
    if stack.names[:2] != ("kp", "ki") or stack.D.shape[-1] != 2:
        return stack
    assert stack.parameters is not None
    parts = np.moveaxis(stack.parameters, -1, 0)
    if len(parts) == 2:
        return Pi(*parts, setpoint_weight=0.0)  # as in rates
    return Pid(*parts[:3], filter_time=parts[3], setpoint_weight=0.0)


@exporter("pid")
def export_pid(
    library: PolicyLibrary,
    folder: str | Path,
    *,
    dt: float,
    name: str = "library",
    hysteresis: float = 0.02,
    command: str | None = None,
) -> Path:
    """Write a library of PI or PID controllers as C99 that runs step by step.

    Args:
        library: the library.
        folder: a folder that does not exist or is empty.
        dt: the time step, > 0.
        name: prefix of all names in C.
        hysteresis: of `select_held`, a share of the width of each axis.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder, with `NAME.h` and `NAME.c` (which controller where) and
        `NAME_pid.h` and `NAME_pid.c` (its steps).
    """
    require_kind(library, PolicyLibrary)
    matrices = running_matrices(library, dt)
    plain = as_estimate(
        replace(library, policies=None),
        f"the controllers in continuous time; here they run in steps of {dt:g}, with "
        "limits and switching",
    )
    files = c99_files(plain, name=name, hysteresis=hysteresis, command=command)
    tables = [reals(Real("double"), f"PID_{key}", x) for key, x in matrices.items()]
    values = {"name": name, "upper": name.upper(), "n": matrices["B"].shape[1]}
    header = fill("pid.h", dt=f"{dt:.17g}", **values)
    source = fill("pid.c", tables="\n".join(tables), **values)
    files |= {f"{name}_pid.h": header.encode(), f"{name}_pid.c": source.encode()}
    return write_new(folder, files)
