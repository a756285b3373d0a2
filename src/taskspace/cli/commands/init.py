"""`taskspace init`: an experiment to start from, and what is built in."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from taskspace.cli.options import argument, as_command, option
from taskspace.cli.output import Answer, writable
from taskspace.errors import InvalidInputError, MissingExtraError, UnknownNameError
from taskspace.runs import builtin_experiments, load_experiment
from taskspace.systems import SYSTEMS
from taskspace.trainers import TRAINERS

EXAMPLES = (
    "taskspace init",
    "taskspace init plant.toml --from msd-lqr",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace init` may be told."""

    path: Path | None = argument(
        "File to write; without one, what is built in is listed.", None, metavar="FILE"
    )
    example: str | None = option("A built-in experiment to copy.", name="--from")


@as_command
def init(options: Options) -> Answer:
    """Write a commented experiment to start from; an existing file is kept.

    Without a file it lists the built-in systems, trainers and experiments.
    """
    path, example = options.path, options.example
    if path is None:
        built_in = {
            "systems": [_system(name) for name in SYSTEMS],
            "trainers": list(TRAINERS),
            "experiments": list(builtin_experiments()),
        }
        return Answer(built_in, _list(built_in))
    if path.suffix != ".toml":
        raise InvalidInputError(f"The file must end in .toml, but got {path.name}.")
    if path.exists():
        raise InvalidInputError(
            f"{path} exists; it was not changed. Name another file."
        )
    writable(path)
    if example is None:
        template = resources.files("taskspace.cli.commands") / "template.toml"
        text = template.read_text().replace("NAME", path.stem)
    elif example in builtin_experiments():
        folder = resources.files("taskspace.runs") / "experiments"
        text = (folder / f"{example}.toml").read_text()
    else:
        raise UnknownNameError("experiment", example, builtin_experiments())
    path.write_text(text)
    load_experiment(str(path))  # what is written can be run
    next_command = f"Next: taskspace doctor {path}, then taskspace run {path}"
    return Answer({"experiment": str(path)}, f"Wrote {path}\n{next_command}")


def _system(name: str) -> dict[str, Any]:
    """Describe a system, or say which extra it needs."""
    try:
        cls = SYSTEMS[name]
    except MissingExtraError as error:
        return {"id": name, "needs": str(error)}
    keys = ("name", "unit", "default", "bounds", "description")
    axes = [{key: getattr(axis, key) for key in keys} for axis in cls().axes]
    summary = (cls.__doc__ or "").strip().splitlines()[0]
    return {"id": name, "summary": summary, "axes": axes}


def _list(built_in: dict[str, Any]) -> str:
    """Return what is built in, and the next command, in words."""
    lines = []
    for system in built_in["systems"]:
        lines.append(f"{system['id']}: {system.get('summary') or system['needs']}")
        lines += [
            f"  {axis['name']} [{axis['unit']}], {axis['default']:g} by default, "
            f"{axis['bounds']}: {axis['description']}"
            for axis in system.get("axes", ())
        ]
    lines += [
        f"{kind.capitalize()}: {', '.join(built_in[kind])}"
        for kind in ("trainers", "experiments")
    ]
    return "\n".join([*lines, "Next: taskspace init plant.toml, or taskspace run msd"])
