"""`taskspace verify`: recompute everything that a saved cover claims."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskspace.cli.options import argument, as_command, option, read_problem
from taskspace.cli.output import Answer
from taskspace.cover import Cover, verify_cover
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import RunFolder
from taskspace.runs.opening import is_run, open_study

EXAMPLES = (
    "taskspace verify cover.json scores.csv",
    "taskspace verify runs/msd-lqr",
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
    ask: str | None = option(
        "Demand that the cover answers this question, e.g. 'regret <= 0.2'.",
        metavar="QUESTION",
    )


@as_command
def verify(files: Files) -> Answer:
    """Check a saved cover against the data, or all files of a run, from scratch.

    The file says which question it answers, and the answer here says which one was
    verified. Options demand one. Exits with code 1 if a claim does not hold, another
    question was demanded, or a file is damaged.
    """
    if files.path is None and files.cover.suffix.lower() != ".json":
        if files.ask is not None:
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
    data = files.path or record.get("path")
    if not data:
        raise InvalidInputError(
            f"{files.cover} does not say which run or file it covers. Name it: "
            f"taskspace verify {files.cover} PATH."
        )
    if not files.trust:
        _refuse_foreign(files.cover, record, None if files.path else data)
    read = record.get("read") or {}
    given = {name: record.get(name) for name in ("costs", "weights")}
    question = _question_of(record, data)
    problem = read_problem(open_study(Path(data), **read), question, **given)
    found = verify_cover(
        claim, problem.sets, problem.costs, target_weights=problem.target_weights
    )
    if files.ask is not None and Question(files.ask) != question:
        found = found.refuted(
            f"'{files.ask}' is demanded, but the cover file answers '{question}'"
        )
    names = problem.source_names or ()
    limits = {
        key: [names[s] if 0 <= s < len(names) else str(s) for s in places.tolist()]
        for key, places in (("include", claim.include), ("exclude", claim.exclude))
    }
    asked = {**question.to_dict(), "read": read, **limits, **given}

    said = [f"{key} {value}" for key, value in {**limits, **given}.items() if value]
    said += [f"read with {key}={value}" for key, value in read.items()]
    text = f"{found}\nVerified for: {'; '.join([question.statement, *said])}."
    record = {**found.to_dict(), "question": asked, "notes": problem.notes}
    return Answer(record, text, problem.notes, int(not found.holds))


def _question_of(record: dict[str, Any], data: object) -> Question:
    """Return the question that a saved cover answers."""
    if not record.get("ask"):
        raise InvalidInputError(
            "The cover file does not say which question it answers. Save it with: "
            f"taskspace cover {data} ... --save FILE"
        )
    return Question.from_dict(record)


def _refuse_foreign(cover: Path, record: dict[str, Any], data: object) -> None:
    """Refuse files that a cover names, unless they lie in its folder."""
    read = record.get("read")
    named = {
        "data": data,
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


def _verify_run(path: Path) -> Answer:
    """Compare every file of a run with its checksum."""
    if not is_run(path):
        raise InvalidInputError(
            f"{path} must be a run or a cover (a .json file that taskspace cover "
            "--save wrote), but is neither."
        )
    store = RunFolder.open(path)
    damages = store.damages()
    words = [f"Every file of {path} is as it was written."]
    if damages:
        words = ["Not everything is there:", *(f"- {each}" for each in damages)]
        words.append(f"Mend it with: {store.resume_command}")
    record = {"holds": not damages, "failures": damages, "not_checked": []}
    return Answer(record, "\n".join(words), code=int(bool(damages)))
