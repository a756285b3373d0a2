"""`taskspace evaluate`: a library on trial, beside what one could do instead."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from taskspace.cli.options import SeedOption, TrustOption
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    number,
    print_json,
    progress_console,
    shown,
)
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.library import Trial, load_library, try_library
from taskspace.library.origin import run_policies
from taskspace.performance import source_space
from taskspace.policies import Policy
from taskspace.runs import RunStore, builtin_experiments, load_experiment
from taskspace.runs.archive import is_archive, read_archive
from taskspace.runs.manifest import is_run
from taskspace.runs.objects import build_object, is_reference
from taskspace.spaces import Points
from taskspace.systems import SYSTEMS, System


def evaluate(
    folder: Annotated[
        Path, typer.Argument(help="What `taskspace export` wrote.", metavar="LIBRARY")
    ],
    system: Annotated[
        str,
        typer.Argument(
            help="A system (msd-v1, ...), package.module:object, an experiment, a "
            "run or an archive.",
            metavar="SYSTEM",
        ),
    ],
    contexts: Annotated[
        int, typer.Option(help="Contexts to draw from the range.")
    ] = 1000,
    noise: Annotated[
        float,
        typer.Option(help="Of the measured context, share of each axis' width."),
    ] = 0.0,
    drift: Annotated[
        float,
        typer.Option(help="How far a context moves in an episode, share of the width."),
    ] = 0.0,
    run: Annotated[
        Path | None,
        typer.Option(
            help="A run or an archive whose policies make uniform and random "
            "libraries; linear systems need none.",
            show_default=False,
        ),
    ] = None,
    seed: SeedOption = 0,
    trust: TrustOption = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Try a library off its grid, with noise and drift, beside the alternatives.

    Says how often the guarantee applied and held, and what one policy, a uniform or
    random library, interpolated gains and the optimum of each context do.
    """
    library = load_library(folder)
    with progress_console.status("play"):
        trial = try_library(
            library,
            _system(system, trust),
            n_contexts=contexts,
            seed=seed,
            noise=noise,
            drift=drift,
            pool=None if run is None else _pool(run, trust),
        )
    if output == Format.JSON:
        print_json(
            {
                "library": str(folder),
                "system": system,
                "guarantee": library.guarantee.to_dict(),
                **trial.to_dict(),
            }
        )
        return
    console.print(f"Guaranteed: {shown(library.guarantee.statement)}")
    _show(trial)


def _system(name: str, trust: bool) -> System:
    if is_run(Path(name)):
        return RunStore.open(name, trust=trust).experiment.built_system
    if is_archive(name):
        return read_archive(name, trust=trust).experiment.built_system
    if Path(name).suffix == ".toml" or name in builtin_experiments():
        return load_experiment(name, trust=trust).built_system
    if is_reference(name):
        return build_object("system", name, {}, System)
    if name not in SYSTEMS:
        raise UnknownNameError("system", name, [*SYSTEMS, *builtin_experiments()])
    return SYSTEMS[name]()


def _pool(run: Path, trust: bool) -> tuple[Points, Policy]:
    """The first policy of every source of a run."""
    if is_archive(run):
        archive = read_archive(run, trust=trust)
        policies, table = archive.all_policies, archive.table
    else:
        store = RunStore.open(run, trust=trust)
        policies, table = run_policies(store), store.table()
    space = source_space(table)
    if policies is None or space is None:
        raise InvalidInputError(
            f"{run} has no policies with contexts for all its sources. Make an archive "
            "of all with: taskspace archive RUN FILE --policies all"
        )
    return Points(space.names, space.points), policies[:, 0]


def _show(trial: Trial) -> None:
    view = Table(
        title=f"{trial.n_contexts:,} contexts drawn from the range, losses against "
        f"{trial.reference}",
        title_justify="left",
    )
    view.add_column("", no_wrap=True)
    for name in ("policies", "mean J", "mean loss", "worst", "failed", "within ε"):
        view.add_column(name, justify="right")
    for one in trial.contenders:
        view.add_row(
            one.name,
            str(one.n_policies) if one.n_policies else "–",
            number(one.mean_performance),
            f"{number(one.mean_percent, 3)} %",
            f"{number(one.worst_percent, 3)} %",
            f"{100 * one.failed:.3g} %",
            "–" if one.within is None else f"{100 * one.within:.4g} %",
        )
    console.print(view)
    if trial.held is None:
        console.print("The guarantee spoke of none of these contexts.")
    else:
        said = f"The guarantee spoke of {100 * trial.applied:.4g} % of these contexts"
        if trial.violations:
            console.print(
                f"[red]![/red] {said} and was broken at {trial.violations:,} of them "
                f"({100 * (1 - trial.held):.3g} %)."
            )
        else:
            console.print(f"{said} and was kept at all of them.")
    refused = trial.contenders[0].refused
    if refused:
        console.print(
            f"The library refused {100 * refused:.3g} % of the contexts as outside its "
            "range; they count in no mean."
        )
    if trial.noise:
        console.print(
            f"Contexts were measured with noise ({trial.noise:g} of the width): the "
            "guarantee speaks of the measured context."
        )
    if trial.line:
        console.print(trial.line)
    if trial.drifting:
        means = ", ".join(f"{n} {number(r)}" for n, r in trial.drifting.items())
        console.print(
            f"While the context drifts by {trial.drift:g} of the width, mean return: "
            f"{means}."
        )
    for note in trial.notes:
        console.print(f"Note: {note}")
