r"""Linear families: $\dot x = A(\theta) x + B(\theta) u$ with a quadratic cost."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain, Policy
from taskspace.systems.base import Objective, Provenance, System, matrix_words
from taskspace.systems.linear.controllers import augmented, in_rates, unheard_at_rest
from taskspace.systems.linear.kernels.lyapunov import LinearMatrices, closed_loop_cost
from taskspace.systems.linear.kernels.riccati import riccati_gain, stabilisable
from taskspace.systems.linear.measures import MEASURES


class LinearSystem(System):
    r"""Interface of linear families with a quadratic cost.

    $J(\theta, K) = -E \int_0^\infty x^\top Q x + u^\top R u \, dt$ for $u = -Kx$ and
    $E[x_0 x_0^\top] = X_0$; sums over steps in discrete time. It is
    $-\mathrm{tr}(P X_0)$, $P$ from the Lyapunov equation of the closed loop, and −inf
    where the loop is unstable.
    """

    provenance: ClassVar[Provenance] = "exact"
    is_in_rates: ClassVar[bool] = False
    """Whether states, inputs and outputs are rates, see `rate_form`."""
    horizon: ClassVar[float] = np.inf
    """Costs are over all times."""
    channel: "tuple[Array, Array] | None" = None
    """B_w and C_z of the measure `channel_norm`, where they are stated."""

    @property
    @abstractmethod
    def is_continuous(self) -> bool:
        """Whether time is continuous, or counted in steps."""

    @property
    @abstractmethod
    def initial_covariance(self) -> Array:
        """X₀, the second moment of the initial state."""

    @abstractmethod
    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states, in their order, a unit in brackets."""
        return tuple(f"x{i + 1}" for i in range(self._sizes[0]))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, likewise."""
        return tuple(f"u{i + 1}" for i in range(self._sizes[1]))

    @property
    def defaults(self) -> Array:
        """The context of the axes' defaults, as one row."""
        return np.array([[axis.default for axis in self.axes]])

    def output_matrix(self, contexts: Array) -> Array:
        """C at each context row, y = C x is what a controller sees; I unless stated."""
        n = self._sizes[0]
        return np.broadcast_to(np.eye(n), (len(contexts), n, n))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is measured; those of the states where all of them are."""
        C = self.output_matrix(self.defaults)[0]
        if np.array_equal(C, np.eye(len(C))):
            return self.states
        return tuple(f"y{i + 1}" for i in range(len(C)))

    @property
    def varying_weights(self) -> tuple[str, ...]:
        """Which of `"Q"` and `"R"` depend on the context."""
        return ()

    @property
    def objective(self) -> Objective:
        """The quadratic cost: Q, R, names, and Σ over which it is a mean."""
        _, _, Q, R = (matrix[0] for matrix in self.matrices(self.defaults))
        sigma = self.initial_covariance
        states, inputs, varying = self.states, self.inputs, self.varying_weights

        def weight(symbol: str, matrix: Array) -> str:
            if symbol in varying:
                return f"{symbol} of the context"
            return f"{symbol} = {matrix_words(matrix)}"

        how = "integral over time" if self.is_continuous else "sum over steps"
        return Objective(
            f"J = −E[{how} without end of xᵀQx + uᵀRu], {weight('Q', Q)}, "
            f"{weight('R', R)}, x = ({', '.join(states)}), u = ({', '.join(inputs)}); "
            f"the mean is over initial states with E[x0 x0ᵀ] = {matrix_words(sigma)}.",
            states,
            inputs,
            initial_covariance=_rows(sigma),
            Q=_rows(Q),
            R=_rows(R),
            varying=varying,
            time="continuous" if self.is_continuous else "discrete",
            horizon=np.inf,
        )

    def performance(self, policies: Policy, contexts: Array) -> Array:
        """J of every gain or controller at every context.

        The dims are `(source, policy, target)`. The states of a controller start at
        zero and cost nothing; those that do not reach its output do not count.
        """
        stack, matrices = self.stacked(policies), self.matrices(contexts)
        start, C = self.initial_covariance, None
        if isinstance(stack, LinearController):
            gain, C = unheard_at_rest(stack).feedback, self.output_matrix(contexts)
            matrices, C, start = augmented(matrices, C, start, stack.n_states)
        else:
            gain = stack.gain
        flat = np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:]))
        cost = closed_loop_cost(flat, matrices, start, self.is_continuous, C)
        return -cost.reshape(*gain.shape[:2], len(contexts))

    def home_performance(self, policies: Policy, contexts: Array) -> Array:
        """J of every gain at its own source, dims `(source, policy)`."""
        return super().home_performance(self.stacked(policies), contexts)

    def scores(self, measure: str, policies: Policy, contexts: Array) -> Array:
        """Return `performance`, or another measure; larger is better."""
        if measure not in MEASURES:
            return super().scores(measure, policies, contexts)
        return MEASURES[measure].scores(self, policies, contexts)

    def stacked(
        self, policies: Policy | Sequence[Any] | NDArray[Any]
    ) -> LinearGain | LinearController:
        """Return gains or controllers as a stack with dims `(source, policy)`.

        Args:
            policies: a `LinearController` with any leading dims, a list of single ones,
                or anything that `gains` takes.
        """
        if isinstance(policies, list | tuple):
            stacks = [_stack_of(p) for p in policies if isinstance(p, LinearController)]
            if stacks and len(stacks) == len(policies):
                policies = LinearController.concatenate(stacks)
        if not isinstance(policies, LinearController):
            return self.gains(policies)
        stack = _stack_of(policies)
        if self.is_in_rates and stack.names[:2] == ("kp", "ki"):
            stack = in_rates(stack)
        wanted = (self._sizes[1], self.output_matrix(self.defaults).shape[1])
        if stack.D.shape[-2:] != wanted:
            raise InvalidInputError(
                f"Controllers must have {wanted[0]} inputs of the plant and "
                f"{wanted[1]} measured outputs, D of shape {wanted}, but have "
                f"{stack.D.shape[-2:]}. State what is measured as C of the family."
            )
        time = "continuous" if self.is_continuous else "discrete"
        if stack.n_states and stack.time != time:
            raise InvalidInputError(
                f"The plant is in {time} time, so controllers with states must be, but "
                f"time is {stack.time!r}. controller.sampled(dt) has steps of dt."
            )
        return stack

    def gains(self, policies: Policy | Sequence[Any] | NDArray[Any]) -> LinearGain:
        """Gains as a stack with dims `(source, policy, n_inputs, n_states)`.

        Args:
            policies: a `LinearGain` with any leading dims, an array, or a list of
                either. One leading dim is one gain per source; of more than two all
                but the last number the sources.
        """
        if isinstance(policies, Policy) and not isinstance(policies, LinearGain):
            raise InvalidInputError(
                "A linear system takes LinearGain policies here, but got "
                f"{type(policies).__name__}."
            )
        arrays: Any = policies
        if isinstance(policies, LinearGain):
            arrays = policies.gain
        elif not isinstance(policies, np.ndarray):
            arrays = [p.gain if isinstance(p, LinearGain) else p for p in policies]
        n_states, n_inputs = self._sizes
        wanted = f"(…, {n_inputs}, {n_states})"
        try:
            gain = np.asarray(arrays, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"Gains must be arrays of shape {wanted}, u = −K x, all alike, but "
                f"got {arrays!r}."
            ) from error
        if gain.ndim < 2 or gain.shape[-2:] != (n_inputs, n_states):
            raise InvalidInputError(
                f"Gains must have shape {wanted}: {n_inputs} inputs and {n_states} "
                f"states, u = −K x, but have {gain.shape}."
            )
        members = gain.shape[-3] if gain.ndim > 3 else 1
        return LinearGain(gain.reshape(-1, members, n_inputs, n_states))

    @property
    def _sizes(self) -> tuple[int, int]:
        """Number of states and of inputs."""
        n_states, n_inputs = self.matrices(self.defaults).B.shape[1:]
        return n_states, n_inputs

    def optimal_gain(self, contexts: Array) -> tuple[Array, NDArray[np.bool_]]:
        """K* from the Riccati equation, and where it exists.

        Args:
            contexts: full context rows, shape `(context, len(axes))`.

        Returns:
            Gains `(context, n_inputs, n_states)`, and a mask of where they are the
            best. Elsewhere they stabilise if such a gain was found, and are zero if
            not.
        """
        return riccati_gain(*self.matrices(contexts), continuous=self.is_continuous)

    def optimum(self, contexts: Array) -> Array:
        """J of K*, the best of all stabilising policies.

        −inf where no policy stabilises (an unstable mode out of the inputs' reach),
        NaN where the optimum is not known: the Riccati equation was not solved, or
        its best loop is on the boundary of stability, so no policy attains it.
        """
        gains, solved = self.optimal_gain(contexts)
        best = self.home_performance(LinearGain(gains[:, None]), contexts)[:, 0]
        best = np.where(solved & (best > -np.inf), best, np.nan)
        open_rows = np.flatnonzero(np.isnan(best))
        if len(open_rows):
            A, B, _, _ = self.matrices(contexts[open_rows])
            for row, a, b in zip(open_rows, A, B, strict=True):
                if not stabilisable(a, b, continuous=self.is_continuous):
                    best[row] = -np.inf
        return best


def _stack_of(controllers: LinearController) -> LinearController:
    """Return controllers with dims `(source, policy)`, whatever leading dims there are.

    One leading dim is one controller per source; of more than two all but the last
    number the sources.
    """
    arrays = controllers.arrays()
    front = arrays["D"].shape[:-2]
    members = front[-1] if len(front) > 1 else 1
    sources = math.prod(front) // members
    shaped = {
        name: array.reshape(sources, members, *array.shape[len(front) :])
        for name, array in arrays.items()
    }
    return LinearController.from_arrays(shaped, controllers.settings())


def _rows(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


def weight_matrix(symbol: str, given: ArrayLike, definite: bool = False) -> Array:
    """Return a symmetric positive semidefinite (or definite) matrix, checked.

    Args:
        symbol: name for the message.
        given: the matrix.
        definite: whether a zero eigenvalue is refused.
    """
    matrix = np.array(given, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(
            f"{symbol} must be a square matrix, but has shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise InvalidInputError(f"{symbol} must be finite, got {matrix.tolist()}.")
    scale = np.abs(matrix).max(initial=0.0)
    if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-10 * scale:
        raise InvalidInputError(f"{symbol} must be symmetric, got {matrix.tolist()}.")
    smallest = np.linalg.eigvalsh(matrix).min()
    # No more than rounding may make of a zero: a weight of -1 beside 1e12 is an error.
    rounding = 64 * len(matrix) * np.finfo(np.float64).eps * scale
    if smallest < -rounding or (definite and not _is_definite(matrix)):
        kind = "definite" if definite else "semidefinite"
        raise InvalidInputError(
            f"{symbol} must be positive {kind}, but its smallest eigenvalue is "
            f"{smallest:g}."
        )
    return (matrix + matrix.T) / 2


def _is_definite(matrix: Array) -> bool:
    """Whether a symmetric matrix is positive definite, in whatever units."""
    with np.errstate(all="ignore"):
        sizes = np.sqrt(np.diagonal(matrix))
        scaled = matrix / sizes[:, None] / sizes
    return bool(np.isfinite(scaled).all() and np.linalg.eigvalsh(scaled).min() > 1e-14)
