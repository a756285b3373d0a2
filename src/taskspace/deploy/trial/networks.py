"""The other alternative to a library of networks: one that sees the context."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.base import PolicyLibrary
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.systems.simulated import SimulatedSystem

if TYPE_CHECKING:
    from taskspace.trainers.conditioned import ConditionedNetwork
    from taskspace.trainers.ppo import Ppo


def training_steps(library: PolicyLibrary) -> int | None:
    """Environment steps that the policies of a library took, None if not known.

    Args:
        library: the library.
    """
    steps = library.provenance.get("environment_steps")
    return steps if isinstance(steps, int) and steps > 0 else None


def conditioned_networks(
    library: PolicyLibrary,
    system: System,
    n: int,
    *,
    recipe: "Ppo | None" = None,
    total_steps: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> "list[ConditionedNetwork]":
    """Networks that see the context, each trained as long as the whole library.

    Args:
        library: gives the range of contexts and the budget.
        system: a simulated system.
        n: how many, each with its own seed.
        recipe: settings of PPO; the defaults where not given.
        total_steps: environment steps of each network; what the policies of the
            library took together where not given.
        seed: of the first network.
        progress: told how many networks are trained.
    """
    from taskspace.trainers.conditioned import train_conditioned
    from taskspace.trainers.ppo import Ppo

    steps = training_steps(library) if total_steps is None else total_steps
    if steps is None or steps < 1:
        raise InvalidInputError(
            "A network is trained as long as the policies of the library together, but "
            "how many environment steps these took is not known. Give total_steps "
            "(--network-steps)."
        )
    if not isinstance(system, SimulatedSystem):
        raise InvalidInputError(
            "A network that sees the context is trained in JAX (SimulatedSystem), but "
            f"{system.id} is no such system."
        )
    ends = np.stack([library.low, library.high])
    low, high = library.contexts(system, ends)
    networks = []
    for k in range(n):
        networks.append(
            train_conditioned(
                system,
                low,
                high,
                recipe=Ppo() if recipe is None else recipe,
                total_steps=steps,
                seed=seed + k,
            )
        )
        if progress is not None:
            progress("train", k + 1, n)
    return networks


def network_scores(
    networks: "Sequence[ConditionedNetwork]",
    library: PolicyLibrary,
    system: Any,
    contexts: NDArray[np.float64],
    seen: NDArray[np.float64],
) -> NDArray[np.float64]:
    """J of every network at every context, `(network, context)`.

    Args:
        networks: the networks.
        library: names the columns of `seen`.
        system: a simulated system.
        contexts: full context rows.
        seen: what is measured of them, in the library's axes.
    """
    scores = []
    for one in networks:
        told = seen[:, [library.names.index(name) for name in one.axes]]
        returns = one.returns(system, contexts, told)
        scores.append(returns.mean(-1, dtype=np.float64))
    return np.array(scores).reshape(-1, len(contexts))
