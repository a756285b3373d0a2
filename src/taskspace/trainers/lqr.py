"""Linear-quadratic regulators: the optimal gain of each source, and its family."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.trainers.base import Trained, Trainer, context_seed

__all__ = ["Lqr"]


@dataclass(frozen=True)
class Lqr(Trainer):
    r"""The optimal gain $K^*(\theta)$ of each source, or a noisy family around it.

    The paper's family is `Lqr(n_policies=10, noise=0.1)`:
    $\Pi(\theta) = \{K^*(\theta) + \Delta_i\}$, every member perturbed.

    Args:
        n_policies: members of the family.
        noise: σ, standard deviation of each entry of the Gaussian $\Delta_i$.
    """

    n_policies: int = 1
    noise: float = 0.0
    id: ClassVar[str] = "lqr"
    sources_per_block: ClassVar[int] = 10_000

    def __post_init__(self):
        if self.n_policies < 1:
            raise InvalidInputError(
                f"n_policies >= 1 must hold, but got {self.n_policies}."
            )
        if not 0 <= self.noise < np.inf:
            raise InvalidInputError(f"noise >= 0 must hold, but got {self.noise}.")

    @property
    def steps_per_source(self) -> int:
        """None are simulated."""
        return 0

    def train(
        self,
        system: System,
        contexts: NDArray[np.float64],
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained[LinearGain]:
        """Gains for each context; zero gains where no stabilising gain exists."""
        if not isinstance(system, LinearSystem):
            raise InvalidInputError(
                f"The lqr trainer needs a linear system, but got {system.id}."
            )
        optimal, solved = system.optimal_gain(contexts)
        gains = np.repeat(optimal[:, None], self.n_policies, axis=1)
        if self.noise > 0:
            for i, context in enumerate(contexts):
                rng = np.random.default_rng(context_seed(seed, context))
                gains[i] += self.noise * rng.standard_normal(gains[i].shape)
        if progress:
            progress("train", len(contexts), len(contexts))
        shape = gains.shape[:2]
        return Trained(
            LinearGain(gains),
            np.zeros(shape, np.int64),
            {"solved": np.repeat(solved[:, None], self.n_policies, axis=1)},
        )
