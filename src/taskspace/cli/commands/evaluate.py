"""`taskspace evaluate`: a library on trial, beside what one could do instead."""

from dataclasses import dataclass
from pathlib import Path

from taskspace.cli.options import (
    SeedOption,
    TrustOption,
    argument,
    as_command,
    option,
)
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
from taskspace.deploy import (
    PolicyLibrary,
    Trial,
    load_library,
    try_library,
)
from taskspace.deploy.trial import Contender
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
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
        "A system (msd-v1, ...), package.module:object, an experiment or a run.",
        metavar="SYSTEM",
    )
    contexts: int = option(
        "Contexts to draw; corners and nodes are tried beside them.", 1000
    )
    noise: float = option("Of the measured context, share of each axis' width.", 0.0)
    run: Path | None = option(
        "A run whose policies make uniform and random libraries; linear systems "
        "need none."
    )
    seed: SeedOption = 0
    trust: TrustOption = False


@as_command
def evaluate(options: Options) -> Answer:
    """Try a library off its grid, with noise, beside the alternatives.

    Says how often the guarantee applied and held, and what one policy, a uniform or
    random library, interpolated gains and the optimum of each context do.
    """
    library = load_library(options.folder)
    with progress_console.status("play"):
        trial = try_library(
            library,
            _system(options.system, options.trust),
            n_contexts=options.contexts,
            seed=options.seed,
            noise=options.noise,
            pool=None if options.run is None else _pool(options.run, options.trust),
        )
    return Answer(
        lambda: {
            "library": str(options.folder),
            "system": options.system,
            "guarantee": library.guarantee.to_dict(),
            **trial.to_dict(),
        },
        lambda: _show(trial, library),
    )


def _system(name: str, trust: bool) -> System:
    """Return the system that a word names."""
    if is_run(name):
        return open_study(name, trust=trust).require_system()
    return named_system(name, trust=trust)[0]


def _pool(run: Path, trust: bool) -> tuple[Points, Policy]:
    """Return the contexts of a run's sources and the first policy of each."""
    study = open_study(run, trust=trust)
    policies, space = study.policies, study.sources
    if policies is None or space is None:
        raise InvalidInputError(
            f"{run} has no policies with contexts for all its sources. Give a run: "
            "taskspace run EXPERIMENT"
        )
    return Points(space.names, space.points), policies[:, 0]


def _show_spread(one: Contender) -> None:
    low, high = one.spread["mean_performance"]
    least, most = one.spread["worst_percent"]
    console.print(
        f"{one.name.capitalize()}: the one in the middle of {one.n_repeats}; mean J "
        f"from {number(low)} to {number(high)}, worst loss from {number(least, 3)} % "
        f"to {number(most, 3)} %."
    )


def _show_errors(trial: Trial) -> None:
    """Print what measurements at the ends of the error did."""
    if trial.n_measured:
        mark = "[red]![/red] " if trial.n_broken else ""
        broken = f"broken at {trial.n_broken:,}" if trial.n_broken else "kept at all"
        console.print(
            f"{mark}Measured at the ends of the error, {trial.n_measured:,} guaranteed "
            f"contexts: {broken} of them."
        )


def _show(trial: Trial, library: PolicyLibrary) -> None:
    """Print how the library did, beside the alternatives."""
    guarantee = library.guarantee
    status = f"{guarantee.status.name.capitalize()}: " if guarantee.speaks else ""
    console.print(f"{status}{shown(guarantee.statement)}")
    show_table(
        ("", "n", "mean J", "loss", "worst", "failed", "≤ ε"),
        [_cells(one) for one in trial.contenders],
        title=f"n policies; means of {trial.n_contexts:,} contexts drawn, worst of "
        f"{trial.n_compared:,} tried (with corners and nodes); losses against "
        f"{trial.reference}",
    )
    for one in trial.contenders:
        if one.spread:
            _show_spread(one)
    _show_guarantee(trial, "estimate" if guarantee.kind == "estimate" else "guarantee")
    _show_errors(trial)
    if trial.line:
        console.print(trial.line)
    show_notes(trial.notes)


def _cells(one: Contender) -> list[str]:
    return [
        one.name,
        str(one.n_policies) if one.n_policies else "–",
        number(one.mean_performance),
        f"{number(one.mean_percent, 3)} %",
        f"{number(one.worst_percent, 3)} %",
        percent(one.failed, 3),
        "–" if one.within is None else percent(one.within),
    ]


def _show_guarantee(trial: Trial, word: str) -> None:
    """Print how often the guarantee spoke, and whether it was kept."""
    if trial.held is None:
        console.print(f"The {word} spoke of none of these contexts.")
    else:
        scope = (
            f"The {word} spoke of {trial.spoken:,} of {trial.n_tried:,} contexts tried "
            f"({percent(trial.applied)} of those drawn)"
        )
        if trial.violations:
            warn(
                f"{scope} and was broken at {trial.violations:,} of them "
                f"({percent(1 - trial.held, 3)})."
            )
        else:
            console.print(f"{scope} and was kept at all of them.")
    if refused := trial.contenders[0].refused:
        console.print(
            f"The library refused {percent(refused, 3)} of the drawn contexts; they "
            "are left out of every row."
        )
    if trial.noise:
        console.print(
            f"Contexts were measured with noise ({trial.noise:g} of the width): the "
            f"{word} speaks of the measured context."
        )
