"""Any Gymnasium environment as a system, with contexts set in one of two ways.

| `apply` | a context reaches the environment by |
|---|---|
| `"attributes"` | attributes of the unwrapped environment, then `derived` ones anew |
| `"arguments"` | arguments of `gymnasium.make` or of the function that makes it |

For anything else let `make` be a function of the context that builds the environment,
with `apply="arguments"`.

Environments compute some fields once, when they are made (a total mass, bounds of a
space). A context that is set afterwards does not reach them, unless they are in
`derived`; `taskspace doctor` finds axes that are dead for this reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, MissingExtraError, UnknownNameError
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy
from taskspace.systems.base import ContextAxis
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.function import each_policy
from taskspace.systems.gymnasium_axes import READY, ReadyAxes
from taskspace.systems.parallel import parallel_map

if TYPE_CHECKING:
    import gymnasium

APPLY = ("attributes", "arguments")

SIDE_BY_SIDE = 64
"""Environments of one context that are kept open at a time."""


@dataclass(frozen=True, eq=False)
class GymnasiumSystem(EpisodicSystem):
    """A family of Gymnasium environments, played as they are.

    Policies may be our own (`Mlp`, `LinearGain`, `TabularPolicy`), Stable-Baselines3
    models, or any callable from an observation to an action (in `PythonPolicies`);
    one with a method `reset` has it called before every episode. Episode `e` starts
    with `reset(seed=episode_seed + e)` for every policy and context. Seeds close to
    each other therefore share episodes: for others take other numbers
    (`fresh_episodes`), not another seed.

    Train with `Sb3`; `Ppo` needs a system in JAX.

    Args:
        make: an id of Gymnasium, e.g. `"Acrobot-v1"`, or a function that makes an
            environment.
        context_axes: the parameters of a context. May be left out for the ids in
            `READY`, which also say how to apply them.
        apply: `"attributes"` or `"arguments"`; see this module.
        attributes: attribute (or argument) of each axis whose name differs from the
            axis; dots lead into objects, as in `"model.opt.timestep"`.
        derived: attributes that depend on others, as functions of the unwrapped
            environment; set again, in order, after those of the context.
        arguments: further arguments for making an environment.
        horizon: steps after which an episode is cut.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of episode 0.
        workers: processes that share the evaluation; 0 for none.
        name: its `id` in reports; left out, `gymnasium:` and the id in `make`.
        return_range: smallest and largest return that an episode can have in any
            context, if known; certificates of confidence need it. Left out, it is
            known for some of the ids in `READY`.

    Examples:
        >>> system = GymnasiumSystem("Acrobot-v1", n_episodes=2, horizon=50)
        >>> [axis.name for axis in system.axes][:2]
        ['link_length_1', 'link_length_2']
    """

    make: "str | Callable[..., gymnasium.Env]"
    context_axes: Sequence[ContextAxis] = ()
    apply: str = "attributes"
    attributes: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    horizon: int = 500
    n_episodes: int = 10
    episode_seed: int = 0
    workers: int = 0
    name: str = ""
    return_range: tuple[float, float] | None = None
    id: ClassVar[str] = "gymnasium"

    def __post_init__(self):
        super().__post_init__()
        if not self.context_axes:
            if self.make not in READY:
                raise InvalidInputError(
                    "context_axes must be given, unless make is one of "
                    f"{', '.join(READY)}, but got make={self.make!r}."
                )
            object.__setattr__(self, "context_axes", READY[str(self.make)].axes)
        if callable(self.apply) or self.apply == "options":
            raise InvalidInputError(
                "apply must be 'attributes' or 'arguments', but got "
                f"{self.apply!r}. Let make be a function that takes the context as "
                "arguments and builds the environment, with apply='arguments'."
            )
        if self.apply not in APPLY:
            raise UnknownNameError("way to apply a context", self.apply, APPLY)
        own = f"gymnasium:{self.make}" if isinstance(self.make, str) else self.id
        object.__setattr__(self, "id", self.name or own)
        known = [axis.name for axis in self.context_axes]
        for name in self.attributes:
            if name not in known:
                raise UnknownNameError("axis in attributes:", name, known)

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes."""
        return tuple(self.context_axes)

    @property
    def _ready(self) -> ReadyAxes | None:
        """How the axes of `READY` are applied, where the axes are these."""
        ready = READY.get(self.make) if isinstance(self.make, str) else None
        if ready is None or self.apply != "attributes" or self.attributes:
            return None
        names = [axis.name for axis in ready.axes]
        return ready if [axis.name for axis in self.axes] == names else None

    def settings(self) -> dict[str, Any]:
        """Return what can be written down: functions cannot.

        Together with `id` it is what `gymnasium_system` takes, unless functions of
        your own make or change the environment.
        """
        plain = ("horizon", "n_episodes", "episode_seed", "workers")
        values = {name: getattr(self, name) for name in plain}
        if self.return_range is not None:
            values["return_range"] = list(self.return_range)
        if self.arguments:
            values["arguments"] = dict(self.arguments)
        ready = self._ready
        if ready is None or self.axes != ready.axes:
            values["axes"] = {a.name: self._axis_settings(a) for a in self.axes}
        if ready is None:
            values["apply"] = self.apply
        return values

    def _axis_settings(self, axis: ContextAxis) -> dict[str, Any]:
        values = {key: value for key, value in asdict(axis).items() if key != "name"}
        if axis.name in self.attributes:
            values["attribute"] = self.attributes[axis.name]
        return values

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """Return the environment of one context.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: further arguments for making it.
        """
        names = [axis.name for axis in self.axes]
        values = np.asarray(context, float).tolist()
        named = dict(zip(names, values, strict=True))
        arguments = {**self.arguments, **kwargs}
        if self.apply == "arguments":
            arguments |= {self.attributes.get(n, n): v for n, v in named.items()}
        environment = make_environment(self.make, arguments, self.horizon)
        if self._ready is not None:
            self._ready.apply(environment, named)
        elif self.apply == "attributes":
            for name, value in named.items():
                path = self.attributes.get(name, name)
                _set_attribute(environment.unwrapped, path, value)
        for name, function in self.derived.items():
            _set_attribute(environment.unwrapped, name, function(environment.unwrapped))
        return environment

    def return_bounds(
        self, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """`return_range`, or what is known of the environments in `READY`.

        Args:
            contexts: full context rows, shape `(target, len(axes))`.
        """
        if self.return_range is not None:
            return np.tile(np.asarray(self.return_range, float), (len(contexts), 1))
        ready = self._ready
        if ready is None or ready.bounds is None:
            return None
        if self.arguments or self.derived:  # they may change the reward
            return None
        names = [axis.name for axis in self.axes]
        rows = [dict(zip(names, row, strict=True)) for row in contexts.tolist()]
        return np.array([ready.bounds(row, self.horizon) for row in rows])

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
            episodes: numbers of the episodes to play; those of J if left out.

        Returns:
            Sums of rewards, dims `(source, policy, target, episode)`; −inf where one
            is not a number.
        """
        members, shape = each_policy(policies)
        numbers = self.episode_numbers(episodes)
        work = [(row, members) for row in np.asarray(contexts, float)]
        play = partial(_play_context, self, numbers)
        played = parallel_map(play, work, self.workers)
        stack = np.stack(played).reshape(len(contexts), *shape, len(numbers))
        return np.moveaxis(stack, 0, 2).astype(np.float32)

    def home_performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Mean return of every policy at its own source, dims `(source, policy)`."""
        members, shape = each_policy(policies)
        work = [
            (row, members[i * shape[1] : (i + 1) * shape[1]])
            for i, row in enumerate(np.asarray(contexts, float))
        ]
        play = partial(_play_context, self, self.episode_numbers(None))
        played = parallel_map(play, work, self.workers)
        returns = np.stack(played).astype(np.float32)  # as in `performance`
        return returns.mean(-1, dtype=np.float64)


def make_environment(
    make: "str | Callable[..., gymnasium.Env]", arguments: dict[str, Any], horizon: int
) -> "gymnasium.Env":
    """Return an environment whose episodes are cut after some steps.

    Args:
        make: an id of Gymnasium, or a function that makes an environment.
        arguments: for making it.
        horizon: the steps.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("A Gymnasium environment", "rl") from error
    if not isinstance(make, str):
        return gymnasium.wrappers.TimeLimit(make(**arguments), horizon)
    # The checker would compare actions with the bounds of the default context.
    usual = {"disable_env_checker": True, "max_episode_steps": horizon}
    return gymnasium.make(make, **{**usual, **arguments})


def gymnasium_system(
    env_id: str,
    *,
    axes: Mapping[str, Any] | Sequence[str] | None = None,
    apply: str = "attributes",
    arguments: Mapping[str, Any] | None = None,
    horizon: int = 500,
    n_episodes: int = 10,
    episode_seed: int = 0,
    workers: int = 0,
    return_range: Sequence[float] | None = None,
) -> GymnasiumSystem:
    """Return a Gymnasium environment as a system, from values of a TOML file.

    In an experiment, `id = "gymnasium:Pendulum-v1"` is this function.

    Args:
        env_id: an id of Gymnasium, e.g. `"Pendulum-v1"`.
        axes: the context axes, by name: a default value, or a table with any of
            `default`, `unit`, `low`, `high`, `low_open`, `description`, and
            `attribute` (where the name differs). A default that is left out is read
            from the environment; names alone may be a list. Not needed for the ids
            in `READY`, whose axes keep their meaning when they are named.
        apply: `"attributes"` of the unwrapped environment, or `"arguments"` of
            `gymnasium.make`.
        arguments: further arguments for making an environment.
        horizon: steps after which an episode is cut.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of episode 0.
        workers: processes that share the evaluation; 0 for none.
        return_range: smallest and largest return of an episode, if known.

    Examples:
        >>> system = gymnasium_system("Pendulum-v1", axes=["g"], horizon=200)
        >>> system.id, system.axes[0].default
        ('gymnasium:Pendulum-v1', 10.0)
    """
    if not isinstance(env_id, str) or not env_id or ":" in env_id:
        raise InvalidInputError(
            "A Gymnasium environment must be named by its registered id, e.g. "
            f"'gymnasium:Pendulum-v1', but got 'gymnasium:{env_id}'. For a module of "
            "your own make a GymnasiumSystem and name it as package.module:object."
        )
    given = {} if axes is None else axes
    if not isinstance(given, Mapping):
        given = {name: {} for name in given}
    tables = {name: _axis_table(name, value) for name, value in given.items()}
    attributes = {n: t.pop("attribute") for n, t in tables.items() if "attribute" in t}
    further = dict(arguments or {})
    ready = READY.get(env_id)
    if ready and not attributes and set(tables) <= {axis.name for axis in ready.axes}:
        found = [replace(axis, **tables.get(axis.name, {})) for axis in ready.axes]
        apply = "attributes"
    else:
        for name, table in tables.items():
            if "default" not in table:
                path = attributes.get(name, name)
                table["default"] = _default(env_id, further, name, path)
        found = [ContextAxis(name, **table) for name, table in tables.items()]
    return GymnasiumSystem(
        env_id,
        found,
        apply=apply,
        attributes=attributes,
        arguments=further,
        horizon=horizon,
        n_episodes=n_episodes,
        episode_seed=episode_seed,
        workers=workers,
        return_range=None if return_range is None else _pair(return_range),
    )


def _axis_table(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"default": float(value)}
    known = [f.name for f in fields(ContextAxis) if f.name != "name"]
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"The axis {name!r} must be a default value or a table with some of "
            f"{', '.join([*known, 'attribute'])}, but got {value!r}."
        )
    for key in value:
        if key not in (*known, "attribute"):
            raise UnknownNameError(f"key of the axis {name}:", key, known)
    return dict(value)


def _pair(values: Sequence[float]) -> tuple[float, float]:
    if len(values) != 2 or not values[0] < values[1]:
        raise InvalidInputError(
            f"return_range must be [smallest, largest], but got {list(values)}."
        )
    return float(values[0]), float(values[1])


def _default(env_id: str, arguments: dict[str, Any], name: str, path: str) -> float:
    """Return the value that an environment has by itself."""
    environment = make_environment(env_id, arguments, 1)
    value: Any = environment.unwrapped
    for part in path.split("."):
        value = _attribute(value, part)
    environment.close()
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The axis {name!r} needs a default: {path} of {env_id} is {value!r}."
        ) from error


def _set_attribute(physics: Any, path: str, value: Any) -> None:
    """Set an attribute that is there; a misspelt one would have no effect."""
    *way, last = path.split(".")
    for part in way:
        physics = _attribute(physics, part)
    _attribute(physics, last)
    setattr(physics, last, value)


def _attribute(physics: Any, name: str) -> Any:
    if not hasattr(physics, name):
        known = [n for n in dir(physics) if not n.startswith("_")]
        kind = type(physics).__name__
        raise UnknownNameError(f"attribute of {kind}", name, known)
    return getattr(physics, name)


def _play_context(
    system: GymnasiumSystem,
    episodes: NDArray[np.int64],
    work: tuple[NDArray[np.float64], Sequence[Any]],
) -> NDArray[np.float64]:
    """Return the returns of some policies in one context, dims `(policy, episode)`."""
    context, policies = work
    side_by_side = min(len(episodes), SIDE_BY_SIDE)
    environments = [system.environment(context) for _ in range(side_by_side)]
    totals = np.empty((len(policies), len(episodes)))
    for i, policy in enumerate(policies):
        batched = _batched(policy, environments[0])
        for first in range(0, len(episodes), side_by_side):
            some = slice(first, first + side_by_side)
            numbers = episodes[some].tolist()
            if batched is not None:
                totals[i, some] = _play(system, environments, numbers, batched)
                continue
            # One episode after the other: the policy may have a memory.
            for e, number in enumerate(numbers, first):
                if hasattr(policy, "reset"):
                    policy.reset()
                act = partial(_one, policy)
                totals[i, e] = _play(system, environments[:1], [number], act)[0]
    for environment in environments:
        environment.close()
    return np.where(np.isnan(totals), -np.inf, totals)


def _play(
    system: GymnasiumSystem,
    environments: Sequence[Any],
    episodes: Sequence[int],
    act: Callable[[list[Any]], Any],
) -> NDArray[np.float64]:
    """Return sums of rewards of some episodes that are stepped side by side."""
    seen = [
        environment.reset(seed=system.episode_seed + number)[0]
        for environment, number in zip(environments, episodes, strict=False)
    ]
    total = np.zeros(len(episodes))
    alive = list(range(len(episodes)))
    for _ in range(system.horizon):
        actions = act([seen[e] for e in alive])
        going = []
        for action, e in zip(actions, alive, strict=True):
            seen[e], reward, terminated, truncated, _ = environments[e].step(action)
            total[e] += float(reward)
            if not (terminated or truncated):
                going.append(e)
        alive = going
        if not alive:
            break
    return total


def _one(policy: Any, observations: list[Any]) -> list[Any]:
    return [policy(observation) for observation in observations]


def _batched(policy: Any, environment: Any) -> Callable[[list[Any]], Any] | None:
    """Actions at many observations in one call, where the policy can do that."""
    from gymnasium.spaces import Box

    space = environment.action_space

    def fit(actions: NDArray[Any]) -> Any:
        if isinstance(space, Box):
            shaped = np.asarray(actions, space.dtype).reshape(-1, *space.shape)
            return np.clip(shaped, space.low, space.high)
        return [int(action) for action in np.reshape(actions, -1)]

    if isinstance(policy, Mlp):
        return lambda seen: fit(policy.act(np.stack([np.ravel(o) for o in seen])))
    if isinstance(policy, LinearGain):
        return lambda seen: fit(np.stack([policy.act(np.ravel(o)) for o in seen]))
    if isinstance(policy, TabularPolicy):
        return lambda seen: fit(np.stack([policy.act(o) for o in seen]))
    if hasattr(policy, "predict"):  # Stable-Baselines3
        return lambda seen: policy.predict(np.stack(seen), deterministic=True)[0]
    if not callable(policy):
        raise InvalidInputError(
            "A policy must be one of ours, a Stable-Baselines3 model or a callable "
            f"from observation to action, but got {type(policy).__name__}."
        )
    return None
