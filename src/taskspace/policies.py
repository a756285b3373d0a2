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

__all__ = [
    "POLICY_KINDS",
    "LinearController",
    "LinearGain",
    "Mlp",
    "Policy",
    "TabularPolicy",
    "check_storable",
    "register_policy",
]


class Policy(ABC):
    """One policy, or a stack of policies with leading dims `(source, policy)`."""

    kind: ClassVar[str]

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array of the policy, by name; all share the leading dims."""

    def settings(self) -> dict[str, Any]:
        """Return what is not an array: plain values for a manifest."""
        return {}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]
    ) -> Self:
        """Return the policy that `arrays()` and `settings()` described."""
        return cls(**arrays, **settings)

    @abstractmethod
    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return the action of a single policy (no leading dims) at one observation."""

    def __reduce__(self) -> Any:
        """Send arrays and settings to other processes, and nothing else."""
        return type(self).from_arrays, (self.arrays(), self.settings())

    @property
    def stack_shape(self) -> tuple[int, ...]:
        """Leading dims of a stack: sources, and policies per source."""
        return next(iter(self.arrays().values())).shape[:2]

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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the gains."""
        return {"gain": self.gain}

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """`−K x`."""
        return -self.gain @ observation


@dataclass(frozen=True, eq=False)
class LinearController(Policy):
    r"""Output feedback with states of its own, on measured outputs y and set points r.

    $\dot x_c = A x_c + B y + B_r r$, $u = -(C x_c + D y + D_r r)$, and the next $x_c$
    instead of $\dot x_c$ in discrete time. Without states it is static output
    feedback. `taskspace.systems` has makers: `Pi` and `Pid`.

    Args:
        A: shape `(..., n_states, n_states)`.
        B: shape `(..., n_states, n_outputs)`.
        C: shape `(..., n_inputs, n_states)`.
        D: shape `(..., n_inputs, n_outputs)`.
        B_r: shape `(..., n_states, n_set_points)`; −B if left out: the error counts.
        D_r: shape `(..., n_inputs, n_set_points)`; −D if left out.
        parameters: the numbers it was made from, shape `(..., len(names))`.
        names: names of the parameters, e.g. `("kp", "ki")`.
        time: `"continuous"` or `"discrete"`.
    """

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    C: NDArray[np.float64]
    D: NDArray[np.float64]
    B_r: NDArray[np.float64] | None = None
    D_r: NDArray[np.float64] | None = None
    parameters: NDArray[np.float64] | None = None
    names: tuple[str, ...] = ()
    time: Literal["continuous", "discrete"] = "continuous"
    kind: ClassVar[str] = "linear-controller"

    def __post_init__(self):
        if self.time not in ("continuous", "discrete"):
            raise UnknownNameError("time", self.time, ["continuous", "discrete"])
        object.__setattr__(self, "names", tuple(self.names))
        given = {name: getattr(self, name) for name in ("A", "B", "C", "D")}
        given["B_r"] = -np.asarray(self.B) if self.B_r is None else self.B_r
        given["D_r"] = -np.asarray(self.D) if self.D_r is None else self.D_r
        arrays = {name: np.asarray(x, np.float64) for name, x in given.items()}
        none = np.zeros((*arrays["D"].shape[:-2], 0))
        arrays["parameters"] = np.asarray(
            none if self.parameters is None else self.parameters, np.float64
        )
        n, m = arrays["A"].shape[-1], arrays["D"].shape[-2]
        p, r = arrays["D"].shape[-1], arrays["D_r"].shape[-1]
        ends = {"A": (n, n), "B": (n, p), "C": (m, n), "D": (m, p)}
        ends |= {"B_r": (n, r), "D_r": (m, r), "parameters": (len(self.names),)}
        front = arrays["D"].shape[:-2]
        for name, end in ends.items():
            if arrays[name].shape != (*front, *end):
                raise InvalidInputError(
                    f"{name} of a LinearController must have shape {(*front, *end)} to "
                    f"fit A and D, but has {arrays[name].shape}."
                )
            if not np.isfinite(arrays[name]).all():
                raise InvalidInputError(f"{name} of a LinearController must be finite.")
            object.__setattr__(self, name, arrays[name])

    @property
    def n_states(self) -> int:
        """Number of states of the controller."""
        return self.A.shape[-1]

    @property
    def feedback(self) -> NDArray[np.float64]:
        """K of the same loop written as static feedback, `[[D, C], [−B, −A]]`.

        It acts on (y, x_c) and drives (u, −ẋ_c).
        """
        return np.concatenate(
            [
                np.concatenate([self.D, self.C], -1),
                -np.concatenate([self.B, self.A], -1),
            ],
            -2,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the matrices, and the numbers that they were made from."""
        names = ("A", "B", "C", "D", "B_r", "D_r", "parameters")
        return {name: getattr(self, name) for name in names}

    def settings(self) -> dict[str, Any]:
        """Names of the parameters, and the kind of time."""
        return {"names": list(self.names), "time": self.time}

    def step(
        self,
        state: NDArray[np.float64],
        y: NDArray[np.float64],
        r: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return u, and the next state (the state's derivative in continuous time).

        Args:
            state: x_c of a single controller.
            y: what is measured.
            r: the set points; zero if left out.
        """
        assert self.B_r is not None
        assert self.D_r is not None
        wanted = np.zeros(self.D_r.shape[-1]) if r is None else np.asarray(r)
        u = -(self.C @ state + self.D @ y + self.D_r @ wanted)
        return u, self.A @ state + self.B @ y + self.B_r @ wanted

    def sampled(self, dt: float) -> "LinearController":
        """Return the controller in discrete time by Tustin's rule.

        Args:
            dt: the time step, > 0.
        """
        if self.time == "discrete" or not 0 < dt < np.inf:
            raise InvalidInputError(
                "sampled(dt) turns a controller in continuous time into one with steps "
                f"of dt > 0, but time is {self.time!r} and dt is {dt!r}."
            )
        half, eye = 0.5 * dt * self.A, np.eye(self.n_states)
        inverse = np.linalg.inv(eye - half)
        assert self.B_r is not None
        assert self.D_r is not None
        return LinearController(
            inverse @ (eye + half),
            dt * inverse @ self.B,
            self.C @ inverse,
            self.D + 0.5 * dt * self.C @ inverse @ self.B,
            dt * inverse @ self.B_r,
            self.D_r + 0.5 * dt * self.C @ inverse @ self.B_r,
            self.parameters,
            self.names,
            "discrete",
        )

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """`−D y` of a controller without states; one with states has `step`."""
        if self.n_states:
            raise InvalidInputError(
                f"This controller has {self.n_states} states: what it does depends on "
                "them. Use step(state, y)."
            )
        return -self.D @ observation


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
        """Return the network that `arrays()` and `settings()` described."""
        n_layers = len(arrays) // 2
        return cls(
            weights=tuple(arrays[f"weight_{i}"] for i in range(n_layers)),
            biases=tuple(arrays[f"bias_{i}"] for i in range(n_layers)),
            **settings,
        )

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return the action at one observation; an integer for the `"argmax"` head."""
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
        """Return the probabilities."""
        return {"probabilities": self.probabilities}

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return the most probable action in the state with this number."""
        return np.argmax(self.probabilities[..., int(observation), :], axis=-1)


POLICY_KINDS: dict[str, type[Policy]] = {
    cls.kind: cls for cls in (LinearGain, LinearController, Mlp, TabularPolicy)
}


class _Stored(Policy):
    """Policies of a kind that is not registered here: arrays without an action."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]):
        self._arrays, self._settings = dict(arrays), dict(settings)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self._arrays

    def settings(self) -> dict[str, Any]:
        return self._settings

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]
    ) -> Self:
        return cls(arrays, settings)

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        raise InvalidInputError(
            f"Policies of kind {self.kind!r} can act once their class is registered "
            "here. Import the module that calls register_policy; a run imports it "
            "with --trust."
        )


def policy_class(kind: str) -> type[Policy]:
    """Return the class of a kind of policies; one that cannot act if none is known.

    Args:
        kind: what a file says.
    """
    return POLICY_KINDS.get(kind) or type("_Stored", (_Stored,), {"kind": kind})


def check_storable(cls: type[Policy]) -> None:
    """Refuse policies that no file can hold.

    Args:
        cls: the class of a stack of policies.
    """
    if getattr(cls, "kind", "") not in POLICY_KINDS:
        raise InvalidInputError(
            f"Policies of the class {cls.__name__} cannot be stored in a run. Let the "
            "trainer return arrays (Mlp, LinearGain), or a class of your own that you "
            "register: taskspace.policies.register_policy(KIND, CLASS). Python objects "
            "are for ts.evaluate and ts.select, in memory."
        )


def register_policy(kind: str, cls: type[Policy]) -> type[Policy]:
    """Make policies of your own storable in runs and libraries.

    Call it at the top of the module that defines the class, so that every process that
    imports the module knows the kind. `arrays()` gives all numbers, each with the
    leading dims `(source, policy)`, and `settings()` plain values;
    `cls.from_arrays(arrays, settings)` must give the same policies back.

    Args:
        kind: the name in files; no other class may have it.
        cls: a subclass of `Policy`.

    Returns:
        The class.
    """
    if not (isinstance(cls, type) and issubclass(cls, Policy)):
        raise InvalidInputError(f"Register a subclass of Policy, but got {cls!r}.")
    known = POLICY_KINDS.get(kind)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise InvalidInputError(
            f"The kind {kind!r} is that of {known.__qualname__}. Choose another name."
        )
    cls.kind = kind
    POLICY_KINDS[kind] = cls
    return cls
