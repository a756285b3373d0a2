"""`taskspace verify`: recompute everything that a saved cover claims."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskspace.cli.options import argument, as_command, option
from taskspace.cli.output import Answer, console, show_notes, shown
from taskspace.cli.reading import read_problem
from taskspace.cover import Cover, Verification, verify_cover
from taskspace.cover.problem import CoverProblem
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import RunFolder
from taskspace.runs.opening import is_run, open_study, refuse_former

EXAMPLES = (
    "taskspace verify cover.json scores.csv",
    "taskspace verify runs/msd-lqr",
)


@dataclass(frozen=True)
class Demands:
    """The question that a saved cover must answer, as far as it is demanded."""

    ask: str | None = option(
        "Demand that the cover answers this question, e.g. 'regret <= 0.2'.",
        metavar="QUESTION",
    )


@dataclass(frozen=True)
class Files:
    """What is verified, and against what."""

    cover: Path = argument("A cover saved by taskspace cover --save; or a run.")
    path: Path | None = argument(
        "The run or file that it covers; the cover says it if left out.", None
    )
    trust: bool = option(
        "Open the files that the cover names, wherever they are.", False
    )


@as_command
def verify(files: Files, demands: Demands) -> Answer:
    """Check a saved cover against the data, or all files of a run, from scratch.

    The file says which question it answers, and the answer here says which one was
    verified. Options demand one. Exits with code 1 if a claim does not hold, another
    question was demanded, or a file is damaged.
    """
    if files.path is None and files.cover.suffix.lower() != ".json":
        if demands.ask is not None:
            raise InvalidInputError(
                "--ask is about a saved cover, but only a run is named."
            )
        return _verify_run(files.cover)
    claim = Cover.load(files.cover)
    record = json.loads(files.cover.read_text()).get("question") or {}
    if not isinstance(record, dict):
        raise InvalidInputError(
            f"The question of {files.cover} must be a table, but is {record!r}."
        )
    named = {"data": None if files.path else record.get("path")}
    if not files.trust:
        _refuse_foreign(files.cover, record, named)
    path = files.path or Path(named["data"] or "")
    if files.path is None and not named["data"]:
        raise InvalidInputError(
            f"{files.cover} does not say which run or file it covers. Name it: "
            f"taskspace verify {files.cover} PATH."
        )
    problem = _read(path, record)
    asked = _asked(record, claim, problem)
    verification = verify_cover(
        claim, problem.sets, problem.costs, target_weights=problem.target_weights
    )
    failures = list(verification.failures)
    question = Question.from_dict(record)
    if demands.ask is not None and Question(demands.ask) != question:
        failures.insert(
            0, f"'{demands.ask}' is demanded, but the cover file answers '{question}'"
        )

    def show() -> None:
        words = _question_words(asked)
        _show(claim, verification, failures, words, path, problem.notes)

    return Answer(
        lambda: {
            "holds": not failures,
            "question": asked,
            "failures": failures,
            "not_checked": list(verification.not_checked),
            "proven": list(verification.proven),
            "notes": problem.notes,
        },
        show,
        bool(failures),
    )


def _refuse_foreign(cover: Path, record: dict[str, Any], named: dict[str, Any]) -> None:
    """Refuse files that a cover names, unless they lie in its folder."""
    read = record.get("read")
    named = named | {
        "costs": record.get("costs"),
        "weights": record.get("weights"),
        "contexts": read.get("contexts") if isinstance(read, dict) else None,
    }
    for what, name in named.items():
        if not name:
            continue
        if not isinstance(name, str):
            raise InvalidInputError(
                f"{cover} must name its file of {what} as a text, but has {name!r}."
            )
        if not Path(name).resolve().is_relative_to(cover.resolve().parent):
            raise InvalidInputError(
                f"{cover} names a file of {what} outside its folder, {name}. It may "
                "come from anyone, so the file is not opened. If you know where the "
                "cover comes from, say --trust."
            )


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


def _verify_run(path: Path) -> Answer:
    """Compare every file of a run with its checksum."""
    refuse_former(path)
    if not is_run(path):
        raise InvalidInputError(
            f"{path} must be a run or a cover (a .json file that taskspace cover "
            "--save wrote), but is neither."
        )
    store = RunFolder.open(path)
    damages = store.damages()

    def show() -> None:
        if not damages:
            words = f"of {shown(path)} is as it was written."
            console.print(f"[bold]Every file[/bold] {words}")
            return
        console.print("[bold red]Not everything is there[/bold red]:")
        for sentence in damages:
            console.print(f"- {shown(sentence)}")
        console.print(f"Mend it with: {shown(store.resume_command)}")

    record = {"holds": not damages, "failures": damages, "not_checked": []}
    return Answer(lambda: record, show, bool(damages))


def _read(path: Path, record: dict[str, Any]) -> CoverProblem:
    """Return the problem that the question of a cover file is about."""
    try:
        return read_problem(
            open_study(path, **(record.get("read") or {})),
            Question.from_dict(record),
            costs=record.get("costs"),
            weights=record.get("weights"),
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
    return {
        **Question.from_dict(record).to_dict(),
        "read": record.get("read") or {},
        "include": _names(problem, claim.include.tolist()),
        "exclude": _names(problem, claim.exclude.tolist()),
        "costs": record.get("costs"),
        "weights": record.get("weights"),
    }


def _names(problem: CoverProblem, sources: list[int]) -> list[str]:
    names = problem.source_names or ()
    return [names[s] if 0 <= s < len(names) else str(s) for s in sources]


def _question_words(asked: dict[str, Any]) -> str:
    """Return the question that was verified, for people."""
    words = [Question.from_dict(asked).statement]
    for name, what in (("include", "must be in"), ("exclude", "must not be in")):
        if asked[name]:
            words.append(f"{', '.join(asked[name])} {what}, which the cover file says")
    words += [f"{n} of {asked[n]}" for n in ("costs", "weights") if asked[n]]
    words += [f"read with {name}={value}" for name, value in asked["read"].items()]
    return "; ".join(words)
