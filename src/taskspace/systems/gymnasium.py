"""Any Gymnasium environment as a system, with contexts set in one of two ways.

| `apply` | a context reaches the environment by |
|---|---|
| `"attributes"` | attributes of the unwrapped environment, then `derived` ones anew |
| `"arguments"` | arguments of `gymnasium.make` or of the function that makes it |

For anything else let `make` be a function of the context that builds the environment,
with `apply="arguments"`.

Environments compute some fields once, when they are made (a total mass, bounds of a
space). A context that is set afterwards does not reach them, unless they are in
`derived`; `taskspace doctor` finds axes that are dead for this reason. `READY` has
axes of Gymnasium's own environments, with every field that follows from them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, MissingExtraError, UnknownNameError
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy
from taskspace.systems.base import ContextAxis
from taskspace.systems.episodic import EpisodicSystem, Head
from taskspace.systems.function import each_policy, parallel_map

if TYPE_CHECKING:
    import gymnasium

APPLY = ("attributes", "arguments")

SIDE_BY_SIDE = 64
"""Environments of one context that are kept open at a time."""


PENDULUM_SPEED = 8.0
"""Largest speed of Pendulum-v1, rad/s."""


class ReadyAxes(NamedTuple):
    """Axes of one of Gymnasium's environments, with all fields that follow from them.

    Args:
        axes: the axes.
        attributes: attribute of each axis, as in `GymnasiumSystem`.
        derived: attributes that depend on others, likewise.
        bounds: least and largest return of an episode, of context and horizon.
    """

    axes: tuple[ContextAxis, ...]
    attributes: Mapping[str, str]
    derived: Mapping[str, Callable[[Any], Any]]
    bounds: Callable[[dict[str, float], int], tuple[float, float]]


def pendulum_bounds(max_torque: float, horizon: int) -> tuple[float, float]:
    """Return the least and the largest return of a Pendulum-v1.

    A step costs θ² + 0.1·θ̇² + 0.001·u², with |θ| ≤ π, |θ̇| ≤ 8 and |u| ≤
    `max_torque`. A thousandth is left for sums in single precision.

    Args:
        max_torque: limit of the torque, N·m.
        horizon: steps of an episode.
    """
    most = np.pi**2 + 0.1 * PENDULUM_SPEED**2 + 0.001 * max_torque**2
    return -1.001 * horizon * most, 0.0


def _torque_space(physics: Any) -> Any:
    from gymnasium.spaces import Box

    return Box(-physics.max_torque, physics.max_torque, (1,), np.float32)


_positive = ContextAxis.positive

READY: dict[str, ReadyAxes] = {
    "CartPole-v1": ReadyAxes(
        (
            _positive(
                "pole_length", 0.5, "m", "pivot to centre of mass: half of the pole"
            ),
            _positive("cart_mass", 1.0, "kg", "mass of the cart"),
            _positive("pole_mass", 0.1, "kg", "mass of the pole"),
            ContextAxis(
                "gravity", 9.8, "m/s²", 0.0, description="gravitational acceleration"
            ),
            ContextAxis("force", 10.0, "N", 0.0, description="size of the push"),
            _positive("time_step", 0.02, "s", "time between two actions"),
        ),
        {
            "pole_length": "length",
            "cart_mass": "masscart",
            "pole_mass": "masspole",
            "force": "force_mag",
            "time_step": "tau",
        },
        {
            "total_mass": lambda physics: physics.masscart + physics.masspole,
            "polemass_length": lambda physics: physics.masspole * physics.length,
        },
        lambda context, horizon: (1.0, float(horizon)),
    ),
    "Pendulum-v1": ReadyAxes(
        (
            _positive("mass", 1.0, "kg", "of the rod"),
            _positive("length", 1.0, "m", "of the rod"),
            ContextAxis(
                "gravity", 10.0, "m/s²", 0.0, description="gravitational acceleration"
            ),
            _positive("time_step", 0.05, "s", "time between two actions"),
            ContextAxis(
                "max_torque", 2.0, "N·m", 0.0, description="limit in both directions"
            ),
        ),
        {"mass": "m", "length": "l", "gravity": "g", "time_step": "dt"},
        {"action_space": _torque_space},
        lambda context, horizon: pendulum_bounds(context["max_torque"], horizon),
    ),
    "Acrobot-v1": ReadyAxes(
        (
            _positive("link_length_1", 1.0, "m", "upper link"),
            _positive("link_length_2", 1.0, "m", "lower link"),
            _positive("link_mass_1", 1.0, "kg", "upper link"),
            _positive("link_mass_2", 1.0, "kg", "lower link"),
            _positive("moment_of_inertia", 1.0, "kg m²", "of each link"),
            _positive("torque", 1.0, "N·m", "size of the torque at the joint"),
            _positive("time_step", 0.2, "s", "time between two actions"),
        ),
        {
            "link_length_1": "LINK_LENGTH_1",
            "link_length_2": "LINK_LENGTH_2",
            "link_mass_1": "LINK_MASS_1",
            "link_mass_2": "LINK_MASS_2",
            "moment_of_inertia": "LINK_MOI",
            "torque": "AVAIL_TORQUE",
            "time_step": "dt",
        },
        {
            # The centre of mass is in the middle of a link, as in the original.
            "LINK_COM_POS_1": lambda physics: physics.LINK_LENGTH_1 / 2,
            "LINK_COM_POS_2": lambda physics: physics.LINK_LENGTH_2 / 2,
            "AVAIL_TORQUE": lambda physics: [
                -physics.AVAIL_TORQUE,
                0.0,
                physics.AVAIL_TORQUE,
            ],
        },
        lambda context, horizon: (-float(horizon), 0.0),
    ),
}
"""Axes that need not be stated, by Gymnasium's id."""


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
        if self.apply not in APPLY:
            raise InvalidInputError(
                f"apply must be 'attributes' or 'arguments', but got {self.apply!r}. "
                "For anything else let make be a function that takes the context as "
                "arguments and builds the environment, with apply='arguments'."
            )
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
        """The entry of `READY` whose axes these are, None where they are others."""
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
        values: dict[str, Any] = {name: getattr(self, name) for name in plain}
        if self.return_range is not None:
            values["return_range"] = list(self.return_range)
        if self.arguments:
            values["arguments"] = dict(self.arguments)
        ready = self._ready
        if ready is None:
            values["apply"] = self.apply
        if ready is None or self.axes != ready.axes:
            values["axes"] = tables = {axis.name: asdict(axis) for axis in self.axes}
            for name, table in tables.items():
                del table["name"]
                if name in self.attributes:
                    table["attribute"] = self.attributes[name]
        return values

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """Return the environment of one context.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: further arguments for making it.
        """
        names = [axis.name for axis in self.axes]
        values = np.asarray(context, float).tolist()
        ready = self._ready
        attributes = self.attributes if ready is None else ready.attributes
        named = {
            attributes.get(name, name): value
            for name, value in zip(names, values, strict=True)
        }
        arguments = {**self.arguments, **kwargs}
        if self.apply == "arguments":
            arguments |= named
        environment = make_environment(self.make, arguments, self.horizon)
        physics = environment.unwrapped
        if self.apply == "attributes":
            for path, value in named.items():
                _set_attribute(physics, path, value)
        derived = {**(ready.derived if ready else {}), **self.derived}
        for name, function in derived.items():
            _set_attribute(physics, name, function(physics))
        return environment

    def network_sizes(self) -> tuple[int, int, Head]:
        """Return inputs, outputs and head of a network that plays the environment."""
        from gymnasium.spaces import Box, Discrete

        environment = self.environment([axis.default for axis in self.axes])
        seen, acts = environment.observation_space, environment.action_space
        environment.close()
        if not isinstance(seen, Box) or not isinstance(acts, Box | Discrete):
            raise InvalidInputError(
                "Networks need Box observations and Box or Discrete actions, but the "
                f"environment has {seen} and {acts}."
            )
        n_in = math.prod(seen.shape)
        if isinstance(acts, Discrete):
            return n_in, int(acts.n), "argmax"
        return n_in, math.prod(acts.shape), "clip"

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
        if ready is None or self.arguments or self.derived:  # they may change rewards
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
        played = self._played([(row, members) for row in contexts], numbers)
        stack = played.reshape(len(contexts), *shape, len(numbers))
        return np.moveaxis(stack, 0, 2)

    def home_performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Mean return of every policy at its own source, dims `(source, policy)`."""
        members, (_, n) = each_policy(policies)
        work = [(row, members[i * n : (i + 1) * n]) for i, row in enumerate(contexts)]
        played = self._played(work, self.episode_numbers(None))
        return played.mean(-1, dtype=np.float64)

    def _played(
        self,
        work: Sequence[tuple[NDArray[np.float64], Sequence[Any]]],
        episodes: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Return sums of rewards, dims `(context, policy, episode)`."""
        play = partial(_play_context, self, episodes)
        played = parallel_map(play, work, self.workers)
        return np.stack(played).astype(np.float32)


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
    axes: Mapping[str, Any] | None = None,
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
        axes: the context axes, by name: a default value, or a table with `default` and
            any of `unit`, `low`, `high`, `low_open`, `description`, and `attribute`
            (where the name differs). Not needed for the ids in `READY`, whose axes keep
            their meaning when they are named.
        apply: `"attributes"` of the unwrapped environment, or `"arguments"` of
            `gymnasium.make`.
        arguments: further arguments for making an environment.
        horizon: steps after which an episode is cut.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of episode 0.
        workers: processes that share the evaluation; 0 for none.
        return_range: smallest and largest return of an episode, if known.

    Examples:
        >>> system = gymnasium_system("Pendulum-v1", axes={"g": 10.0}, horizon=200)
        >>> system.id, system.axes[0].default
        ('gymnasium:Pendulum-v1', 10.0)
    """
    if not isinstance(env_id, str) or not env_id or ":" in env_id:
        raise InvalidInputError(
            "A Gymnasium environment must be named by its registered id, e.g. "
            f"'gymnasium:Pendulum-v1', but got 'gymnasium:{env_id}'. For a module of "
            "your own make a GymnasiumSystem and name it as package.module:object."
        )
    if not isinstance(axes or {}, Mapping):
        raise InvalidInputError(
            f"axes must be a table of names and default values, but got {axes!r}."
        )
    bounds = None
    if return_range is not None:
        if len(return_range) != 2 or not return_range[0] < return_range[1]:
            raise InvalidInputError(
                f"return_range must be [smallest, largest], but got {return_range!r}."
            )
        bounds = float(return_range[0]), float(return_range[1])
    tables = {name: _axis_table(name, value) for name, value in (axes or {}).items()}
    attributes = {n: t.pop("attribute") for n, t in tables.items() if "attribute" in t}
    ready = READY.get(env_id)
    if ready and not attributes and set(tables) <= {axis.name for axis in ready.axes}:
        found = [replace(axis, **tables.get(axis.name, {})) for axis in ready.axes]
        apply = "attributes"
    else:
        for name, table in tables.items():
            if "default" not in table:
                raise InvalidInputError(f"The axis {name!r} needs a default.")
        found = [ContextAxis(name, **table) for name, table in tables.items()]
    return GymnasiumSystem(
        env_id,
        found,
        apply=apply,
        attributes=attributes,
        arguments=dict(arguments or {}),
        horizon=horizon,
        n_episodes=n_episodes,
        episode_seed=episode_seed,
        workers=workers,
        return_range=bounds,
    )


def _axis_table(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"default": float(value)}
    known = [f.name for f in fields(ContextAxis) if f.name != "name"] + ["attribute"]
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"The axis {name!r} must be a default value or a table with some of "
            f"{', '.join(known)}, but got {value!r}."
        )
    for key in value:
        if key not in known:
            raise UnknownNameError(f"key of the axis {name}:", key, known)
    return dict(value)


def _set_attribute(physics: Any, path: str, value: Any) -> None:
    """Set an attribute that is there; a misspelt one would have no effect."""
    *way, last = path.split(".")
    for part in (*way, last):
        if not hasattr(physics, part):
            known = [name for name in dir(physics) if not name.startswith("_")]
            kind = type(physics).__name__
            raise UnknownNameError(f"attribute of {kind}", part, known)
        if part is not last:
            physics = getattr(physics, part)
    setattr(physics, last, value)


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
        act = _batched(policy, environments[0].action_space)
        # A function may have a memory: its episodes are played one after the other.
        at_once = 1 if act is None else side_by_side
        for first in range(0, len(episodes), at_once):
            some = slice(first, first + at_once)
            if act is None and hasattr(policy, "reset"):
                policy.reset()
            alone = act or (lambda seen, policy=policy: [policy(seen[0])])
            totals[i, some] = _play(system, environments, episodes[some], alone)
    for environment in environments:
        environment.close()
    return np.where(np.isnan(totals), -np.inf, totals)


def _play(
    system: GymnasiumSystem,
    environments: Sequence[Any],
    episodes: NDArray[np.int64],
    act: Callable[[list[Any]], Any],
) -> NDArray[np.float64]:
    """Return sums of rewards of some episodes that are stepped side by side."""
    seen = [
        environment.reset(seed=system.episode_seed + number)[0]
        for environment, number in zip(environments, episodes.tolist(), strict=False)
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


def _batched(policy: Any, space: Any) -> Callable[[list[Any]], Any] | None:
    """Return a function from observations to actions, None for a plain callable."""
    from gymnasium.spaces import Box

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
