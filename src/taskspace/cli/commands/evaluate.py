"""`taskspace evaluate`: a library on trial, beside what one could do instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    conditioned_networks,
    load_library,
    try_library,
)
from taskspace.deploy.trial.contenders import training_steps
from taskspace.deploy.trial.trial import Contender
from taskspace.errors import InvalidInputError
from taskspace.policies import Mlp, Policy
from taskspace.runs import Experiment
from taskspace.runs.experiment import named_system
from taskspace.runs.opening import is_archive, is_run, open_study
from taskspace.spaces import Points
from taskspace.systems import System
from taskspace.systems.simulated import SimulatedSystem

EXAMPLES = (
    "taskspace evaluate library msd-v1",
    "taskspace evaluate library runs/msd-lqr --noise 0.05",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace evaluate` may be told."""

    folder: Path = argument("What `taskspace export` wrote.", metavar="LIBRARY")
    system: str = argument(
        "A system (msd-v1, ...), package.module:object, an experiment, a "
        "run or an archive.",
        metavar="SYSTEM",
    )
    contexts: int = option(
        "Contexts to draw; corners and nodes are tried beside them.", 1000
    )
    noise: float = option("Of the measured context, share of each axis' width.", 0.0)
    run: Path | None = option(
        "A run or an archive whose policies make uniform and random libraries; "
        "linear systems need none."
    )
    networks: int = option(
        "Networks that see the context, trained beside a library of networks, "
        "one per seed; 0 for none.",
        3,
    )
    network_steps: int | None = option(
        "Environment steps of each; those of the library if left out."
    )
    seed: SeedOption = 0
    trust: TrustOption = False


@as_command
def evaluate(options: Options) -> Answer:
    """Try a library off its grid, with noise, beside the alternatives.

    Says how often the guarantee applied and held, and what one policy, a uniform or
    random library, interpolated gains, one network that sees the context and the
    optimum of each context do.
    """
    library = load_library(options.folder)
    with progress_console.status("play") as status:
        system, experiment = _system(options.system, options.trust)
        pool = None
        if options.run is not None:
            pool, experiment = _pool(options.run, options.trust)
        networks, why = _networks(options, library, system, experiment, status.update)
        status.update("play")
        trial = try_library(
            library,
            system,
            n_contexts=options.contexts,
            seed=options.seed,
            noise=options.noise,
            pool=pool,
            networks=networks,
        )
        if why:
            trial = replace(trial, notes=(*trial.notes, why))
    return Answer(
        lambda: {
            "library": str(options.folder),
            "system": options.system,
            "guarantee": library.guarantee.to_dict(),
            **trial.to_dict(),
        },
        lambda: _show(trial, library),
    )


def _system(name: str, trust: bool) -> tuple[System, Experiment | None]:
    """Return the system that a word names, and the experiment that it comes from."""
    if is_run(Path(name)) or is_archive(name):
        study = open_study(name, trust=trust)
        return study.require_system(), study.experiment
    return named_system(name, trust=trust)


def _networks(
    options: Options,
    library: PolicyLibrary,
    system: System,
    experiment: Experiment | None,
    tell: Callable[[str], None],
) -> tuple[list[Any], str]:
    """Networks that see the context, where they can be trained; else why not."""
    n, steps = options.networks, options.network_steps
    if n < 0 or (steps is not None and steps < 1):
        raise InvalidInputError(
            "--networks >= 0 and --network-steps >= 1 must hold, but got "
            f"--networks {n} and --network-steps {steps}."
        )
    if n == 0 or not isinstance(library.policies, Mlp):
        return [], ""
    what = "One network that sees the context was not tried:"
    if not isinstance(system, SimulatedSystem):
        return [], f"{what} it is trained in JAX, and {system.id} is not JAX functions."
    from taskspace.trainers.ppo import Ppo  # brings JAX

    budget = steps or training_steps(library)
    if budget is None:
        return [], (
            f"{what} how many steps the training of this library took is not known. "
            "Give --network-steps."
        )
    trainer = None if experiment is None else experiment.built_trainer
    recipe = trainer if isinstance(trainer, Ppo) else None
    tell(f"train network 1/{n} ({budget:,} steps)")
    networks = conditioned_networks(
        library,
        system,
        n,
        recipe=recipe,
        total_steps=budget,
        seed=options.seed,
        progress=lambda stage, k, n, note="", /: tell(
            f"train network {min(int(k) + 1, int(n))}/{n} ({budget:,} steps)"
        ),
    )
    return networks, ""


def _pool(run: Path, trust: bool) -> tuple[tuple[Points, Policy], Experiment]:
    """Return the first policy of every source of a run, and its experiment."""
    study = open_study(run, trust=trust)
    policies, space = study.all_policies, study.sources
    if policies is None or space is None:
        raise InvalidInputError(
            f"{run} has no policies with contexts for all its sources. Make an archive "
            "of all with: taskspace archive RUN FILE --policies all"
        )
    return (Points(space.names, space.points), policies[:, 0]), study.experiment


def _show_spread(one: Contender, steps: Mapping[str, int]) -> None:
    low, high = one.spread["mean_performance"]
    least, most = one.spread["worst_percent"]
    spent = f", {steps[one.name]:,} steps each on average" if one.name in steps else ""
    against = f" ({steps['library']:,} of the library)" if "library" in steps else ""
    console.print(
        f"{one.name.capitalize()}: the one in the middle of {one.n_repeats}; mean J "
        f"from {number(low)} to {number(high)}, worst loss from {number(least, 3)} % "
        f"to {number(most, 3)} %{spent}{against if spent else ''}."
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
            _show_spread(one, trial.environment_steps)
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
