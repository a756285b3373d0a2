"""`taskspace evaluate`: a library on trial, compared with what one could do instead."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskspace.cli.options import SeedOption, TrustOption, argument, as_command, option
from taskspace.cli.output import (
    Answer,
    console,
    number,
    percent,
    progress_console,
    show_notes,
    show_table,
    shown,
    warn,
)
from taskspace.deploy import PolicyLibrary, Trial, try_library
from taskspace.deploy.base import Guarantee
from taskspace.runs.experiment import named_system
from taskspace.runs.opening import is_run, open_study
from taskspace.spaces import Points
from taskspace.systems import System

EXAMPLES = (
    "taskspace evaluate library msd-v1",
    "taskspace evaluate library runs/msd-lqr --noise 0.05",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace evaluate` may be told."""

    folder: Path = argument("What `taskspace export` wrote.", metavar="LIBRARY")
    system: str = argument(
        "A system (msd-v1, ...), package.module:object, an experiment or a run; "
        "policies of a run make uniform and random libraries.",
        metavar="SYSTEM",
    )
    contexts: int = option(
        "Contexts to draw; corners and nodes are tried in addition.", 1000
    )
    noise: float = option("Of the measured context, share of each axis' width.", 0.0)
    seed: SeedOption = 0
    trust: TrustOption = False


@as_command
def evaluate(options: Options) -> Answer:
    """Try a library off its grid, with noise, and compare it with the alternatives.

    Says how often the guarantee applied and held, and what one policy, a uniform or
    random library, interpolated gains and the optimum of each context do.
    """
    library = PolicyLibrary.load(options.folder)
    with progress_console.status("play"):
        system, pool = _system(options)
        trial = try_library(
            library,
            system,
            n_contexts=options.contexts,
            seed=options.seed,
            noise=options.noise,
            pool=pool,
        )
    return Answer(
        lambda: {
            "library": str(options.folder),
            "system": options.system,
            "seed": options.seed,
            "noise": options.noise,
            "guarantee": library.guarantee.to_dict(),
            **trial.to_dict(),
        },
        lambda: _show(trial, library.guarantee, options.noise),
    )


def _system(options: Options) -> tuple[System, Any]:
    """Return the system, and the first policy of each source where a run has some."""
    if not is_run(options.system):
        return named_system(options.system, trust=options.trust)[0], None
    study = open_study(options.system, trust=options.trust)
    pool, space = None, study.sources
    if study.policies is not None and space is not None:
        pool = Points(space.names, space.points), study.policies[:, 0]
    return study.require_system(), pool


def _show(trial: Trial, guarantee: Guarantee, noise: float) -> None:
    """Print how the library did, and the alternatives."""
    console.print(f"{guarantee.kind.capitalize()}: {shown(guarantee.statement)}")
    show_table(
        ("", "n", "mean J", "loss", "worst", "failed", "≤ ε"),
        [
            [
                one.name,
                str(one.n_policies) if one.n_policies else "–",
                number(one.mean_performance),
                f"{number(one.mean_percent, 3)} %",
                f"{number(one.worst_percent, 3)} %",
                percent(one.failed, 3),
                "–" if one.within is None else percent(one.within),
            ]
            for one in trial.contenders
        ],
        title=f"n policies; means of {trial.n_contexts:,} contexts drawn, worst of "
        f"{trial.n_compared:,} tried (with corners and nodes); losses against "
        f"{trial.reference}; noise of the measured context {noise:g}",
    )
    word = "estimate" if guarantee.kind == "estimate" else "guarantee"
    for is_failure, sentence in trial.sentences(word):
        (warn if is_failure else console.print)(sentence)
    show_notes(trial.notes)
