"""`taskspace init`: an experiment to start from, and what is built in."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from taskspace.cli.options import argument, as_command, option
from taskspace.cli.output import Answer, console, show_table, shown
from taskspace.errors import InvalidInputError, MissingExtraError, UnknownNameError
from taskspace.runs import builtin_experiments, load_experiment
from taskspace.systems import SYSTEMS
from taskspace.trainers import TRAINERS

EXAMPLES = (
    "taskspace init",
    "taskspace init plant.toml --from msd-lqr",
)

TEMPLATE = """\
# An experiment: which few sources serve all targets?
#   taskspace run {name}.toml
# Any value can be replaced without touching the file: --set space.n=5

name = "{name}"
seed = 0                        # of everything random
# One cover by each method for each question: "regret <= 0.2", "ratio <= 10 %",
# "score >= 475"; add "best" if the best policy of a source counts, not the worst.
ask = ["regret <= 0.1", "regret <= 0.2"]

[system]
id = "msd-v1"                   # `taskspace init` lists what is built in
# id = "my_module:my_system"    # or a system of your own; see docs/bring-your-own.md
# horizon = 20.0                # further keys are settings of the system

[space]                         # the sources: name = [low, high, points]
k = [0.1, 8.0, 12]
c = [0.1, 8.0, 12]              # [0.1, 8.0, 12, "log"] for equal ratios

# [targets]                     # where policies are tried; the sources if left out
# k = [0.1, 8.0, 40]

[trainer]
id = "lqr"                      # lqr, ppo, sb3, or "my_module:my_trainer"
n_policies = 3                  # members of the family of each source
noise = 0.1                     # further keys are settings of the trainer

[cover]
methods = ["greedy", "minimum", "uniform", "random"]
n_repeats = 100                 # random selections
time_limit = 10.0               # seconds for each search by local or minimum
"""


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
        return Answer(lambda: built_in, lambda: _list(built_in))
    if path.suffix != ".toml":
        raise InvalidInputError(f"The file must end in .toml, but got {path.name}.")
    if path.exists():
        raise InvalidInputError(
            f"{path} exists; it was not changed. Name another file."
        )
    if not path.parent.is_dir():
        raise InvalidInputError(f"The directory {path.parent} does not exist.")
    if example is None:
        text = TEMPLATE.format(name=path.stem)
    elif example in builtin_experiments():
        folder = resources.files("taskspace.runs") / "experiments"
        text = (folder / f"{example}.toml").read_text()
    else:
        raise UnknownNameError("experiment", example, builtin_experiments())
    path.write_text(text)
    load_experiment(str(path))  # what is written can be run

    def show() -> None:
        console.print(f"Wrote {path}")
        console.print(f"Next: taskspace doctor {path}, then taskspace run {path}")

    return Answer(lambda: {"experiment": str(path)}, show)


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


def _list(built_in: dict[str, Any]) -> None:
    """Print what is built in, and the next command."""
    columns = ("axis", "unit", "default", "bounds", "meaning")
    for system in built_in["systems"]:
        if "needs" in system:
            console.print(f"[bold]{system['id']}[/bold]  {shown(system['needs'])}")
            continue
        rows = [
            (a["name"], a["unit"], f"{a['default']:g}", a["bounds"], a["description"])
            for a in system["axes"]
        ]
        title = f"[bold]{system['id']}[/bold]  {system['summary']}"
        show_table(columns, rows, title=title, texts=columns)
    console.print(f"Trainers: {', '.join(built_in['trainers'])}")
    console.print(f"Experiments: {', '.join(built_in['experiments'])}")
    console.print("Next: taskspace init plant.toml, or taskspace run msd")
