"""Policies: arrays with an `act`, stacked by source and member of the family.

A stack holds the policies of many sources at once: every array has the leading
dims `(source, policy)`, and `stack[i, j]` is one policy. Stacks are saved as plain
arrays with a `kind`, never pickled.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError

__all__ = ["POLICY_KINDS", "LinearGain", "Mlp", "Policy", "TabularPolicy"]


class Policy(ABC):
    """One policy, or a stack of policies with leading dims `(source, policy)`."""

    kind: ClassVar[str]
    is_smooth: ClassVar[bool] = False
    """Whether policies of near contexts may be blended, array by array."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array of the policy, by name; all share the leading dims."""

    def settings(self) -> dict[str, Any]:
        """What is not an array: plain values for a manifest."""
        return {}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]
    ) -> Self:
        """The policy that `arrays()` and `settings()` described."""
        return cls(**arrays, **settings)

    @abstractmethod
    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Action of a single policy (no leading dims) at one observation."""

    def __getitem__(self, index: Any) -> Self:
        """Select along the leading dims."""
        return self.from_arrays(
            {name: array[index] for name, array in self.arrays().items()},
            self.settings(),
        )

    @classmethod
    def concatenate(cls, stacks: Sequence[Self]) -> Self:
        """Join stacks along `source`."""
        arrays = [stack.arrays() for stack in stacks]
        return cls.from_arrays(
            {name: np.concatenate([a[name] for a in arrays]) for name in arrays[0]},
            stacks[0].settings(),
        )


@dataclass(frozen=True, eq=False)
class LinearGain(Policy):
    """State feedback `u = −K x`.

    Args:
        gain: K, shape `(..., n_inputs, n_states)`.
    """

    gain: NDArray[np.float64]
    kind: ClassVar[str] = "linear-gain"
    is_smooth: ClassVar[bool] = True

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The gains."""
        return {"gain": self.gain}

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """`−K x`."""
        return -self.gain @ observation


@dataclass(frozen=True, eq=False)
class Mlp(Policy):
    """A network with one kind of hidden layers.

    Args:
        weights: one array a layer, shape `(..., n_in, n_out)`.
        biases: one array a layer, shape `(..., n_out)`.
        head: `"argmax"` picks the discrete action with the largest output;
            `"clip"` clips the outputs to `[action_low, action_high]`;
            `"squash"` maps them into it by a tanh, zero to its middle.
        activation: of the hidden layers, `"tanh"` or `"relu"`.
        action_low: smallest action of a continuous head.
        action_high: largest action of a continuous head.
    """

    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]
    head: Literal["argmax", "clip", "squash"] = "argmax"
    activation: Literal["tanh", "relu"] = "tanh"
    action_low: float = -np.inf
    action_high: float = np.inf
    kind: ClassVar[str] = "mlp"

    def __post_init__(self):
        heads = ["argmax", "clip", "squash"]
        if self.head not in heads:
            raise UnknownNameError("head of an Mlp", self.head, heads)
        if self.activation not in ("tanh", "relu"):
            raise UnknownNameError("activation", self.activation, ["tanh", "relu"])
        if len(self.weights) != len(self.biases):
            raise InvalidInputError(
                "An Mlp needs one bias a weight matrix, but got "
                f"{len(self.weights)} weights and {len(self.biases)} biases."
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """`weight_0, bias_0, weight_1, …`, input layer first."""
        layers = enumerate(zip(self.weights, self.biases, strict=True))
        return {
            name: array
            for i, (weight, bias) in layers
            for name, array in ((f"weight_{i}", weight), (f"bias_{i}", bias))
        }

    def settings(self) -> dict[str, Any]:
        """Head, activation and action bounds."""
        return {
            "head": self.head,
            "activation": self.activation,
            "action_low": self.action_low,
            "action_high": self.action_high,
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]
    ) -> Self:
        """The network that `arrays()` and `settings()` described."""
        n_layers = len(arrays) // 2
        return cls(
            weights=tuple(arrays[f"weight_{i}"] for i in range(n_layers)),
            biases=tuple(arrays[f"bias_{i}"] for i in range(n_layers)),
            **settings,
        )

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Action at one observation; an integer for the `"argmax"` head."""
        x = np.asarray(observation, self.weights[0].dtype)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ weight + bias
            x = np.tanh(x) if self.activation == "tanh" else np.maximum(x, 0)
        x = x @ self.weights[-1] + self.biases[-1]
        if self.head == "argmax":
            return np.argmax(x, axis=-1)
        if self.head == "squash":
            width = self.action_high - self.action_low
            return self.action_low + (np.tanh(x) + 1) / 2 * width
        return np.clip(x, self.action_low, self.action_high)


@dataclass(frozen=True, eq=False)
class TabularPolicy(Policy):
    """Probabilities of actions in a finite state space.

    Args:
        probabilities: shape `(..., n_states, n_actions)`, rows summing to 1.
    """

    probabilities: NDArray[np.float64]
    kind: ClassVar[str] = "tabular"

    def __post_init__(self):
        total = self.probabilities.sum(-1)
        if (self.probabilities < 0).any() or not np.allclose(total, 1, atol=1e-12):
            raise InvalidInputError(
                "Each row of a TabularPolicy must hold probabilities that sum to 1, "
                f"but row sums range from {total.min()} to {total.max()}."
            )

    @property
    def is_deterministic(self) -> bool:
        """Whether every state has one action."""
        return bool((self.probabilities.max(-1) == 1.0).all())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The probabilities."""
        return {"probabilities": self.probabilities}

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """The most probable action in the state with this number."""
        return np.argmax(self.probabilities[..., int(observation), :], axis=-1)


POLICY_KINDS: dict[str, type[Policy]] = {
    cls.kind: cls for cls in (LinearGain, Mlp, TabularPolicy)
}
