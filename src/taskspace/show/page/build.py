"""From a study to a page."""

import json
import platform
import shlex
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.files import plain, write_atomically
from taskspace.certificates.certify import CertifyResult
from taskspace.cover import Cover
from taskspace.cover.problem import CoverProblem
from taskspace.criteria import CRITERIA, JUDGES
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.performance.table import row_blocks
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.runs.folder import RunFolder
from taskspace.runs.opening import is_selection
from taskspace.show.page.data import PageData, choose_rows
from taskspace.show.page.html import Blobs, render
from taskspace.show.page.layers import Layer, layer_key, make_layer
from taskspace.show.page.play import play_part
from taskspace.show.regions import boxes_title, live_axes

SMALL_CELLS = 4_000_000
"""Up to this many pairs every criterion is worked out, not only those asked for."""

MAX_NUMBERS = 500_000_000
"""Losses that are held at once while a page is made (4 GB)."""

NO_BOX = 65535
"""Place of the source of a box that has none."""


def explore(
    study: Study | xr.Dataset,
    path: str | Path,
    questions: Question | str | Iterable[Question | str] = (),
    **options: Any,
) -> Path:
    """Write one HTML file that explains and explores a study.

    It opens from disk, needs no server and no network, and answers every tolerance.

    Args:
        study: what is known, or a performance table.
        path: the file.
        questions: one or more, beside what the experiment of a run asks; the first
            one is shown first.
        options: see `taskspace.show.page.collect`.

    Returns:
        The file.
    """
    asked = [questions] if isinstance(questions, Question | str) else list(questions)
    write_atomically(Path(path), build_page(study, map(as_question, asked), **options))
    return Path(path)


def build_page(
    study: Study | xr.Dataset, questions: Iterable[Question] = (), **options: Any
) -> str:
    """Return one HTML file that explains and explores a study.

    Args:
        study: what is known, or a performance table.
        questions: what is asked; the first one is shown first.
        options: see `collect`.

    Returns:
        The page, which needs nothing but itself.
    """
    page = collect(study, questions, **options)
    return render(page.header, page.blobs)


def collect(
    study: Study | xr.Dataset,
    questions: Iterable[Question] = (),
    *,
    title: str | None = None,
    certified: Sequence[CertifyResult] = (),
    max_rows: int = 700,
    n_steps: int | None = None,
    time_limit: float = 8.0,
    progress: Progress | None = None,
) -> PageData:
    """Return everything that a page shows.

    Args:
        study: what is known, or a performance table.
        questions: asked before those of the experiment; the first one is shown first.
        title: heading of the page; by default the name of the experiment or the file.
        certified: what is certified about some of the questions.
        max_rows: rows of sources that go into the page.
        n_steps: about how many tolerances each criterion gets.
        time_limit: processor seconds for searches beyond greedy, all together.
        progress: told how far it is.
    """
    study = known = as_study(study)
    path = Path("TABLE" if study.reading is None else study.origin)
    selection = selection_record(path) if is_selection(path) else None
    asked = [*questions, *page_questions(study, selection)]
    for question in asked:  # some criteria read another score than J
        study = study.with_table(question.table_of(study))
    table, results = study.table, known.results
    if min(table.sizes["source"], table.sizes["target"]) == 0:
        raise InvalidInputError(
            "A page needs at least one source and one target, but the table has "
            f"{table.sizes['source']} and {table.sizes['target']}."
        )
    covers: list[tuple[Question, Cover]] = []
    if results is not None:
        covers = [
            (cover.question, cover)
            for cover in results.covers
            if cover.question is not None
            and cover.n_sources == study.n_sources
            and cover.method not in ("uniform", "random")
        ]
    for result in certified:
        if result.continuum is not None and result.continuum.size:
            problem = CoverProblem(study, result.question)
            cover = problem.cover(
                "certified",
                result.continuum.sources,
                lower_bound=0,
                lower_bound_kind="size",
                stop_reason=result.continuum.certificate.kind,
            )
            covers.append((result.question, cover))
    layers = _make_layers(
        table,
        list(dict.fromkeys([*asked, *(question for question, _ in covers)])),
        covers,
        n_steps=n_steps,
        time_limit=time_limit,
        progress=progress or silent,
    )
    rows = choose_rows(layers, table.sizes["source"], limit=max_rows)
    about = _about(known, path, selection, title) | {"warnings": _warnings(known)}
    if certified:
        about["reproduce"] += " --certify"
    page = PageData(study, layers, rows, about)
    if selection is not None:
        page.header["selection"] = selection
    if certified:
        page.header["certificates"] = [
            _certificate(result, page.blobs) for result in certified
        ]
    page.header |= play_part(known, page)
    return page


def selection_record(path: Path) -> dict[str, Any]:
    """Return what a page says of a selection's directory, finished or not.

    Args:
        path: what `taskspace select` writes into.

    Returns:
        `title` and `question`, `selector`, `history` (an entry after each step), and
        `sources` in the order of their proposal: `place` in the table (−1 if it has no
        row there), `state` (`"failed"` or empty), and `region`, the targets it was
        trained for, as pairs `[first, stop)`.
    """
    run = RunFolder.open(path)
    assert run.log is not None
    asked, found = run.info.data, run.trainings
    done = found.evaluated
    question = Question.from_dict(asked["question"])
    sources = [
        {
            "place": int(done[:index].sum()) if done[index] else -1,
            "state": "failed" if index in found.failures else "",
            "region": line.region,
        }
        for index, line in enumerate(run.log.proposals)
    ]
    return {
        "title": question.label,
        "selector": asked["select"].get("selector", ""),
        "history": [step.entry for step in run.log.steps],
        "question": question.to_dict(),
        "sources": sources,
    }


def page_questions(
    study: Study, selection: dict[str, Any] | None = None
) -> list[Question]:
    """Return what the experiment asks, regret first: it is what most users mean.

    Args:
        study: what is known.
        selection: what a selection was made for comes before all.
    """
    if study.experiment is None:
        return []
    asked = sorted(study.experiment.ask, key=lambda q: not q.is_regret)
    if selection is not None:
        asked.insert(0, Question.from_dict(selection["question"]))
    return list(dict.fromkeys(asked))


# --- text -----------------------------------------------------------------------------


def _about(
    study: Study, path: Path, selection: dict[str, Any] | None, title: str | None
) -> dict[str, Any]:
    """Return title, settings, covers of a run, and how to make it all again."""
    words = [str(path)]
    if study.reading:
        pairs = [
            name if value is True else f"{name}={json.dumps(value, default=str)}"
            for name, value in study.reading.items()
        ]
        words += ["--read", ", ".join(pairs)]
    experiment, system = study.experiment, study.table.attrs.get("system", "")
    name = experiment.name if experiment is not None else path.name
    if study.reading is None and system:
        name = str(system)
    packages = ("taskspace", "numpy", "scipy", "numba", "xarray")
    versions = [f"{name} {version(name)}" for name in packages]
    text: dict[str, Any] = {
        "title": title or name,
        "path": shlex.join(words),
        "system": str(system),
        "versions": "\n".join([*versions, f"Python {platform.python_version()}"]),
        "reproduce": f"taskspace explore {shlex.join(words)}",
        "question": {"path": str(path), "read": study.reading or {}},
    }
    if experiment is not None:
        text["settings"] = experiment.to_toml()
        file = shlex.quote(str(path / "experiment.toml"))
        again = f"taskspace run {file} --out DIRECTORY"
        if selection is not None:
            asked = shlex.quote(str(Question.from_dict(selection["question"])))
            again = f"taskspace select {file} --out DIRECTORY --ask {asked}"
        if path.is_dir():
            text["reproduce"] = f"{again}\n{text['reproduce']}"
    return text


def _warnings(study: Study) -> list[str]:
    """Return what a reader should hear before any number."""
    notes, results = list(study.notes), study.results
    if results is not None:
        if results.n_failed:
            notes.append(
                f"{results.n_failed:,} of {results.n_trained:,} policies do not solve "
                "their own task."
            )
        if results.failures:
            notes.append(f"The training of {len(results.failures)} sources failed.")
    return notes


# --- what is known already ------------------------------------------------------------


def _certificate(result: CertifyResult, blobs: Blobs) -> dict[str, Any]:
    """Return the certificates of a question, and the boxes axis by axis."""
    keys = ("name", "holds", "kind", "scope", "why")
    record: dict[str, Any] = {
        "key": layer_key(result.question),
        "epsilon": result.question.epsilon,
        "question": result.question.statement,
        "ask": str(result.question),
        "items": [
            {key: plain(getattr(item, key)) for key in keys}
            for item in result.certificates
        ],
        "boxes": None,
    }
    found = result.continuum
    if found is None or not (live := live_axes(found)):
        return record
    place = {int(s): i for i, s in enumerate(found.sources)}
    who = [place.get(int(s), NO_BOX) for s in found.assignment]
    record["boxes"] = {
        "title": boxes_title(found),
        "kind": found.certificate.kind,
        "holds": bool(found.certificate.holds),
        "why": found.certificate.why,
        "names": [found.axes[i] for i in live],
        "sources": found.sources.tolist(),
        "n": len(found.status),
        "low": blobs.add(found.boxes.low[:, live].T),
        "high": blobs.add(found.boxes.high[:, live].T),
        "status": blobs.add(found.status.astype(np.uint8)),
        "who": blobs.add(np.array(who, np.uint16)),
        "bound": blobs.add(np.asarray(found.loss_bound, np.float64)),
        "share": blobs.add(np.asarray(found.boxes.share, np.float64)),
    }
    return record


# --- layers ---------------------------------------------------------------------------


def _make_layers(
    table: xr.Dataset,
    asked: Sequence[Question],
    covers: Sequence[tuple[Question, Cover]],
    *,
    n_steps: int | None,
    time_limit: float,
    progress: Progress,
) -> list[Layer]:
    """Return the criteria of a page, those asked for first."""
    every = _questions(table, asked)
    progress("losses", 0, len(every))
    losses = _all_losses(table, every)
    progress("losses", len(every), len(every))
    for question in asked:
        if question.at(0.0) not in losses:
            question.rows(table, slice(0, 1))  # says why it does not apply
    small = table.sizes["source"] * table.sizes["target"] <= SMALL_CELLS
    layers = []
    for question in losses:
        own = [q for q in asked if q.at(0.0) == question]
        layer = make_layer(
            losses[question],
            question,
            stored=[q.epsilon for q in own],
            covers=[(q.epsilon, c) for q, c in covers if q in own],
            n_steps=n_steps or (40 if small else 20),
            time_limit=time_limit / len(losses),
            progress=progress,
        )
        layers.append(layer)
    if not layers:
        raise InvalidInputError("No criterion applies to this table.")
    return layers


def _questions(table: xr.Dataset, asked: Sequence[Question]) -> list[Question]:
    """Return criteria and judges of a page at tolerance 0, those asked for first."""
    pairs = list(dict.fromkeys(question.at(0.0) for question in asked))
    if table.sizes["source"] * table.sizes["target"] > SMALL_CELLS:
        return pairs or [Question("regret <= 0")]
    judges = JUDGES if table.sizes.get("policy", 1) > 1 else JUDGES[:1]
    level = "score" if (table["best_known"].values > 0).any() else "cost"
    names = dict.fromkeys(["regret", *CRITERIA, level])
    every = [Question(f"{name} {judge}").at(0.0) for judge in judges for name in names]
    return list(dict.fromkeys([*pairs, *every]))


def _all_losses(
    table: xr.Dataset, questions: Sequence[Question]
) -> dict[Question, NDArray[np.float64]]:
    """Return the losses of several questions, in one pass over the table.

    Args:
        table: a performance table, in memory or read as it is needed.
        questions: criteria and judges; their tolerances do not matter.

    Returns:
        Losses with dims `(source, target)`; a criterion that does not apply to the
        table is left out.
    """
    shape = table.sizes["source"], table.sizes["target"]
    n_numbers = len(questions) * shape[0] * shape[1]
    if n_numbers > MAX_NUMBERS:
        raise InvalidInputError(
            f"A page is made from at most {MAX_NUMBERS:,} losses, but {shape[0]:,} "
            f"sources at {shape[1]:,} targets by {len(questions)} criteria are "
            f"{n_numbers:,}. Choose fewer sources, e.g. "
            "table.isel(source=slice(None, None, 10))."
        )
    losses = {question: np.empty(shape) for question in questions}
    for rows in row_blocks(table):
        for question in list(losses):
            try:
                losses[question][rows] = question.rows(table, rows)
            except (InvalidInputError, KeyError):
                del losses[question]
    return losses
