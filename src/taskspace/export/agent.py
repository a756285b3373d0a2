"""A library as an agent: `predict` as in Stable-Baselines3.

Whatever plays an SB3 model (its `evaluate_policy`, wrappers, scripts) plays this.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import OutsideError, Status
from taskspace.errors import InvalidInputError


class LibraryAgent:
    """Plays the policy that the present context selects.

    Args:
        library: a library with policies.
        context: the context: fixed, one for all environments or one each; or a
            function that gives it from a batch of observations. Set `agent.context` to
            change it. Left out, observations must be dicts with the keys `context`
            and `observation`.
        hysteresis: of a context that drifts, see `Tracker`; `None` for none. With it
            the agent plays one environment at a time.

    Examples:
        >>> import numpy as np
        >>> from taskspace import Points, PolicyLibrary
        >>> from taskspace.policies import LinearGain
        >>> gains = LinearGain(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
        >>> points = Points(["k"], [1.0, 3.0])
        >>> library = PolicyLibrary.from_policies(gains, points)
        >>> agent = LibraryAgent(library, context={"k": 2.5})
        >>> action, _ = agent.predict(np.array([1.0, 1.0]))
        >>> action.tolist()
        [-7.0]
    """

    def __init__(
        self,
        library: PolicyLibrary,
        context: Any | Callable[[NDArray[Any]], Any] = None,
        *,
        hysteresis: float | None = None,
    ):
        policies = library.require_policies("An agent needs policies")
        self.library, self.context = library, context
        self._observation_dims = 0 if policies.kind == "tabular" else 1
        self.tracker = None if hysteresis is None else library.tracker(hysteresis)
        self.selection: Any = None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], Any]:
        """Actions for one observation or a batch.

        Args:
            observation: one observation or a batch, or a dict, see the class.
            state: handed through; the policies have none.
            episode_start: where True, a tracker forgets its policy.
            deterministic: policies of a library always are.

        Returns:
            The action, or one per observation, and `state`. `OutsideError` where a
            context is refused.
        """
        del deterministic
        if isinstance(observation, dict):
            context, seen = observation["context"], observation["observation"]
        else:
            seen = np.asarray(observation)
            context = self.context(seen) if callable(self.context) else self.context
        if context is None:
            raise InvalidInputError(
                "The agent must know the context: give LibraryAgent(context=…), or "
                "observations that are dicts with 'context' and 'observation'."
            )
        rows, seen = self.library.rows(context), np.asarray(seen)
        single = seen.ndim == self._observation_dims
        batch = seen[None] if single else seen
        rows = np.broadcast_to(rows, (len(batch), rows.shape[-1]))
        if self.tracker is not None:
            if len(batch) != 1:
                raise InvalidInputError(
                    "An agent with hysteresis follows one environment, but got "
                    f"{len(batch)} observations."
                )
            if episode_start is not None and np.any(episode_start):
                self.tracker.reset()
            selection = self.tracker.select(rows[0])
            policy = np.array([selection.policy])
        else:
            selection = self.library.select(rows)
            policy = selection.policy
        self.selection = selection
        if (policy < 0).any():
            raise OutsideError(
                f"A context must be served by a policy, but {rows[policy < 0][0]} is "
                f"not (status {Status.REFUSED.name.lower()}).",
                selection,
            )
        action = self.library.act_as(policy, batch)
        return (action[0] if single else action), state
