r"""Tabular contextual MDPs: finite states and actions, exact performance.

A context selects one of finitely many MDPs (their number, or their value on a line):
kernels $p^\theta$, rewards $r^\theta$ and start distributions $\mu^\theta$ are arrays
with a leading dim `context`. Performance is exact:
$J(\theta, \pi) = \sum_s \mu^\theta(s) V_\pi^\theta(s)$, with $V$ from the linear
Bellman equation (discounted) or by backward induction (finite horizon).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Policy, TabularPolicy
from taskspace.systems.base import ContextAxis, Provenance, System

# Probabilities may miss 1 by this much, which is what decimals in files need.
SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class TabularFamily(System):
    r"""Finite MDPs, one per context.

    Contexts are points on one axis, `theta`. Only the values given exist: a space
    with any other is refused.

    Args:
        values: value of `theta` of each MDP, all different.
        transitions: $p^\theta(s' | s, a)$, shape `(context, state, action, state)`,
            or without `context` where it does not vary.
        rewards: $r^\theta(s, a)$, shape `(context, state, action)`, or without
            `context`.
        start: $\mu^\theta$, shape `(context, state)`, or `(state,)`.
        discount: γ in [0, 1); exactly one of `discount` and `horizon` is given.
        horizon: number of steps; the return is the plain sum of rewards.
        name: what to call it in reports.

    Examples:
        >>> family = TabularFamily(
        ...     values=[0.0, 1.0],
        ...     transitions=[[[1.0], [1.0]]],
        ...     rewards=[[[1.0, 2.0]], [[3.0, 0.0]]],
        ...     start=[1.0],
        ...     discount=0.5,
        ... )
        >>> policies = deterministic_policies([[0], [1]], n_actions=2)
        >>> family.performance(policies, np.array([[0.0], [1.0]]))[:, 0].tolist()
        [[2.0, 6.0], [4.0, 0.0]]
    """

    values: ArrayLike
    transitions: ArrayLike
    rewards: ArrayLike
    start: ArrayLike
    discount: float | None = None
    horizon: int | None = None
    name: str = "tabular family"
    id: ClassVar[str] = "tabular-family"
    provenance: ClassVar[Provenance] = "exact"

    def __post_init__(self):
        values = np.array(self.values, np.float64).reshape(-1)
        n = len(values)
        if not n or len(np.unique(values)) < n:
            raise InvalidInputError(
                "values must be different numbers, one per context, but got "
                f"{np.asarray(self.values).tolist()}."
            )
        rewards = _per_context("rewards", self.rewards, 2, n)
        n_states, n_actions = rewards.shape[1:]
        transitions = _per_context("transitions", self.transitions, 3, n)
        start = _per_context("start", self.start, 1, n)
        for symbol, array, shape in (
            ("transitions", transitions, (n, n_states, n_actions, n_states)),
            ("start", start, (n, n_states)),
        ):
            if array.shape != shape:
                raise InvalidInputError(
                    f"{symbol} must have shape {shape} (or without the first dim) to "
                    f"fit rewards of {n_states} states and {n_actions} actions, but "
                    f"has {array.shape}."
                )
            if (array < 0).any() or (abs(array.sum(-1) - 1) > SUM_TOLERANCE).any():
                raise InvalidInputError(
                    f"{symbol} must hold probabilities that sum to 1, but the sums "
                    f"range from {array.sum(-1).min()} to {array.sum(-1).max()}."
                )
        discount, horizon = self.discount, self.horizon
        if (discount is None) == (horizon is None):
            raise InvalidInputError(
                "Exactly one of discount and horizon must be given, but got "
                f"discount={discount}, horizon={horizon}."
            )
        if discount is not None and not 0 <= discount < 1:
            raise InvalidInputError(f"0 <= discount < 1 must hold, but got {discount}.")
        if horizon is not None and (horizon < 1 or int(horizon) != horizon):
            raise InvalidInputError(
                f"horizon must be a whole number >= 1, but got {horizon}."
            )
        arrays = {"transitions": transitions, "rewards": rewards, "start": start}
        for name, array in (("values", values), *arrays.items()):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """One axis, `theta`, that takes the given values."""
        values = np.asarray(self.values)
        first, low, high = (float(x) for x in (values[0], values.min(), values.max()))
        return (
            ContextAxis("theta", first, low=low, high=high, description="which MDP"),
        )

    @property
    def n_states(self) -> int:
        """Number of states."""
        return np.shape(self.rewards)[1]

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return np.shape(self.rewards)[2]

    def numbers(self, contexts: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the number of the MDP of each context row."""
        same = np.asarray(self.values) == contexts[:, :1]
        for theta in contexts[~same.any(1), 0][:1]:
            raise InvalidInputError(
                f"theta must be one of the {same.shape[1]} values of the family, but "
                f"got theta={theta:g}."
            )
        return same.argmax(1)

    def performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """J of every policy in every MDP, dims `(source, policy, target)`."""
        values = self.state_values(policies, contexts)
        start = np.asarray(self.start)[self.numbers(contexts)]
        return np.einsum("sptx,tx->spt", values, start)

    def state_values(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """V of every policy in every MDP, dims `(source, policy, target, state)`."""
        chosen = self.numbers(contexts)
        action = self._probabilities(policies)
        rewards = np.asarray(self.rewards)[chosen]
        transitions = np.asarray(self.transitions)[chosen]
        reward = np.einsum("spxa,txa->sptx", action, rewards)
        step = np.einsum("spxa,txay->sptxy", action, transitions)
        if self.discount is not None:
            system = np.eye(self.n_states) - self.discount * step
            return np.linalg.solve(system, reward[..., None])[..., 0]
        assert self.horizon is not None
        values = np.zeros_like(reward)
        for _ in range(int(self.horizon)):
            values = reward + np.einsum("sptxy,spty->sptx", step, values)
        return values

    def optimum(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Largest J of any policy; for a finite horizon also of any that counts steps.

        By policy iteration (discounted) or backward induction.
        """
        chosen = self.numbers(contexts)
        rewards = np.asarray(self.rewards)[chosen]
        transitions = np.asarray(self.transitions)[chosen]
        start = np.asarray(self.start)[chosen]
        if self.horizon is not None:
            best = np.zeros(rewards.shape[:2])
            for _ in range(int(self.horizon)):
                best = (rewards + np.einsum("txay,ty->txa", transitions, best)).max(-1)
            return np.einsum("tx,tx->t", best, start)
        values = [
            _policy_iteration(r, p, float(self.discount or 0.0))
            for r, p in zip(rewards, transitions, strict=True)
        ]
        return np.einsum("tx,tx->t", np.stack(values), start)

    def settings(self) -> dict[str, Any]:
        """Everything, as nested lists."""
        given = super().settings()
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in given.items()
        }

    def _probabilities(self, policies: Policy) -> NDArray[np.float64]:
        wanted = f"{self.n_states} states and {self.n_actions} actions"
        if not isinstance(policies, TabularPolicy):
            raise InvalidInputError(
                f"A tabular family takes TabularPolicy stacks with {wanted}, but got "
                f"{type(policies).__name__}."
            )
        shape = policies.probabilities.shape
        if len(shape) != 4 or shape[2:] != (self.n_states, self.n_actions):
            raise InvalidInputError(
                "A stack must have dims (source, policy, state, action) with "
                f"{wanted}, but has shape {shape}."
            )
        return policies.probabilities


def deterministic_policies(actions: ArrayLike, n_actions: int) -> TabularPolicy:
    """Return a stack of deterministic policies, one per source.

    Args:
        actions: action of each state, shape `(source, state)`, or
            `(source, policy, state)`.
        n_actions: number of actions.
    """
    chosen = np.asarray(actions, np.int64)
    if chosen.ndim == 2:
        chosen = chosen[:, None]
    if chosen.ndim != 3 or (chosen < 0).any() or (chosen >= n_actions).any():
        raise InvalidInputError(
            "actions must be whole numbers from 0 to "
            f"{n_actions - 1} with dims (source, state) or (source, policy, state), "
            f"but got {np.asarray(actions).tolist()}."
        )
    return TabularPolicy(np.eye(n_actions)[chosen])


def _per_context(
    symbol: str, given: ArrayLike, ndim: int, n: int
) -> NDArray[np.float64]:
    try:
        array = np.array(given, np.float64)
    except ValueError as error:
        raise InvalidInputError(f"{symbol} must be a full array: {error}.") from error
    if array.ndim == ndim:
        array = np.broadcast_to(array, (n, *array.shape)).copy()
    if array.ndim != ndim + 1 or len(array) != n or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{symbol} must be finite, with {ndim} dims, or {ndim + 1} of which the "
            f"first has length {n}, but has shape {array.shape}."
        )
    return array


def _policy_iteration(
    reward: NDArray[np.float64], transition: NDArray[np.float64], discount: float
) -> NDArray[np.float64]:
    """Optimal values of one discounted MDP; ends because no policy comes twice."""
    n_states = len(reward)
    states = np.arange(n_states)
    actions = np.zeros(n_states, np.intp)
    while True:
        step = np.eye(n_states) - discount * transition[states, actions]
        values = np.linalg.solve(step, reward[states, actions])
        scores = reward + discount * transition @ values
        better = scores.max(1) > scores[states, actions] + 1e-12 * (1 + abs(values))
        if not better.any():
            return np.asarray(values, np.float64)
        actions = np.where(better, scores.argmax(1), actions)
