"""Measures of your own: a function under a name, asked for like any other.

What such a function returns is `given`: nothing that rests on it is called proven.
"""

import inspect
import keyword
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.systems.linear.measures import MEASURES
from taskspace.systems.linear.measures.base import Measure, closed_loops

__all__ = ["OwnMeasure", "measure"]

F = TypeVar("F", bound=Callable[..., float])


class OwnMeasure(Measure):
    """A measure that a user's function gives.

    Args:
        function: of the closed loop, or of system, policy and context.
        name: what users call it.
        larger_is_better: which way it is good.
        unit: its unit, empty for a pure number.
        words: what it is, for sentences.
    """

    is_of_any_system = True

    def __init__(
        self,
        function: Callable[..., float],
        name: str,
        *,
        larger_is_better: bool,
        unit: str = "",
        words: str = "",
    ):
        self.function, self.name, self.unit = function, name, unit
        self.larger_is_better = larger_is_better
        self.words = words or f"a {name.replace('_', ' ')}"
        n_arguments = len(inspect.signature(function).parameters)
        if n_arguments not in (1, 3):
            raise InvalidInputError(
                "A measure is a function of the closed loop, or of system, policy and "
                f"context, but {name!r} takes {n_arguments} arguments."
            )
        self.is_of_loop = n_arguments == 1

    def values(self, system: Any, policies: Policy, contexts: Array) -> Array:
        """Return what the function says of every policy at every context.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            Dims `(source, policy, target)`; infinitely bad where a linear loop is
            unstable, without asking the function.
        """
        shape = (*policies.stack_shape, len(contexts))
        is_linear = hasattr(system, "matrices")
        if self.is_of_loop and not is_linear:
            raise InvalidInputError(
                f"The measure {self.name!r} is a function of a linear closed loop, but "
                f"the system is {system.id}. Write it as a function of system, policy "
                "and context."
            )
        loops = closed_loops(system, policies, contexts) if is_linear else None
        names = [axis.name for axis in system.axes]
        values = np.empty(shape)
        for place in np.ndindex(shape):
            source, policy, target = place
            if loops is not None and not loops.stable[place]:
                values[place] = -np.inf if self.larger_is_better else np.inf
            elif self.is_of_loop:
                assert loops is not None
                values[place] = self.function(loops.one(place))
            else:
                context = dict(zip(names, contexts[target].tolist(), strict=True))
                values[place] = self.function(system, policies[source, policy], context)
        return values


def measure(
    name: str, *, larger_is_better: bool, unit: str = "", words: str = ""
) -> Callable[[F], F]:
    """Register a function as a measure that questions may ask for.

    Args:
        name: what questions call it, e.g. `settling_time` in `settling_time <= 2`.
        larger_is_better: which way it is good, so which of `>=` and `<=` is asked.
        unit: its unit, empty for a pure number.
        words: what it is, for sentences, e.g. `"a settling time"`.

    Returns:
        A decorator for a function of the closed loop (`loop.F`, `loop.E`, `loop.Y`…,
        see `ClosedLoops`), or of system, policy and context (values by axis). It
        returns one number. It is not asked about linear loops that are unstable.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
        raise InvalidInputError(
            "The name of a measure must be one word of letters, digits and _, and "
            f"none that questions use already, but got {name!r}."
        )
    if name in MEASURES and not isinstance(MEASURES[name], OwnMeasure):
        raise InvalidInputError(
            f"The measure {name!r} is built in. Choose another name for your own."
        )

    def register(function: F) -> F:
        MEASURES[name] = OwnMeasure(
            function, name, larger_is_better=larger_is_better, unit=unit, words=words
        )
        return function

    return register


RESERVED = {"performance", "score", "cost", "worst", "best", "signed"} | {
    "regret", "ratio", "floor"
}  # fmt: skip
