"""`taskspace verify`: recompute everything that a saved cover claims."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from taskspace.cli.options import Reading, grouped, option
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    print_json,
    show_notes,
    shown,
)
from taskspace.cli.reading import read_problem, source_places, split_names
from taskspace.cover import Cover, Verification, verify_cover
from taskspace.cover.ask import CoverProblem
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import RunStore
from taskspace.runs.opening import is_run

EXAMPLES = (
    "taskspace verify cover.json scores.csv",
    "taskspace verify runs/msd-lqr",
)


@dataclass(frozen=True)
class Demands:
    """The question that a saved cover must answer, as far as it is demanded."""

    epsilon: Annotated[float | None, option("Demand this tolerance.")] = None
    criterion: Annotated[str | None, option("Demand this criterion.")] = None
    judge: Annotated[str | None, option("Demand this judge.")] = None
    lower_is_better: Annotated[
        bool | None,
        option("Demand costs, or scores.", "--lower-is-better/--higher-is-better"),
    ] = None
    include: Annotated[
        str | None,
        option('Demand that these sources, and no others, must be in: a,3 or "".'),
    ] = None
    exclude: Annotated[
        str | None,
        option("Demand that these sources, and no others, must not be in, likewise."),
    ] = None
    costs: Annotated[str | None, option('Demand this file of costs, or none: "".')] = (
        None
    )
    weights: Annotated[str | None, option("Demand this file of weights, likewise.")] = (
        None
    )
    targets: Annotated[str | None, option('Demand these targets: a,b, or all: "".')] = (
        None
    )
    ignore: Annotated[
        str | None, option('Demand that these columns are left out, or none: "".')
    ] = None

    @property
    def stated(self) -> dict[str, Any]:
        """What is demanded, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@grouped
def verify(
    cover: Annotated[
        Path, typer.Argument(help="A cover saved by taskspace cover --save; or a run.")
    ],
    demands: Demands,
    path: Annotated[
        Path | None,
        typer.Argument(
            help="The run or file that it covers; none for a run.", show_default=False
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Check a saved cover against the data, or all files of a run, from scratch.

    The file says which question it answers, and the answer here says which one was
    verified. Options demand one. Exits with code 1 if a claim does not hold, another
    question was demanded, or a file is damaged.
    """
    if path is None:
        for name in demands.stated:
            raise InvalidInputError(
                f"--{name.replace('_', '-')} is about a saved cover, but only a run is "
                "named."
            )
        _verify_run(cover, output)
        return
    claim = Cover.load(cover)
    record = json.loads(cover.read_text()).get("question") or {}
    problem = _read(path, record)
    asked = _asked(record, claim, problem)
    verification = verify_cover(
        claim, problem.sets, problem.costs, target_weights=problem.weights
    )
    failures = [*_unmet(demands, asked, problem), *verification.failures]
    if output == Format.JSON:
        print_json(
            {
                "holds": not failures,
                "question": asked,
                "failures": failures,
                "not_checked": list(verification.not_checked),
                "proven": list(verification.proven),
                "notes": problem.notes,
            }
        )
    else:
        words = _question_words(asked)
        _show(claim, verification, failures, words, path, problem.notes)
    if failures:
        raise typer.Exit(1)


def _show(
    claim: Cover,
    verification: Verification,
    failures: list[str],
    words: str,
    path: Path,
    notes: list[str],
) -> None:
    """Print what was verified."""
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
    console.print(f"Verified for: {shown(words)}.")
    show_notes(notes)
    if not failures:
        for sentence in verification.proven:
            console.print(f"Proven again: {shown(sentence)}.")
        for sentence in verification.not_checked:
            console.print(f"Not proven again: {shown(sentence)}.")


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


def _read(path: Path, record: dict[str, Any]) -> CoverProblem:
    """Return the problem that the question of a cover file is about."""
    try:
        study = question = None
        if record["epsilon"] is not None:
            study = Reading.from_record(record).study(path)
            question = Question.from_dict(record)
        return read_problem(
            path,
            study,
            question,
            costs=record.get("costs"),
            weights=record.get("weights"),
            unicost=record["unicost"],
        )
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            "The cover file does not say which question it answers (it has no "
            f"{error}). Save it with: taskspace cover {path} ... --save FILE"
        ) from error


def _asked(
    record: dict[str, Any], claim: Cover, problem: CoverProblem
) -> dict[str, Any]:
    """Return the question that was verified, whole, as JSON."""
    asked: dict[str, Any] = {"criterion": None, "judge": None, "epsilon": None}
    if record["epsilon"] is not None:
        asked = Question.from_dict(record).to_dict()

    def called(numbers: NDArray[np.int64]) -> list[str]:
        return [_name(problem, source) for source in numbers.tolist()]

    return {
        **asked,
        "lower_is_better": bool(record.get("lower_is_better")),
        "include": called(claim.include),
        "exclude": called(claim.exclude),
        "costs": record.get("costs"),
        "weights": record.get("weights"),
        "unicost": bool(record.get("unicost")),
        "contexts": record.get("contexts"),
        "targets": record.get("targets"),
        "ignore": record.get("ignore"),
        "missing": record.get("missing", "error"),
    }


def _name(problem: CoverProblem, source: int) -> str:
    names = problem.source_names
    return names[source] if names and 0 <= source < len(names) else str(source)


def _question_words(asked: dict[str, Any]) -> str:
    """Return the question that was verified, for people."""
    if asked["epsilon"] is None:
        words = ["a set-cover file" + (", its costs ignored" * asked["unicost"])]
    else:
        words = [Question.from_dict(asked).statement]
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


def _unmet(demands: Demands, asked: dict[str, Any], problem: CoverProblem) -> list[str]:
    """Return a sentence per demand that the question of the file does not meet."""
    failures = []
    for name, demand in demands.stated.items():
        wanted, answered = demand, asked[name]
        if name in ("include", "exclude"):
            places = source_places(wanted, problem.source_names, problem.n_sources)
            wanted = sorted(_name(problem, place) for place in places)
            met = wanted == sorted(answered)
        elif name in ("targets", "ignore"):
            wanted, answered = (
                sorted(split_names(x or "")) for x in (wanted, answered)
            )
            met = wanted == answered
        elif name in ("costs", "weights"):
            met = (wanted or None) == answered or bool(
                wanted
                and answered
                and Path(wanted).resolve() == Path(answered).resolve()
            )
        else:
            met = wanted == answered
        if not met:
            failures.append(
                f"{name}={_shown_value(wanted)} is demanded, but the cover file "
                f"answers {name}={_shown_value(answered)}"
            )
    return failures


def _shown_value(value: Any) -> str:
    return "none" if value is None or value in ([], "") else str(value)
