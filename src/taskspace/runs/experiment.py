"""Experiments as TOML: what to train, where to try it, and what to ask of it.

An experiment is data. Reading one runs no code; `built_system` and `built_trainer`
import what it names, if `code` allows that (see `taskspace.runs.objects`).
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w

from taskspace._util.files import plain
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.work import Task
from taskspace.questions import Question
from taskspace.runs.objects import (
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
from taskspace.runs.specs import (
    CoverSpec,
    ScheduleSpec,
    SelectSpec,
    read_table,
)
from taskspace.spaces import Grid, Points, space_from_dict
from taskspace.systems import SYSTEMS, System
from taskspace.trainers import Trainer

DATA_KEYS = ("seed", "system", "space", "targets", "trainer")
"""What policies and table depend on; the rest only asks questions of them."""


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
        schedule: how to find interpolated schedules, if the file asks for them.
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
    schedule: ScheduleSpec | None = None
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
        if self.select is not None:
            self.select.check_selector()  # its code may be beside that of the system
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

    @property
    def own_code(self) -> str:
        """The code of your own that it names, in words."""
        names = [self.system.get("id"), self.trainer.get("id")]
        return " and ".join(str(name) for name in names if is_reference(name))

    @property
    def pinned_code(self) -> Code:
        """What a worker may import: the same code as this process."""
        return replace(self.code, key=self.code_key)

    @cached_property
    def sources(self) -> Grid | Points:
        """The source contexts."""
        return space_from_dict(self.space)

    @cached_property
    def target_space(self) -> Grid | Points:
        """The target contexts."""
        return self.sources if self.targets is None else space_from_dict(self.targets)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Everything that is asked of the table."""
        return self.ask

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that the criteria ask for."""
        asked = [demand for question in self.questions for demand in question.demands]
        return tuple(dict.fromkeys(demand.judge for demand in asked))

    @property
    def measures(self) -> tuple[str, ...]:
        """The scores beside J that the criteria read."""
        found = dict.fromkeys(d.measure for q in self.questions for d in q.demands)
        return tuple(name for name in found if name != "performance")

    def resolved(self) -> "Experiment":
        """Return the same experiment with every default written out."""
        values = self.to_dict()
        for key, built in (
            ("system", self.built_system),
            ("trainer", self.built_trainer),
        ):
            name = values[key]["id"]
            if not is_reference(name) or takes_settings(name, self.code):
                # TOML has no word for "none": a setting left out means the same.
                values[key] = {"id": name, **_for_toml(built.settings())}
        for key, space in (("space", self.sources), ("targets", self.target_space)):
            values[key] = _for_toml(space.to_dict())
        return Experiment.from_dict(values, code=self.code)

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
    def work_text(self) -> str:
        """The experiment as TOML for workers, which cover nothing.

        They may not know a cover method that was defined in the main process.
        """
        return replace(self, cover=CoverSpec()).to_toml()

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
        tables = ("system", "space", "trainer", "targets", "cover", "select")
        for key in (*tables, "schedule"):
            if not isinstance(values.get(key, {}), Mapping):
                raise InvalidInputError(
                    f"{key} must be a table ([{key}]), but got {values[key]!r}."
                )
        cover = dict(values.get("cover", {}))
        if isinstance(cover.get("methods"), str):
            cover["methods"] = [cover["methods"]]
        return cls(
            name=str(values["name"]),
            seed=seed,
            ask=_questions(values["ask"]),
            system=dict(values["system"]),
            space=dict(values["space"]),
            trainer=dict(values["trainer"]),
            targets=dict(values["targets"]) if "targets" in values else None,
            cover=read_table("[cover]", cover, CoverSpec),
            select=read_table("[select]", values["select"], SelectSpec)
            if "select" in values
            else None,
            schedule=read_table("[schedule]", values["schedule"], ScheduleSpec)
            if "schedule" in values
            else None,
            code=Code() if code is None else code,
        )


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
    _assign(values, keys, value, path)


def _assign(level: Any, keys: Sequence[str], value: Any, path: str) -> None:
    """Set `level[keys[0]][keys[1]]… = value`; a list without a number means each."""
    key, *rest = keys
    if isinstance(level, list):
        if not key.isdigit():
            for item in level:
                _assign(item, keys, value, path)
            return
        items, place = level, int(key)
        if place >= len(items):
            raise InvalidInputError(
                f"--set {path}: there are only {len(items)} entries before {key}."
            )
        if rest:
            _assign(items[place], rest, value, path)
        else:
            items[place] = value
    elif isinstance(level, dict):
        if rest:
            _assign(level.setdefault(key, {}), rest, value, path)
        else:
            level[key] = value
    else:
        raise InvalidInputError(f"--set {path}: what stands before {key} is a value.")


def _for_toml(value: Any) -> Any:
    """Plain values; TOML has infinities, and no None."""
    return plain(value, nonfinite="keep", without_none=True)
