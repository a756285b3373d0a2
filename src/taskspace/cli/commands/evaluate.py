"""`taskspace evaluate`: a library on trial, compared with what one could do instead."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from taskspace.cli.options import SeedOption, TrustOption, argument, as_command, option
from taskspace.cli.output import Answer, progress_console
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
    record = {
        "library": str(options.folder),
        "system": options.system,
        "seed": options.seed,
        "noise": options.noise,
        "guarantee": library.guarantee.to_dict(),
        **trial.to_dict(),
    }
    return Answer(record, _words(trial, library.guarantee, options.noise), trial.notes)


def _system(options: Options) -> tuple[System, Any]:
    """Return the system, and the first policy of each source where a run has some."""
    if not is_run(options.system):
        return named_system(options.system, trust=options.trust)[0], None
    study = open_study(options.system, trust=options.trust)
    pool, space = None, study.sources
    if study.policies is not None and space is not None:
        pool = Points(space.names, space.points), study.policies[:, 0]
    return study.require_system(), pool


def _words(trial: Trial, guarantee: Guarantee, noise: float) -> str:
    """Return how the library did, and the alternatives as a table."""
    word = "estimate" if guarantee.kind == "estimate" else "guarantee"
    said = ["! " * failed + text for failed, text in trial.sentences(word)]
    rows = [
        {
            "": one.name,
            "n": str(one.n_policies or "–"),
            "mean J": _number(one.mean_performance, 4),
            "loss %": _number(one.mean_percent, 3),
            "worst %": _number(one.worst_percent, 3),
            "failed %": _number(100 * one.failed, 3),
            "≤ ε %": _number(one.within and 100 * one.within, 4),
        }
        for one in trial.contenders
    ]
    table = pd.DataFrame(rows).to_string(index=False)
    about = (
        f"n: policies. Means of {trial.n_contexts:,} contexts drawn, worst of "
        f"{trial.n_compared:,} tried (with corners and nodes); losses against "
        f"{trial.reference}; noise of the measured context {noise:g}."
    )
    head = f"{guarantee.kind.capitalize()}: {guarantee.statement}"
    return "\n".join([*said, head, table, about])


def _number(value: float | None, digits: int) -> str:
    """Return a number for the table; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}g}"
