"""PI and PID gains by simulation alone, for plants that are no formula."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearController
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.systems.linear import Pi, Pid
from taskspace.trainers.base import Trained, Trainer, context_seed

__all__ = ["Tuned"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tuned(Trainer):
    """PI or PID controllers of least simulated cost at each source.

    For any system that plays a `LinearController`, e.g. a `FunctionSystem` around a
    simulation with valves and saturation. Starts are drawn log-uniformly between `low`
    and `high`; the search (Nelder and Mead, in logarithms) goes on from the best. What
    it finds is the lowest cost found.

    Args:
        low: least gains to try, (kp, ki) or (kp, ki, kd), > 0.
        high: largest gains to try.
        structure: `"pi"` or `"pid"`.
        filter_time: time constant of the derivative's filter, for `"pid"`.
        n_starts: simulations of random gains.
        n_steps: simulations of the search from the best of them.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    structure: Literal["pi", "pid"] = "pi"
    filter_time: float = 0.0
    n_starts: int = 12
    n_steps: int = 60
    n_policies: int = field(default=1, init=False)
    id: ClassVar[str] = "tuned"
    sources_per_block: ClassVar[int] = 1

    def __post_init__(self):
        if self.structure not in ("pi", "pid"):
            raise UnknownNameError("structure", self.structure, ["pi", "pid"])
        object.__setattr__(self, "low", tuple(map(float, self.low)))
        object.__setattr__(self, "high", tuple(map(float, self.high)))
        wanted = 2 if self.structure == "pi" else 3
        ends = list(zip(self.low, self.high, strict=False))
        fits = len(self.low) == len(self.high) == wanted
        if not fits or not all(0 < a < b < np.inf for a, b in ends):
            raise InvalidInputError(
                f"low and high must hold {wanted} gains each, 0 < low < high, for "
                f"structure={self.structure!r}, but got low={self.low} and "
                f"high={self.high}."
            )
        if (self.structure == "pid") != (self.filter_time > 0):
            raise InvalidInputError(
                "filter_time > 0 is for structure='pid', and needed there, but got "
                f"structure={self.structure!r} and filter_time={self.filter_time}."
            )
        if self.n_starts < 1 or self.n_steps < 0:
            raise InvalidInputError(
                "n_starts >= 1 and n_steps >= 0 must hold, but got "
                f"{self.n_starts} and {self.n_steps}."
            )

    def train(
        self,
        system: System,
        contexts: Array,
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained[LinearController]:
        """Return the best controllers found, one per context."""
        best = []
        for i, context in enumerate(contexts):
            rng = np.random.default_rng(context_seed(seed, context))
            best.append(self._search(system, context, rng))
            if progress:
                progress("train", i + 1, len(contexts))
        gains = np.array([gain for gain, _, _ in best])
        cost = np.array([[cost] for _, cost, _ in best])
        played = np.array([[n] for _, _, n in best])
        stack = self._controllers(gains[:, None])
        steps = np.zeros(cost.shape, np.int64)
        log = {"found": np.isfinite(cost), "simulations": played}
        return Trained(stack, steps, log)

    def _controllers(self, gains: Array) -> LinearController:
        parts = np.moveaxis(gains, -1, 0)
        if self.structure == "pi":
            return Pi(*parts)
        return Pid(*parts, filter_time=self.filter_time)

    def _search(
        self, system: System, context: Array, rng: np.random.Generator
    ) -> tuple[Array, float, int]:
        """Return gains, their cost, and how many simulations it took."""
        low, high = np.log(self.low), np.log(self.high)

        def costs(logs: Array) -> Array:
            stack = self._controllers(np.exp(logs)[:, None])
            return -system.performance(stack, context[None])[:, 0, 0]

        starts = rng.uniform(low, high, (self.n_starts, len(low)))
        first = costs(starts)
        place = int(np.argmin(first))
        best, least, n = starts[place], float(first[place]), self.n_starts
        if np.isfinite(least) and self.n_steps:
            result = scipy.optimize.minimize(
                lambda x: costs(np.clip(x, low, high)[None])[0],
                best,
                method="Nelder-Mead",
                options={"maxfev": self.n_steps},
            )
            n += int(result.nfev)
            if result.fun < least:
                best, least = np.clip(result.x, low, high), float(result.fun)
        return np.exp(best), least, n
