"""`taskspace verify`: recompute everything that a saved cover claims."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from taskspace.cli.inputs import load_set_cover, load_table
from taskspace.cli.numbers import load_numbers
from taskspace.cli.output import Format, FormatOption, console, print_json, shown
from taskspace.cover import Cover, verify_cover
from taskspace.cover.answer import source_names, target_names
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import RunStore
from taskspace.runs.manifest import is_run


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
    output: FormatOption = Format.TEXT,
) -> None:
    """Check a saved cover against the data, or all files of a run, from scratch.

    Exits with code 1 if a claim does not hold or a file is damaged.
    """
    if path is None:
        _verify_run(cover, output)
        return
    claim = Cover.load(cover)
    question = json.loads(cover.read_text()).get("question") or {}
    sets, costs, weights = _sets(path, question)
    found = verify_cover(claim, sets, costs, target_weights=weights)
    if output == Format.JSON:
        print_json(
            {
                "holds": found.holds,
                "failures": list(found.failures),
                "not_checked": list(found.not_checked),
                "proven": list(found.proven),
            }
        )
    elif found.holds:
        console.print(
            f"[bold]The claim holds[/bold]: {claim.size} sources serve "
            f"{100 * claim.coverage:.4g} % of {claim.n_targets:,} targets of "
            f"{shown(path)}."
        )
        for sentence in found.proven:
            console.print(f"Proven again: {shown(sentence)}.")
        for sentence in found.not_checked:
            console.print(f"Not proven again: {shown(sentence)}.")
    else:
        console.print("[bold red]The claim does not hold[/bold red]:")
        for sentence in found.failures:
            console.print(f"- {shown(sentence)}")
    if not found.holds:
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


def _sets(path: Path, question: dict[str, Any]) -> Any:
    """The sets, costs and target weights that the question is about."""
    try:
        costs = weights = names = None
        if question["epsilon"] is None:
            problem = load_set_cover(path, unicost=question["unicost"])
            sets, costs = problem.sets, problem.costs
        else:
            contexts = question["contexts"]
            loaded = load_table(
                path,
                lower_is_better=question["lower_is_better"],
                contexts=None if contexts is None else Path(contexts),
                targets=question.get("targets"),
                ignore=question.get("ignore"),
                missing=question.get("missing", "error"),
                header=question.get("header"),
                row_names=question.get("row_names"),
            )
            asked = Question.from_dict(question)
            sets = asked.sets(loaded.asked(asked).table)
            names = source_names(loaded.table), target_names(loaded.table)
        of_sources, of_targets = names or (None, None)
        if file := question.get("costs"):
            costs = load_numbers(Path(file), of_sources, sets.n_sources, "source")
        if file := question.get("weights"):
            weights = load_numbers(Path(file), of_targets, sets.n_targets, "target")
        return sets, costs, weights
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            "The cover file does not say which question it answers (it has no "
            f"{error}). Save it with: taskspace cover {path} ... --save FILE"
        ) from error
