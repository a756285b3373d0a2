"""What `certify` may be told, grouped by what it is about."""

from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from taskspace._util.betting import check_confidence
from taskspace.certificates.boxes.enclosures import Enclosure
from taskspace.certificates.sampled.share import Distribution
from taskspace.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class LossBounds:
    """What is known of the losses between the targets.

    Args:
        radius: r of the loss rates; by default a tenth of the diameter, and at least
            one and a half steps of the grid.
        rates: Λ, if you know one: Lipschitz constants of every policy's loss in the
            target, one number or one per axis of the targets (of the system, where
            one is given). One that two targets of a cell contradict is refused.
        enclosure: bounds on the losses over boxes, if you have your own; otherwise
            that of the system, if there is one.
    """

    radius: float | None = None
    rates: ArrayLike | None = None
    enclosure: Enclosure | None = None


@dataclass(frozen=True, eq=False)
class Sampling:
    """How much is sampled, and from what.

    Args:
        confidence: of statements from fresh episodes and from drawn contexts.
        max_episodes: fresh episodes for each source that is tried at a target, where
            the system is played in episodes.
        pilot: sources and episodes of a pilot, e.g. `(16, 256)`: so many sources are
            played again in so many other episodes, and the cover that fresh episodes
            judge is chosen on these. For tables that are noisier than ε.
        distribution: draw contexts from it and bound the share that is served:
            `"uniform"`, `"loguniform"`, a CSV file, or a `Distribution`.
        n_samples: how many contexts to draw.
        target_share: draw until the bound on the share is above this; 0.99 by default.
    """

    confidence: float = 0.999
    max_episodes: int = 4096
    pilot: tuple[int, int] | None = None
    distribution: str | Path | Distribution | None = None
    n_samples: int | None = None
    target_share: float | None = None

    def __post_init__(self):
        check_confidence(self.confidence)
        for name in ("n_samples", "target_share"):
            if self.distribution is None and getattr(self, name) is not None:
                raise InvalidInputError(
                    f"{name} says how many contexts to draw, but no distribution is "
                    "given. Say what to draw them from: distribution='uniform'."
                )
