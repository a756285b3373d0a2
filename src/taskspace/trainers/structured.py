"""The controller of a given structure with the least cost, from several starts."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import scipy.optimize

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearController
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem, Pi, Pid
from taskspace.systems.linear.controllers import augmented, in_rates
from taskspace.systems.linear.kernels.lyapunov import closed_loop_cost
from taskspace.trainers.base import Trained, Trainer, context_seed

__all__ = ["Structured"]

STRUCTURES = ("pi", "pid")
# Random starts that are looked at once; the search goes on from the best.
N_DRAWN = 200
DECADES = 3.0
# Searches from the best found so far, each with a fresh simplex.
ROUNDS = 3


@dataclass(frozen=True)
class Structured(Trainer):
    """PI or PID controllers of least cost at each source.

    The cost is the system's own, computed exactly; the search (Nelder and Mead) starts
    from the best of many random gains in the scale of the plant. What it finds is a
    minimum nearby: it is not said that there is none lower, and `log["found"]` says
    where a stabilising one was found.

    Args:
        structure: `"pi"` or `"pid"`, for one input and one output.
        n_starts: how many starts the search goes on from.
        filter_time: time constant of the derivative's filter, for `"pid"`.
    """

    structure: Literal["pi", "pid"] = "pi"
    n_starts: int = 3
    filter_time: float = 0.0
    n_policies: int = field(default=1, init=False)
    id: ClassVar[str] = "structured"
    sources_per_block: ClassVar[int] = 100

    def __post_init__(self):
        if self.structure not in STRUCTURES:
            raise UnknownNameError("structure", self.structure, STRUCTURES)
        if self.n_starts < 1:
            raise InvalidInputError(
                f"n_starts >= 1 must hold, but got {self.n_starts}."
            )
        if (self.structure == "pid") != (self.filter_time > 0):
            raise InvalidInputError(
                "filter_time > 0 is for structure='pid', and needed there, but got "
                f"structure={self.structure!r} and filter_time={self.filter_time}."
            )

    @property
    def steps_per_source(self) -> int:
        """None are simulated."""
        return 0

    def train(
        self,
        system: System,
        contexts: Array,
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained[LinearController]:
        """Return the best controllers found, one per context."""
        if not isinstance(system, LinearSystem):
            raise InvalidInputError(
                f"The structured trainer needs a linear system, but got {system.id}."
            )
        best = []
        for i, context in enumerate(contexts):
            rng = np.random.default_rng(context_seed(seed, context))
            best.append(self._search(system, context, rng))
            if progress:
                progress("train", i + 1, len(contexts))
        stack = self._controllers(system, np.array(best)[:, None])
        cost = -system.home_performance(stack, contexts)
        steps = np.zeros(cost.shape, np.int64)
        return Trained(stack, steps, {"found": np.isfinite(cost)})

    def _controllers(self, system: LinearSystem, gains: Array) -> LinearController:
        """Return controllers of gains with dims `(…, gain)`."""
        parts = np.moveaxis(gains, -1, 0)
        if self.structure == "pi":
            stack = Pi(*parts)
        else:
            stack = Pid(*parts, filter_time=self.filter_time)
        return stack if system.is_continuous else stack.sampled(1.0)

    def _search(
        self, system: LinearSystem, context: Array, rng: np.random.Generator
    ) -> Array:
        """Return the gains of least cost at one context."""
        row = context[None]
        plant = system.matrices(row), system.output_matrix(row)
        start = system.initial_covariance

        def costs(gains: Array) -> Array:
            stack = self._controllers(system, gains)
            if system.is_in_rates:
                stack = in_rates(stack)
            loop, C, whole = augmented(*plant, start, stack.n_states)
            return closed_loop_cost(
                stack.feedback, loop, whole, system.is_continuous, C
            )[:, 0]

        starts = self._starts(system, context, rng)
        first = costs(starts)
        order = np.argsort(first, kind="stable")[: self.n_starts]
        best, least = starts[order[0]], first[order[0]]
        for place in order[np.isfinite(first[order])]:
            point, value = starts[place], first[place]
            for _ in range(ROUNDS):
                result = scipy.optimize.minimize(
                    lambda x: costs(x[None])[0],
                    point,
                    method="Nelder-Mead",
                    options={"xatol": 0.0, "fatol": 1e-10 * value},
                )
                gained = value - result.fun
                if gained > 0:
                    point, value = result.x, result.fun
                if not gained > 1e-9 * value:
                    break
            if value < least:
                best, least = point, value
        return best

    def _starts(
        self, system: LinearSystem, context: Array, rng: np.random.Generator
    ) -> Array:
        """Return gains to start from, in the scale of the plant."""
        A, B, _, _ = (matrix[0] for matrix in system.matrices(context[None]))
        C = system.output_matrix(context[None])[0]
        if system.is_in_rates:  # the rates, and what they are rates of
            outputs = len(C) // 2
            n = len(A) - outputs
            A, B, C = A[:n, :n], B[:n], C[:outputs, :n]
        if (B.shape[1], len(C)) != (1, 1):
            raise InvalidInputError(
                f"structure={self.structure!r} is for one input and one output, but "
                f"there are {B.shape[1]} and {len(C)}. State what is measured as C."
            )
        if not system.is_continuous:
            A = A - np.eye(len(A))  # per step
        rates = np.abs(np.linalg.eigvals(A))
        top = max(rates.max(), np.finfo(float).tiny)
        rate = top * 10.0 ** rng.uniform(-DECADES, 1.0, N_DRAWN)
        eye = np.eye(len(A))
        response = [C @ np.linalg.solve((1 + 1j) * w * eye - A, B) for w in rate]
        size = np.abs(np.array(response))[:, 0, 0]
        size = np.where(size > 0, size, size.max(initial=0.0))
        scale = 1 / np.where(size > 0, size, 1.0)
        factor = 10.0 ** rng.uniform(-1.0, 1.0, N_DRAWN)
        kp = rng.choice([-1.0, 1.0], N_DRAWN) * factor * scale
        ki = kp * rate * 10.0 ** rng.uniform(-2.0, 0.0, N_DRAWN)
        kd = kp / rate * 10.0 ** rng.uniform(-2.0, 0.0, N_DRAWN)
        return np.stack([kp, ki] if self.structure == "pi" else [kp, ki, kd], 1)
