"""A plain Python function J(context, policy), for everything else.

With `workers` the work is shared among processes. New processes take seconds to start,
so one pool is kept for the next call, until a module of the user's changes on disk: old
code would go on working.
"""

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from taskspace._util.threads import follow_parent
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.policies import Policy
from taskspace.systems.base import ContextAxis, System

Performance = Callable[[dict[str, float], Any], float]


@dataclass(frozen=True, eq=False)
class PythonPolicies(Policy):
    """A stack of Python objects: anything that a system can play.

    Args:
        objects: nested lists or an object array with dims `(source, policy)`; a flat
            list is one policy per source.
    """

    objects: Any
    kind: ClassVar[str] = "python"

    def __post_init__(self):
        given = self.objects
        if not isinstance(given, np.ndarray):
            rows = [row if isinstance(row, list | tuple) else [row] for row in given]
            sizes = {len(row) for row in rows}
            if len(sizes) != 1 or 0 in sizes:
                raise InvalidInputError(
                    "Every source must have the same number of policies, at least "
                    f"one, but the numbers are {sorted(sizes)}."
                )
            given = np.empty((len(rows), sizes.pop()), object)
            for i, row in enumerate(rows):
                for j, policy in enumerate(row):
                    given[i, j] = policy
        object.__setattr__(self, "objects", given)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the objects."""
        return {"objects": self.objects}

    def settings(self) -> dict[str, Any]:
        """Refused: Python objects are not written to files."""
        raise InvalidInputError(
            "Python objects cannot be stored in a run directory. Use evaluate_policies "
            "in memory, or a trainer whose policies are arrays (Mlp, LinearGain)."
        )

    def act(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return what the one object, a function of the observation, does."""
        one = self.objects.item()
        kinds = [kind.__module__.split(".")[0] for kind in type(one).__mro__]
        if not callable(one) or "control" in kinds:  # its call is a frequency response
            raise InvalidInputError(
                "A policy that acts must be a function of the observation, but got "
                f"{type(one).__module__}.{type(one).__name__}. Wrap it in a function, "
                "e.g. lambda x: -K @ x."
            )
        return np.asarray(one(observation))

    def __getitem__(self, index: Any) -> Self:
        """Select along the leading dims."""
        # Places, not objects: a policy may itself be an array.
        places = np.arange(self.objects.size).reshape(self.objects.shape)[index]
        chosen = np.empty(np.shape(places), object)
        for where, place in np.ndenumerate(places):
            chosen[where] = self.objects.flat[int(place)]
        return type(self)(chosen)

    @classmethod
    def concatenate(cls, stacks: Sequence[Any]) -> Self:
        """Join stacks along `source`."""
        return cls(np.concatenate([stack.objects for stack in stacks]))


def each_policy(policies: Policy) -> tuple[list[Any], tuple[int, ...]]:
    """Return the policies of a stack one by one, and the stack's shape.

    Args:
        policies: a stack with leading dims `(source, policy)`.

    Returns:
        The objects of `PythonPolicies`, otherwise single policies; sources first.
    """
    if isinstance(policies, PythonPolicies):
        return list(policies.objects.reshape(-1)), policies.objects.shape
    shape = policies.stack_shape
    return [policies[index] for index in np.ndindex(*shape)], shape


@dataclass(frozen=True, eq=False)
class FunctionSystem(System):
    """A family of tasks given by one Python function.

    Args:
        function: J of a policy in a context, larger is better: it gets the context as
            a dict `{name: value}` and the policy, and gives a number (−inf for a
            failure).
        context_axes: the parameters of a context.
        workers: processes that share the evaluation; 0 for none.
        examples: policies to try the function with, for `taskspace doctor`.
        homes: the context that each example is made for, by name.
        name: what to call it in reports.
        reference: the largest J that is possible in a context, NaN where it is not
            known. Then `regret` and `ratio` work at new contexts too.

    Examples:
        >>> system = FunctionSystem(
        ...     lambda context, policy: 1 - abs(context["x"] - policy),
        ...     [ContextAxis("x", 0.0)],
        ... )
        >>> policies = PythonPolicies([1.0, 4.0])
        >>> system.performance(policies, np.array([[0.0], [4.0]]))[:, 0].tolist()
        [[0.0, -2.0], [-3.0, 1.0]]
    """

    function: Performance
    context_axes: Sequence[ContextAxis]
    workers: int = 0
    examples: Sequence[Any] = ()
    homes: Sequence[Mapping[str, float]] = ()
    name: str = "function"
    reference: Callable[[dict[str, float]], float] | None = None
    id: ClassVar[str] = "function"

    def __post_init__(self):
        if len(self.homes) and len(self.homes) != len(self.examples):
            raise InvalidInputError(
                "There must be one home per example, but there are "
                f"{len(self.examples)} examples and {len(self.homes)} homes."
            )

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes given by the user."""
        return tuple(self.context_axes)

    def performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """J of every policy at every context, dims `(source, policy, target)`."""
        members, shape = each_policy(policies)
        rows = self._named(contexts)
        # One item per policy: it is sent to a process once, with all contexts.
        pairs = [(rows, policy) for policy in members]
        return self._scores(pairs).reshape(*shape, len(rows))

    def home_performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """J of every policy at its own source, dims `(source, policy)`."""
        members, shape = each_policy(policies)
        rows = self._named(np.repeat(contexts, shape[1], axis=0))
        pairs = [([row], policy) for row, policy in zip(rows, members, strict=True)]
        return self._scores(pairs).reshape(shape)

    def _named(self, contexts: NDArray[np.float64]) -> list[dict[str, float]]:
        """Return context rows as the function takes them."""
        names = [axis.name for axis in self.axes]
        return [dict(zip(names, row, strict=True)) for row in contexts.tolist()]

    def _scores(self, pairs: list[tuple[list[dict[str, float]], Any]]) -> NDArray[Any]:
        """Return J of each policy at its contexts, one after the other."""
        work = partial(_row, self.function)
        return np.array(parallel_map(work, pairs, self.workers), np.float64)

    def optimum(self, contexts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the reference at each context, None where none was given."""
        if self.reference is None:
            return None
        best = [_number(self.reference, row) for row in self._named(contexts)]
        return np.array(best, np.float64)

    def settings(self) -> dict[str, Any]:
        """Return what can be written down: functions cannot."""
        return {"name": self.name, "workers": self.workers}


def _row(
    function: Performance, pair: tuple[list[dict[str, float]], Any]
) -> list[float]:
    """Return J of one policy at some contexts."""
    contexts, policy = pair
    row = [_number(function, context, policy) for context in contexts]
    if np.isnan(row).any():
        where = contexts[int(np.isnan(row).argmax())]
        raise InvalidInputError(
            "The function must give a number, −inf for a failure, but at "
            f"{where} it gave nan."
        )
    return row


def _number(
    function: Callable[..., Any], context: dict[str, float], *args: Any
) -> float:
    """Return what a function gives at a context: a number, not +inf."""
    value = function(dict(context), *args)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The function must give a number, but at {context} it gave {value!r}."
        ) from error
    if number == np.inf:
        raise InvalidInputError(
            f"The function must give a finite number, but at {context} it gave inf."
        )
    return number


def parallel_map(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int
) -> list[Any]:
    """`[function(item) for item in items]`, in some processes.

    The processes start afresh (no fork), so a script that uses them must have its
    own work below `if __name__ == "__main__":`. They are kept for the next call.

    Args:
        function: what to do with one item; anything that can be pickled, or with
            `cloudpickle` (part of the extra `rl`) also lambdas and closures.
        items: the items.
        workers: processes; 0 works in this one.
    """
    if workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    if workers == 0 or len(items) < 2:
        return [function(item) for item in items]
    work = partial(_work, sys.path, _pack(function))
    packed = [_pack(item) for item in items]
    pool = kept_pool(workers, _code_on_disk())
    try:
        return list(pool.map(work, packed, chunksize=-(-len(items) // (8 * workers))))
    except BrokenProcessPool as error:
        kept_pool.cache_clear()
        raise TaskspaceError(
            "The worker processes ended before their work was done: a script must have "
            'its own work below `if __name__ == "__main__":`, and memory must suffice. '
            "workers=0 works in this process."
        ) from error
    except KeyboardInterrupt:  # the rest is not waited for
        kept_pool.cache_clear()
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


@lru_cache(maxsize=1)
def kept_pool(workers: int, code: frozenset[tuple[str, int]]) -> ProcessPoolExecutor:
    """Return worker processes; those of the last call if nothing has changed since.

    Args:
        workers: how many.
        code: what they may import, as it is now.
    """
    del code
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=follow_parent,
        initargs=(os.getpid(),),
    )


def _code_on_disk() -> frozenset[tuple[str, int]]:
    """Return imported modules that are not installed, and the times of their files."""
    files = {
        name: Path(getattr(module, "__file__", None) or "")
        for name, module in list(sys.modules.items())
    }
    installed = (sys.prefix, sys.base_prefix)
    return frozenset(
        (name, path.stat().st_mtime_ns)
        for name, path in files.items()
        if path.is_file() and not str(path).startswith(installed)
    )


def _pack(work: Any) -> bytes:
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    try:
        return pickler.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"This work cannot be sent to other processes: {error}. Define functions "
            "and classes at the top of a module, install the extra 'rl' (cloudpickle), "
            "or set workers=0."
        ) from error


def _work(path: list[str], function: bytes, item: bytes) -> Any:
    """Do the work on one item; an error that cannot travel becomes a sentence."""
    sys.path.extend(place for place in path if place not in sys.path)
    try:
        return pickle.loads(function)(pickle.loads(item))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise TaskspaceError(f"{type(error).__name__}: {error}") from None
        raise
