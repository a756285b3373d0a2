"""`taskspace design`: the fewest gains of any design, with a bound over all of them."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskspace._util.files import plain, write_atomically
from taskspace.certificates import certify
from taskspace.cli.options import (
    Asking,
    OverridesOption,
    SeedOption,
    TrustOption,
    argument,
    as_command,
    option,
)
from taskspace.cli.output import (
    Answer,
    figure_file,
    search_progress,
    stage_progress,
    writable,
)
from taskspace.designs import design as design_gains
from taskspace.designs.problem import can_design
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import builtin_experiments, load_experiment
from taskspace.runs.opening import open_study

EXAMPLES = (
    "taskspace design msd-lqr --ask 'regret <= 0.5' --certify",
    "taskspace design runs/msd-lqr --k 2 --save gains.json",
)


@dataclass(frozen=True)
class Options:
    """The options of `taskspace design`."""

    path: str = argument(
        "A run, a TOML file, or a built-in experiment (msd, ...).",
        metavar="PATH|FILE|NAME",
    )
    k: int | None = option("Number of gains; finds the smallest ε they reach.")
    certify: bool = option(
        "Design for the whole box, and prove the gains there.", False
    )
    save: Path | None = option("Write the gains here, as JSON.")
    plot: Path | None = option("Draw gains of two entries here: .png, .pdf or .svg.")
    overrides: OverridesOption = None
    time_limit: float = option("Processor seconds.", 60.0)
    seed: SeedOption = 0
    trust: TrustOption = False


@as_command
def design(options: Options, asking: Asking) -> Answer:
    """Design the fewest static gains that serve a range, and bound their number.

    The bound holds over all gains there are, not over candidates.
    """
    figure_file(options.plot)
    writable(options.save)
    known, space, question = _task(options, asking)
    limits: Any = {"time_limit": options.time_limit, "seed": options.seed}
    proof = None
    with stage_progress() as report:
        made = design_gains(
            known,
            space,
            question,
            k=options.k,
            whole=options.certify and options.k is None,
            progress=search_progress(report, options.time_limit, ""),
            **limits,
        )
        if options.certify:
            chosen: Any = {"selection": range(made.size), "progress": report}
            proofs = certify(made.study, made.question, **chosen, **limits)
            proof = proofs["continuum cover"]
    record = made.to_dict()
    if proof is not None:
        record["certificate"] = proof.to_dict()
    if options.save is not None:
        write_atomically(options.save, json.dumps(plain(record)) + "\n")
    if options.plot is not None:
        from taskspace.show import gains  # matplotlib loads slowly

        gains(made).savefig(options.plot, dpi=200)

    if proof is not None:
        mark = "proven" if proof.holds else "not proven"
        return Answer(record, f"{made}\nWhole box: {mark}. {proof.why}")
    words = ["taskspace", "design", options.path, "--ask", str(made.question)]
    for value in options.overrides or ():
        words += ["--set", value]
    return Answer(record, f"{made}\nNext: {shlex.join([*words, '--certify'])}")


def _task(options: Options, asking: Asking) -> tuple[Any, Any, Question]:
    """Return a study or a system, the targets of a system, and what is asked."""
    path = Path(options.path)
    is_run = path.exists() or options.path not in builtin_experiments()
    if path.suffix != ".toml" and is_run:
        if options.overrides:
            raise InvalidInputError("--set is for an experiment, but this is a run.")
        question = asking.question(path, needs_bound=options.k is None)
        return open_study(path, trust=options.trust), None, question
    asked = load_experiment(options.path, options.overrides or (), trust=options.trust)
    system = asked.built_system
    own = [question for question in asked.ask if can_design(system, question)]
    question = next(iter(own), asked.ask[0].as_regret())
    if asking.ask is not None:
        question = Question(asking.ask)
    return system, asked.target_space, question
