"""`taskspace profile`: complexity against the tolerance."""

from dataclasses import dataclass
from pathlib import Path

from taskspace.cli.options import Asking, Reading, argument, as_command, option
from taskspace.cli.output import Answer, figure_file, stage_progress
from taskspace.cover import complexity_profile
from taskspace.questions import Question

EXAMPLES = (
    "taskspace profile scores.csv",
    "taskspace profile runs/msd-lqr --ask regret --at 0.1,0.2",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace profile` may be told beside the question and the reading."""

    path: Path = argument("A run or a matrix file.")
    at: str | None = option(
        "Tolerances or levels, e.g. 0.1,0.2. Chosen from the losses if left out."
    )
    time_limit: float = option("Processor seconds for all of it.", 60.0)
    plot: Path | None = option("Draw the profile here: .png, .pdf or .svg.")


@as_command
def profile(options: Options, asking: Asking, reading: Reading) -> Answer:
    """How many sources each tolerance needs: lower bound, best found, greedy."""
    figure_file(options.plot)
    question = asking.question(options.path, needs_bound=False)
    if asking.ask is None:
        question = question.at(None)  # the run's own bound is for covers
    epsilons = None
    if options.at is not None:
        epsilons = [_epsilon(question, word) for word in options.at.split(",")]
    with stage_progress() as report:
        report("load", 0, 1)
        study = reading.study(options.path)
        question.table_of(study)  # reads it
        report("load", 1, 1)
        points = complexity_profile(
            study,
            question,
            epsilons=epsilons,
            time_limit=options.time_limit,
            progress=report,
        )
    if options.plot is not None:
        from taskspace.show import profile as draw  # matplotlib loads slowly

        draw(study, question, points=points).savefig(options.plot, dpi=200)
    return Answer(points, points, study.notes)


def _epsilon(question: Question, word: str) -> float:
    """Return the tolerance that a word of `--at` states: a tolerance, or a level."""
    sign = ">=" if ">=" in question.rule.demand(0.0) else "<="
    asked = Question(f"{question.rule.text} {sign} {word}")
    assert asked.epsilon is not None
    return asked.epsilon
