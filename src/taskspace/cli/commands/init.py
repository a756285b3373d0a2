"""`taskspace init`: an experiment to start from."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from taskspace.cli.options import argument, as_command, option
from taskspace.cli.output import Answer, console
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.runs import builtin_experiments, load_experiment

EXAMPLES = (
    "taskspace init",
    "taskspace init plant.toml",
)

TEMPLATE = """\
# An experiment: which few sources serve all targets?
#   taskspace run {name}.toml
# Any value can be replaced without touching the file: --set space.n=5

name = "{name}"
seed = 0                        # of everything random

[system]
id = "msd-v1"                   # `taskspace systems` lists what is built in
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

[[criteria]]
criterion = "regret"            # signed, regret, ratio, floor
judge = "worst"                 # or "best": which policy of a source counts
epsilon = [0.1, 0.2]            # one cover each

[cover]
methods = ["greedy", "minimum", "uniform", "random"]
n_repeats = 100                 # random selections
time_limit = 10.0               # seconds for each search by local or minimum
"""


@dataclass(frozen=True)
class Options:
    """What `taskspace init` may be told."""

    path: Path = argument("File to write.", Path("experiment.toml"), metavar="FILE")
    example: str | None = option("A built-in experiment to copy.", name="--from")


@as_command
def init(options: Options) -> Answer:
    """Write a commented experiment to start from; an existing file is kept."""
    path, example = options.path, options.example
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
