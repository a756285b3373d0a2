"""`taskspace verify`: recompute everything that a saved cover claims."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from taskspace.cli.inputs import load_set_cover, load_study, split_names
from taskspace.cli.numbers import load_numbers, source_places
from taskspace.cli.output import Format, FormatOption, console, print_json, shown
from taskspace.cover import Cover, verify_cover
from taskspace.cover.answer import source_names, target_names
from taskspace.cover.problem import sets_of
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import RunStore
from taskspace.runs.manifest import is_run
from taskspace.sets import TargetSets


def verify(
    cover: Annotated[
        Path,
        typer.Argument(help="A cover saved by taskspace cover --save; or a run."),
    ],
    path: Annotated[
        Path | None,
        typer.Argument(
            help="The run or file that it covers; none for a run.", show_default=False
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Demand this tolerance.", show_default=False),
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(help="Demand this criterion.", show_default=False)
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Demand this judge.", show_default=False)
    ] = None,
    lower_is_better: Annotated[
        bool | None,
        typer.Option(
            "--lower-is-better/--higher-is-better",
            help="Demand costs, or scores.",
            show_default=False,
        ),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            help='Demand that these sources, and no others, must be in: a,3 or "".',
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(
            help="Demand that these sources, and no others, must not be in, likewise.",
            show_default=False,
        ),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            help='Demand this file of costs, or none: "".', show_default=False
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Demand this file of weights, likewise.", show_default=False),
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(help='Demand these targets: a,b, or all: "".', show_default=False),
    ] = None,
    ignore: Annotated[
        str | None,
        typer.Option(
            help='Demand that these columns are left out, or none: "".',
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Check a saved cover against the data, or all files of a run, from scratch.

    The file says which question it answers, and the answer here says which one was
    verified. Options demand one. Exits with code 1 if a claim does not hold, another
    question was demanded, or a file is damaged.
    """
    demands: dict[str, Any] = {
        "epsilon": epsilon,
        "criterion": criterion,
        "judge": judge,
        "lower_is_better": lower_is_better,
        "include": include,
        "exclude": exclude,
        "costs": costs,
        "weights": weights,
        "targets": targets,
        "ignore": ignore,
    }
    demands = {name: value for name, value in demands.items() if value is not None}
    if path is None:
        if demands:
            raise InvalidInputError(
                f"--{next(iter(demands)).replace('_', '-')} is about a saved cover, "
                "but only a run is named."
            )
        _verify_run(cover, output)
        return
    claim = Cover.load(cover)
    question = json.loads(cover.read_text()).get("question") or {}
    read = _read(path, question)
    asked = _asked(question, claim, read)
    found = verify_cover(claim, read.sets, read.costs, target_weights=read.weights)
    failures = [*_unmet(demands, asked, read), *found.failures]
    if output == Format.JSON:
        print_json(
            {
                "holds": not failures,
                "question": asked,
                "failures": failures,
                "not_checked": list(found.not_checked),
                "proven": list(found.proven),
                "notes": read.notes,
            }
        )
    else:
        if failures:
            console.print("[bold red]The claim does not hold[/bold red]:")
            for sentence in failures:
                console.print(f"- {shown(sentence)}")
        else:
            console.print(
                f"[bold]The claim holds[/bold]: {claim.size} sources serve "
                f"{100 * claim.coverage:.4g} % of {claim.n_targets:,} targets of "
                f"{shown(path)}."
            )
        console.print(f"Verified for: {shown(_question_words(question, asked))}.")
        for note in read.notes:
            console.print(f"Note: {shown(note)}")
        if not failures:
            for sentence in found.proven:
                console.print(f"Proven again: {shown(sentence)}.")
            for sentence in found.not_checked:
                console.print(f"Not proven again: {shown(sentence)}.")
    if failures:
        raise typer.Exit(1)


def _verify_run(path: Path, output: Format) -> None:
    """Compare every file of a run with its checksum."""
    if not is_run(path):
        raise InvalidInputError(
            f"{path} is not a run. For a saved cover name the run or file that it "
            "covers, too."
        )
    store = RunStore.open(path)
    damages = store.damages()
    if output == Format.JSON:
        print_json({"holds": not damages, "failures": damages, "not_checked": []})
    elif damages:
        console.print("[bold red]Not everything is there[/bold red]:")
        for sentence in damages:
            console.print(f"- {shown(sentence)}")
        console.print(f"Mend it with: {shown(store.resume_command)}")
    else:
        console.print(f"[bold]Every file[/bold] of {shown(path)} is as it was written.")
    if damages:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Read:
    """The data that a question is about.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, None where all are 1.
        weights: weight of each target, likewise.
        sources: names of the sources, None where they have none.
        notes: what a person should know of a matrix.
    """

    sets: TargetSets
    costs: NDArray[np.float64] | None
    weights: NDArray[np.float64] | None
    sources: list[str] | None
    notes: list[str]


def _read(path: Path, question: dict[str, Any]) -> _Read:
    """The sets, costs and target weights that the question is about."""
    try:
        costs = weights = of_sources = of_targets = None
        notes = []
        if question["epsilon"] is None:
            problem = load_set_cover(path, unicost=question["unicost"])
            sets, costs = problem.sets, problem.costs
        else:
            contexts = question["contexts"]
            study = load_study(
                path,
                lower_is_better=question["lower_is_better"],
                contexts=None if contexts is None else Path(contexts),
                targets=question.get("targets"),
                ignore=question.get("ignore"),
                missing=question.get("missing", "error"),
                header=question.get("header"),
                row_names=question.get("row_names"),
            )
            sets = sets_of(study, Question.from_dict(question))
            of_sources = source_names(study.table)
            of_targets = target_names(study.table)
            notes = study.notes
        if file := question.get("costs"):
            costs = load_numbers(Path(file), of_sources, sets.n_sources, "source")
        if file := question.get("weights"):
            weights = load_numbers(Path(file), of_targets, sets.n_targets, "target")
        return _Read(sets, costs, weights, of_sources, notes)
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            "The cover file does not say which question it answers (it has no "
            f"{error}). Save it with: taskspace cover {path} ... --save FILE"
        ) from error


def _asked(question: dict[str, Any], claim: Cover, read: _Read) -> dict[str, Any]:
    """The question that was verified, whole, as JSON."""
    asked: dict[str, Any] = {"criterion": None, "judge": None, "epsilon": None}
    if question["epsilon"] is not None:
        asked = Question.from_dict(question).to_dict()

    def called(numbers: NDArray[np.int64]) -> list[str]:
        return [_name(read, source) for source in numbers.tolist()]

    return {
        **asked,
        "lower_is_better": bool(question.get("lower_is_better")),
        "include": called(claim.include),
        "exclude": called(claim.exclude),
        "costs": question.get("costs"),
        "weights": question.get("weights"),
        "unicost": bool(question.get("unicost")),
        "contexts": question.get("contexts"),
        "targets": question.get("targets"),
        "ignore": question.get("ignore"),
        "missing": question.get("missing", "error"),
    }


def _name(read: _Read, source: int) -> str:
    inside = read.sources is not None and 0 <= source < len(read.sources)
    return read.sources[source] if inside and read.sources else str(source)


def _question_words(question: dict[str, Any], asked: dict[str, Any]) -> str:
    """The question that was verified, for people."""
    if asked["epsilon"] is None:
        words = ["a set-cover file" + (", its costs ignored" * asked["unicost"])]
    else:
        words = [Question.from_dict(question).statement]
        words.append("costs" if asked["lower_is_better"] else "scores")
    for name, what in (("include", "must be in"), ("exclude", "must not be in")):
        if asked[name]:
            words.append(f"{', '.join(asked[name])} {what}, which the cover file says")
    words += [
        f"{n} of {asked[n]}" for n in ("costs", "weights", "contexts") if asked[n]
    ]
    words += [f"{name} {asked[name]}" for name in ("targets", "ignore") if asked[name]]
    if asked["missing"] != "error":
        words.append("empty cells are not served")
    return "; ".join(words)


def _unmet(demands: dict[str, Any], asked: dict[str, Any], read: _Read) -> list[str]:
    """A sentence for each demand that the question of the file does not meet."""
    failures = []
    for name, demand in demands.items():
        wanted, given = demand, asked[name]
        if name in ("include", "exclude"):
            places = source_places(wanted, read.sources, read.sets.n_sources)
            wanted = sorted(_name(read, place) for place in places)
            met = wanted == sorted(given)
        elif name in ("targets", "ignore"):
            wanted, given = (sorted(split_names(x or "")) for x in (wanted, given))
            met = wanted == given
        elif name in ("costs", "weights"):
            met = (wanted or None) == given or bool(
                wanted and given and Path(wanted).resolve() == Path(given).resolve()
            )
        else:
            met = wanted == given
        if not met:
            failures.append(
                f"{name}={_shown_value(wanted)} is demanded, but the cover file "
                f"answers {name}={_shown_value(given)}"
            )
    return failures


def _shown_value(value: Any) -> str:
    return "none" if value is None or value in ([], "") else str(value)
