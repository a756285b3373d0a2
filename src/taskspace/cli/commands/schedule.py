"""`taskspace schedule`: the fewest breakpoints of an interpolated schedule."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from taskspace.cli.options import Asking, Reading, argument, as_command, option
from taskspace.cli.output import Answer, figure_file, stage_progress, writable
from taskspace.schedules import Schedule
from taskspace.schedules import schedule as find_schedule

EXAMPLES = (
    "taskspace schedule runs/msd-lqr --ask 'regret <= 0.2' --save table.json",
    "taskspace schedule runs/msd-lqr --ask 'ratio <= 5 %' --plot schedule.png",
)


@dataclass(frozen=True)
class Options:
    """The options of `taskspace schedule`, without the question and the reading."""

    path: Path = argument("A run of linear gains or PI or PID controllers on a grid.")
    table: Path | None = option("Shorten this schedule, a file that --save wrote.")
    save: Path | None = option("Write the schedule here, as JSON.")
    plot: Path | None = option("Draw losses and breakpoints here: .png, .pdf or .svg.")


@as_command
def schedule(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Find the fewest breakpoints between which gains are interpolated."""
    figure_file(options.plot)
    writable(options.save)
    question = asking.question(options.path)
    table = None if options.table is None else Schedule.load(options.table)
    with stage_progress() as report:
        study = reading.study(options.path)
        found = find_schedule(study, question, table=table, progress=report)
    if options.save is not None:
        found.save(options.save)
    if options.plot is not None:
        from taskspace.show import schedule as draw  # matplotlib loads slowly

        draw(study, found).savefig(options.plot, dpi=200)
    saved = options.save or Path("table.json")
    words = ["taskspace", "certify", str(options.path), "--ask", str(question)]
    words += ["--read", reading.read] if reading.read else []
    first = "" if options.save else "--save table.json, then "
    again = shlex.join([*words, "--schedule", str(saved)])
    return Answer(found, f"{found}\nNext: {first}{again}")
