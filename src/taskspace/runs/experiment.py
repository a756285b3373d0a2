"""Experiments as TOML: what to train, where to try it, and what to ask of it.

An experiment is data. Reading one runs no code; `built_system` and `built_trainer`
import what it names, if `code` allows that (see `taskspace.runs.code`).
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np
import tomli_w

from taskspace._util.files import plain
from taskspace.cover import METHODS
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.work import Task
from taskspace.questions import Question
from taskspace.runs.code import (
    Code,
    build_system,
    build_trainer,
    check_keys,
    code_key,
    is_reference,
    needs_trust,
    takes_settings,
)
from taskspace.runs.opening import is_in_a_run
from taskspace.selection.loop import Options
from taskspace.spaces import Grid, Points, space_from_dict
from taskspace.systems import SYSTEMS, System
from taskspace.trainers import Trainer

T = TypeVar("T")

DATA_KEYS = ("seed", "system", "space", "targets", "trainer")
"""What policies and table depend on; the rest only asks questions of them."""


@dataclass(frozen=True)
class CoverSpec:
    """How to cover.

    Args:
        methods: names of cover methods.
        n_repeats: random selections, for the spread of the `random` method.
        time_limit: processor seconds for each of the searches that can go on for ever.
    """

    methods: tuple[str, ...] = ("greedy", "uniform", "random")
    n_repeats: int = 100
    time_limit: float = 30.0

    def __post_init__(self):
        for method in self.methods:
            if method not in METHODS:
                raise UnknownNameError("cover method", method, METHODS)
        if self.n_repeats < 1:
            raise InvalidInputError(
                f"cover.n_repeats >= 1 must hold, but got {self.n_repeats}."
            )
        if not 0 < self.time_limit < np.inf:
            raise InvalidInputError(
                f"cover.time_limit > 0 must hold, but got {self.time_limit}."
            )


@dataclass(frozen=True)
class SelectSpec(Options):
    """How to choose what to train, for `taskspace select`.

    Args:
        selector: name of a selector; if left out `noisy` for trainers that learn,
            `coverage` for others.
        candidates: `"box"` for any point of the box; the space if left out.
        reference: the best performance there is, as stated, that regret is against.
    """

    selector: str | None = None
    candidates: str | None = None
    reference: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.candidates not in (None, "box"):
            raise InvalidInputError(
                f"select.candidates must be 'box', but got {self.candidates!r}."
            )


@dataclass(frozen=True)
class Experiment:
    """A whole experiment, as plain values that round-trip through TOML.

    Args:
        name: what to call it; also the name of its run directory.
        seed: seed of the trainer.
        system: `id` of a built-in system, `gymnasium:Pendulum-v1` for an environment
            of Gymnasium, or `package.module:object` for one of your own, and its
            settings.
        space: axes of the source grid, `name = [low, high, n]`, or `names` and
            `points`.
        trainer: `id` of a built-in trainer, or `package.module:object`, and its
            settings.
        ask: the questions, one cover by each method for each of them.
        targets: axes of the target grid; the sources if left out.
        cover: how to cover.
        select: how to choose what to train, if the file says so.
        code: whether code that it names may be imported, and from where.
    """

    name: str
    seed: int
    ask: tuple[Question, ...]
    system: dict[str, Any]
    space: dict[str, Any]
    trainer: dict[str, Any]
    targets: dict[str, Any] | None = None
    cover: CoverSpec = field(default_factory=CoverSpec)
    select: SelectSpec | None = None
    code: Code = field(default_factory=Code, compare=False, repr=False)

    def __post_init__(self):
        plain_name = self.name.isprintable() and not set(self.name) & set("/\\[]")
        if not plain_name or self.name.strip(". ") == "":
            raise InvalidInputError(
                "The name of an experiment must be plain text without / \\ [ ], "
                f"because its run directory is called so, but got {self.name!r}."
            )
        if not self.ask:
            raise InvalidInputError("An experiment asks at least one question.")
        _ = self.sources, self.target_space

    def checked(self) -> "Experiment":
        """Build all of an experiment, so that a mistake shows now, and return it."""
        self.built_system.contexts(self.sources)
        self.built_system.contexts(self.target_space)
        _ = self.built_trainer
        if self.select is not None and self.select.selector is not None:
            from taskspace.selection import SELECTORS  # with those of the user's code

            if self.select.selector not in SELECTORS:
                raise UnknownNameError("selector", self.select.selector, SELECTORS)
        return self

    @cached_property
    def built_system(self) -> System:
        """The system."""
        return build_system(self.system, self.code)

    @cached_property
    def built_trainer(self) -> Trainer:
        """The trainer."""
        return build_trainer(self.trainer, self.code)

    def task(self, keep: tuple[str, ...] = ()) -> Task:
        """Return what is trained, and where it is tried.

        Args:
            keep: variables of the table.
        """
        targets = self.built_system.contexts(self.target_space)
        return Task(self.built_system, self.built_trainer, targets, self.seed, keep)

    @property
    def names_code(self) -> bool:
        """Whether the system or the trainer is code, or arguments, of your own."""
        return needs_trust(self.system) or needs_trust(self.trainer)

    @cached_property
    def code_key(self) -> str:
        """What stands for the code of your own that it names; empty if none."""
        return code_key([self.system.get("id"), self.trainer.get("id")], self.code)

    @cached_property
    def sources(self) -> Grid | Points:
        """The source contexts."""
        return space_from_dict(self.space)

    @cached_property
    def target_space(self) -> Grid | Points:
        """The target contexts."""
        return self.sources if self.targets is None else space_from_dict(self.targets)

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that the criteria ask for."""
        asked = [demand for question in self.ask for demand in question.demands]
        return tuple(dict.fromkeys(demand.judge for demand in asked))

    @property
    def measures(self) -> tuple[str, ...]:
        """The scores beside J that the criteria read."""
        found = dict.fromkeys(d.measure for q in self.ask for d in q.demands)
        return tuple(name for name in found if name != "performance")

    def resolved(self) -> "Experiment":
        """Return the same experiment with every default written out."""
        changes = {}
        for key, built in (
            ("system", self.built_system),
            ("trainer", self.built_trainer),
        ):
            name = getattr(self, key)["id"]
            if not is_reference(name) or takes_settings(name, self.code):
                # TOML has no word for "none": a setting left out means the same.
                changes[key] = {"id": name, **_for_toml(built.settings())}
        for key, space in (("space", self.sources), ("targets", self.target_space)):
            changes[key] = _for_toml(space.to_dict())
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: dicts, lists, strings and numbers."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        del values["code"]
        values["ask"] = [str(question) for question in self.ask]
        return _for_toml(values)

    def to_toml(self) -> str:
        """Return the experiment as TOML, which `from_toml` reads back."""
        return tomli_w.dumps(self.to_dict())

    @property
    def for_workers(self) -> tuple[str, Code]:
        """The experiment as TOML, and that they may import the code of this process.

        Workers cover nothing, and may not know a method that this process defined.
        """
        text = replace(self, cover=CoverSpec()).to_toml()
        return text, replace(self.code, key=self.code_key)

    @classmethod
    def from_toml(
        cls, text: str, *, origin: str = "the experiment", code: Code | None = None
    ) -> "Experiment":
        """Read an experiment back that was stored.

        Args:
            text: TOML, as `to_toml` writes it.
            origin: what to call it in messages.
            code: what it may import.
        """
        values = parse_toml(text, origin)
        return cls.from_dict(values, code=code)

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], *, code: Code | None = None
    ) -> "Experiment":
        """Build an experiment from plain values, naming what is wrong.

        Args:
            values: as in a TOML file.
            code: what it may import.
        """
        if "criteria" in values:
            raise InvalidInputError(
                "[[criteria]] is no table of an experiment any more: write the "
                'question at the top of the file, e.g. ask = "regret <= 0.2", or a '
                "list of questions."
            )
        known = [f.name for f in fields(cls) if f.name != "code"]
        check_keys("experiment", values, known)
        missing = [
            key
            for key in ("name", "seed", "ask", "system", "space", "trainer")
            if key not in values
        ]
        if missing:
            raise InvalidInputError(
                f"An experiment needs the keys {', '.join(missing)}, which are missing."
            )
        seed = values["seed"]
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidInputError(f"seed must be an integer >= 0, but got {seed!r}.")
        for key in ("system", "space", "trainer", "targets", "cover", "select"):
            if not isinstance(values.get(key, {}), Mapping):
                raise InvalidInputError(
                    f"{key} must be a table ([{key}]), but got {values[key]!r}."
                )
        return cls(
            name=str(values["name"]),
            seed=seed,
            ask=_questions(values["ask"]),
            system=dict(values["system"]),
            space=dict(values["space"]),
            trainer=dict(values["trainer"]),
            targets=dict(values["targets"]) if "targets" in values else None,
            cover=_read_table({"cover": {}, **values}, "cover", CoverSpec),
            select=_read_table(values, "select", SelectSpec)
            if "select" in values
            else None,
            code=Code() if code is None else code,
        )


def _read_table(values: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """Return a table of an experiment as a dataclass, or raise a sentence."""
    kinds, where = get_type_hints(kind), f"[{key}]"
    check_keys(where, values[key], list(kinds))
    converted = {}
    for name, value in values[key].items():
        try:
            converted[name] = msgspec.convert(value, kinds[name])
        except msgspec.ValidationError as error:
            said = str(error).partition(" - at ")[0]
            raise InvalidInputError(
                f"{name} of {where} has a value of a wrong type, {value!r}: {said}."
            ) from None
    return kind(**converted)


def _questions(texts: Any) -> tuple[Question, ...]:
    """Return the questions of an experiment, which states one or a list of them."""
    several = [texts] if isinstance(texts, str) else texts
    if not isinstance(several, list | tuple) or not all(
        isinstance(text, str) for text in several
    ):
        raise InvalidInputError(
            'ask must be a question or a list of questions, e.g. ask = "regret <= '
            f'0.2", but got {texts!r}.'
        )
    questions = tuple(map(Question, several))
    for question in questions:
        if question.epsilon is None:
            raise InvalidInputError(
                f"A question of an experiment must have a bound, e.g. '{question} <= "
                f"0.2', but got {str(question)!r}."
            )
    return questions


def builtin_experiments() -> list[str]:
    """Names of the experiments that come with taskspace."""
    folder = resources.files("taskspace.runs") / "experiments"
    names = [item.name for item in folder.iterdir() if item.name.endswith(".toml")]
    return sorted(name.removesuffix(".toml") for name in names)


def load_experiment(
    name: str, overrides: Sequence[str] = (), *, trust: bool = False
) -> Experiment:
    """Return an experiment by name or from a file, with some values replaced.

    A file of your own may name code (`package.module:object`), which is imported. A
    file in a run directory may come from anyone: what it names is imported only with
    `trust`.

    Args:
        name: a built-in experiment, or the path of a TOML file.
        overrides: `a.b=value` each, the value in TOML. `space.n=5` sets the number
            of points on every axis; `ask=regret <= 0.1` replaces the questions.
        trust: import what an experiment in a run directory names.
    """
    path = Path(name)
    code = Code()
    if path.suffix == ".toml" or path.is_file():
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"Cannot read {path}: {error}.") from error
        code = Code(trust or not is_in_a_run(path), (path.parent,))
    elif name in builtin_experiments():
        folder = resources.files("taskspace.runs") / "experiments"
        text = (folder / f"{name}.toml").read_text()
    else:
        raise UnknownNameError("experiment", name, builtin_experiments())
    values = parse_toml(text, str(name))
    for override in overrides:
        _override(values, override)
    return Experiment.from_dict(values, code=code).checked()


def named_system(name: str, *, trust: bool = False) -> tuple[System, Experiment | None]:
    """Return the system that a word names, and the experiment that it comes from.

    Args:
        name: a system, `package.module:object`, or an experiment.
        trust: import what an experiment in a run directory names.
    """
    if Path(name).suffix == ".toml" or name in builtin_experiments():
        experiment = load_experiment(name, trust=trust)
        return experiment.built_system, experiment
    if name not in SYSTEMS and ":" not in name:
        raise UnknownNameError("system", name, [*SYSTEMS, *builtin_experiments()])
    return build_system({"id": name}), None


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """TOML as plain values, or a sentence about what is wrong with it.

    Args:
        text: the text.
        origin: where it is from, for the sentence.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{origin} is not valid TOML: {error}.") from error


def _override(values: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise InvalidInputError(
            f"--set needs key=value, e.g. trainer.noise=0.2, but got {override!r}."
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()
    if keys[-1] == "n" and keys[0] in ("space", "targets") and len(keys) == 2:
        for axis in values.get(keys[0], {}).values():
            if isinstance(axis, list) and len(axis) >= 3:
                axis[2] = value
        return
    level: Any = values
    for key in keys[:-1]:
        level = level.setdefault(key, {}) if isinstance(level, dict) else None
    if not isinstance(level, dict):
        before = ".".join(keys[:-1])
        raise InvalidInputError(f"--set {path}: {before} is a value, not a table.")
    level[keys[-1]] = value


def _for_toml(value: Any) -> Any:
    """Plain values; TOML has infinities, and no None."""
    return plain(value, nonfinite="keep", without_none=True)
