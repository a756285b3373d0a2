"""Systems whose performance is a mean over episodes, however they are played.

Episodes have numbers. The initial state and the noise of episode `e` come from
`episode_seed` and `e` alone, so every policy meets the same episodes at every target
(common random numbers), and differences between pairs are not luck. Which numbers
are for what is agreed here:

| numbers | used for |
|---|---|
| `0 … n_episodes − 1` | J: what a table holds and covers are selected on |
| from `FIRST_FRESH` | judging a selection: `random_episodes`, `fresh_episodes` |
| from `FIRST_TRAINING` | evaluations inside a training, where the trainer asks |

So a larger `n_episodes` never reaches an episode that judges. A certificate draws its
episodes at random from the billion that are kept for judging, by a seed that says what
is judged: another selection, another draw.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Mlp, Policy
from taskspace.systems.base import Provenance, System

if TYPE_CHECKING:
    import gymnasium

FIRST_FRESH = 2**20
"""Number of the first episode that no selection has seen."""

FIRST_TRAINING = 2**30
"""Number of the first episode of evaluations inside a training."""

Head = Literal["argmax", "clip"]
"""How outputs of a network become actions: the largest one, or clipped to bounds."""


class EpisodicSystem(System):
    """A system that is played in episodes.

    Implementations are frozen dataclasses with at least the fields `horizon`,
    `n_episodes` and `episode_seed`, and say in `returns` how episodes are played.
    """

    provenance: ClassVar[Provenance] = "sampled"
    measures: ClassVar[tuple[str, ...]] = ("performance", "standard_error", "returns")
    fills_processors: ClassVar[bool] = False

    horizon: int
    """Steps after which an episode is cut (truncated, not terminated)."""
    n_episodes: int
    """Episodes that make up the performance of one policy at one context."""
    episode_seed: int
    """Seed of the initial states and the noise of all episodes."""

    def __post_init__(self):
        for name in ("horizon", "n_episodes"):
            value = getattr(self, name)
            if isinstance(value, bool) or int(value) != value or value < 1:
                raise InvalidInputError(
                    f"{name} >= 1 must hold in {self.id}, but got {name}={value!r}."
                )
        if self.n_episodes > FIRST_FRESH:
            raise InvalidInputError(
                f"n_episodes <= {FIRST_FRESH} must hold in {self.id}, but got "
                f"n_episodes={self.n_episodes}: later ones are kept for judging."
            )

    @property
    def stop_return(self) -> float | None:
        """Mean return from which training need not go on; `None` for no such end."""
        return None

    def return_bounds(
        self, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Smallest and largest return that an episode can have, where that is known.

        Args:
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            Shape `(target, 2)`; `None` where no bound is known.
        """
        del contexts
        return None

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """Return a Gymnasium environment with the physics of one context.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: passed on to `gymnasium.make`.
        """
        del context, kwargs
        raise InvalidInputError(
            f"{self.id} has no Gymnasium environment; give it a method `environment`."
        )

    def network_sizes(self) -> tuple[int, int, Head] | None:
        """Return inputs, outputs and head of a network that plays it, None if unknown.

        The head is `"argmax"` for discrete actions, `"clip"` for continuous ones.
        """
        return None

    @abstractmethod
    def returns(
        self,
        policies: Policy,
        contexts: NDArray[np.float64],
        *,
        episodes: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """Return of every policy at every context in every episode.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.
            episodes: numbers of the episodes to play; those of J,
                `range(n_episodes)`, if left out. See `fresh_episodes` for others.

        Returns:
            Sums of rewards, dims `(source, policy, target, episode)`; −inf where one
            is not a number.
        """

    def performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Mean return over the episodes, dims `(source, policy, target)`.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.
        """
        return self.returns(policies, contexts).mean(-1, dtype=np.float64)

    def measure(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> dict[str, NDArray[Any]]:
        """Mean return, its standard error, and the return of every episode.

        Args:
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.
        """
        returns = self.returns(policies, contexts)
        return {
            "performance": returns.mean(-1, dtype=np.float64),
            "standard_error": standard_error(returns),
            "returns": returns,
        }

    def episode_numbers(self, episodes: Sequence[int] | None) -> NDArray[np.int64]:
        """Numbers of the episodes to play, checked.

        Args:
            episodes: as in `returns`.
        """
        numbers = np.asarray(range(self.n_episodes) if episodes is None else episodes)
        is_whole = numbers.ndim == 1 and numbers.size and numbers.dtype.kind in "iu"
        if not is_whole or numbers.min() < 0 or numbers.max() >= 2**31:
            raise InvalidInputError(
                "Episodes are numbered 0, 1, … up to 2³¹ − 1 and at least one must be "
                f"played, but got episodes={episodes!r}."
            )
        return numbers.astype(np.int64)


def zero_performance(
    system: System, contexts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Return what a policy scores whose outputs are zero (the first discrete action).

    At most nine contexts, spread evenly, and four episodes: enough to see whether
    trained policies are better than that.

    Args:
        system: the tasks.
        contexts: full context rows, shape `(target, len(axes))`.

    Returns:
        Which of the contexts were tried, ascending, and J at each of them; `None` where
        no networks are played.

    Examples:
        >>> from taskspace.systems.cartpole import CartPole
        >>> row = np.array([[axis.default for axis in CartPole().axes]])
        >>> zero_performance(CartPole(), row)[1].tolist()  # always push left
        [9.5]
    """
    if not isinstance(system, EpisodicSystem):
        return None
    if (sizes := system.network_sizes()) is None:
        return None
    n_in, n_out, head = sizes
    weight = np.zeros((1, 1, n_in, n_out), np.float32)
    zero = Mlp((weight,), (weight[:, :, 0],), head=head)
    n_tried = min(len(contexts), 9)
    rows = np.unique(np.linspace(0, len(contexts) - 1, n_tried).round().astype(int))
    episodes = range(min(system.n_episodes, 4))
    returns = system.returns(zero, contexts[rows], episodes=episodes)
    return rows, returns[0, 0].mean(-1, dtype=float)


def fresh_episodes(n: int, first: int = 0) -> range:
    """Numbers of episodes that no J and no selection has seen.

    Args:
        n: how many.
        first: how many fresh ones to leave out, e.g. because they are used up.

    Examples:
        >>> fresh_episodes(3)
        range(1048576, 1048579)
    """
    start = FIRST_FRESH + first
    if n < 1 or first < 0 or start + n > FIRST_TRAINING:
        raise InvalidInputError(
            f"n >= 1 and first >= 0 must hold, with first + n <= "
            f"{FIRST_TRAINING - FIRST_FRESH}, but got n={n} and first={first}."
        )
    return range(start, start + n)


def random_episodes(seed: int, n: int, first: int = 0) -> list[int]:
    """Numbers of episodes drawn at random from those that are kept for judging.

    Each draw is independent of the others and of whatever was chosen before the seed
    was known, so the mean return over the draws estimates the mean over all of them,
    also if somebody has seen a few.

    Args:
        seed: names an endless sequence of draws.
        n: how many numbers of the sequence.
        first: how many to leave out before them.

    Examples:
        >>> random_episodes(7, 3)[1:] == random_episodes(7, 2, first=1)
        True
    """
    n_kept = FIRST_TRAINING - FIRST_FRESH

    def draw(place: int) -> int:
        text = f"{seed} {place}".encode()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        return FIRST_FRESH + int.from_bytes(digest, "big") % n_kept

    return [draw(place) for place in range(first, first + n)]


def standard_error(returns: NDArray[Any]) -> NDArray[np.float64]:
    """Return the standard error of the mean return, NaN where it cannot be known.

    Args:
        returns: dims `(..., episode)`; one episode, or one that failed (−inf), has
            no spread to tell.
    """
    n = returns.shape[-1]
    if n < 2:
        return np.full(returns.shape[:-1], np.nan)
    with np.errstate(invalid="ignore"):
        return returns.std(-1, ddof=1, dtype=np.float64) / np.sqrt(n)
