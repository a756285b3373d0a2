"""Small worlds for selections: policies are numbers, J is a formula."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.policies import LinearGain
from taskspace.progress import Progress
from taskspace.selection import SELECTORS
from taskspace.systems.base import ContextAxis, System
from taskspace.trainers.base import RegionTrainer, Trained, Trainer, context_seed

PROPOSING = [name for name, cls in SELECTORS.items() if not cls.needs_regions]
"""Selectors that name contexts; the others need a trainer of regions."""


@dataclass(frozen=True)
class Line(System):
    """J(t, π) = −scale·|t − π|^power (Euclidean), −inf at forbidden targets.

    With `optimum_known` regret is against 0, else against the best seen.
    """

    n_axes: int = 1
    scale: float = 1.0
    power: float = 1.0
    optimum_known: bool = True
    forbidden: tuple[float, ...] = ()
    id: ClassVar[str] = "line-v1"
    provenance: ClassVar[Any] = "exact"

    @property
    def axes(self):
        return tuple(ContextAxis(f"x{i}", 0.0) for i in range(self.n_axes))

    def performance(self, policies, contexts):
        assert isinstance(policies, LinearGain)
        gains = policies.gain[..., 0, :]
        away = np.sqrt(((gains[:, :, None] - contexts) ** 2).sum(-1))
        value = -self.scale * away**self.power
        for x in self.forbidden:
            value[..., contexts[:, 0] == x] = -np.inf
        return value

    def optimum(self, contexts):
        return np.zeros(len(contexts)) if self.optimum_known else None


@dataclass(frozen=True)
class Copy(Trainer):
    """The policy of a source is the source itself, `steps` steps each; may fail.

    With `spoils`, a training whose seed is `bad_seed` gives a policy far away.
    """

    n_policies: int = 1
    noise: float = 0.0
    steps: int = 0
    fails_at: tuple[float, ...] = ()
    bad_seed: int = -1
    tells_steps: bool = False
    id: ClassVar[str] = "copy"

    @property
    def steps_per_source(self):
        return self.steps * self.n_policies if self.tells_steps else None

    def train(
        self,
        system: System,
        contexts: NDArray[np.float64],
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained:
        gains = np.repeat(contexts[:, None, None], self.n_policies, axis=1)
        for i, context in enumerate(contexts):
            if context[0] in self.fails_at:
                raise RuntimeError("the simulator crashed")
            rng = np.random.default_rng(context_seed(seed, context))
            gains[i] += self.noise * rng.standard_normal(gains[i].shape)
            if seed == self.bad_seed:
                gains[i] += 1e6
        shape = gains.shape[:2]
        return Trained(LinearGain(gains), np.full(shape, self.steps, np.int64))


@dataclass(frozen=True)
class Middle(RegionTrainer[LinearGain]):
    """The policy of a region is its weighted mean, if the training has luck.

    The steps are those of the budget, up to `steps` per context of the region; a
    training that is cut short gives a policy far away, and says that it still rose.
    Regions whose mean is below `fails_below` cannot be trained.
    """

    n_policies: int = 1
    total_steps: int = 1000
    steps: int = 10
    chance: float = 1.0
    fails_below: float = -np.inf
    id: ClassVar[str] = "middle"

    @property
    def steps_per_source(self):
        return self.total_steps * self.n_policies

    def train_region(self, system, region, *, seed, start=None):
        needed = self.steps * len(region.contexts)
        spent = min(needed, self.total_steps)
        gain = (region.weights @ region.contexts)[None, None, None]
        if gain.min() < self.fails_below:
            raise RuntimeError("the simulator crashed")
        rng = np.random.default_rng(region.seed(seed))
        is_cut = start is None and spent < needed
        if is_cut or rng.random() >= self.chance:
            gain = gain + 1e6
        since = np.array([[0 if is_cut else 1]])
        return Trained(LinearGain(gain), np.array([[spent]]), {"since_best": since})
