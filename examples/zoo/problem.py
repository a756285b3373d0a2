"""A published problem, and what taskspace answers. Every plant of the zoo uses this."""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import taskspace as ts

LIMIT = 60.0  # processor seconds for a cover, a schedule, a proof or a design
N_DENSE = 121  # contexts at which a picture shows losses
PROVEN = ("continuum cover", "proof", True)


@dataclass(frozen=True)
class Problem:
    """A plant over a range of contexts, what is asked of it, and what is in use.

    Args:
        name: of the file and of its picture.
        plant: what is controlled, and by which kind of controller.
        contexts: the range, with units.
        in_use: the number that people use today.
        source: where that number is from.
        questions: the tolerance drawn in the figure, and the question; the first is
            the one of the table.
        system: the plant; None where `make_study` gives a table only.
        space: candidates and targets.
        make_study: gives policies and their scores; LQR gains if left out.
        interpolate: whether an interpolated schedule is asked for.
        design: whether the fewest gains of any design are asked for.
        candidates: breakpoints that a schedule may have on each axis.
        demand: the first question in the words of its field.
        prove: what is to be proven between the points; the first question if left out.
        used_at: where the controllers in use today were designed, on one axis.
    """

    name: str
    plant: str
    contexts: str
    in_use: str
    source: str
    questions: dict[float, str]
    system: Any = None
    space: ts.Grid | None = None
    make_study: Callable[[], ts.Study] | None = None
    interpolate: bool = True
    design: bool = True
    candidates: int | None = None
    demand: str = ""
    prove: str = ""
    used_at: tuple[float, ...] = ()

    def study(self) -> ts.Study:
        """Return the policies and their scores."""
        if self.make_study is not None:
            return self.make_study()
        return ts.evaluate(self.system, ts.trainers.Lqr(), self.space)


def percentages(*values: float) -> dict[float, str]:
    """Return questions about the ratio to the best cost, by tolerance."""
    return {value / 100: f"ratio <= {value:g} %" for value in values}


def answer(problem: Problem, progress: Callable[[str], object] = print) -> list[dict]:
    """Return the numbers of one problem, a record for each question.

    Args:
        problem: the problem.
        progress: told what is computed.
    """
    study = problem.study()
    records = []
    for tolerance, text in problem.questions.items():
        begin = time.process_time()
        progress(f"{problem.name}: {text}")
        cover = ts.minimum_cover(study, text, time_limit=LIMIT)
        record: dict[str, Any] = {
            "tolerance": tolerance,
            "ask": text,
            "candidates": study.n_sources,
            "constant": [int(cover.lower_bound), cover.size],
            "unserved": len(cover.uncoverable),
        }
        schedule = None
        if problem.interpolate:
            schedule = ts.schedule(
                study, text, candidates=problem.candidates, constant_pieces=False
            )
            record["interpolated"] = [schedule.lower_bound, schedule.size]
            record["shape"] = list(schedule.shape)
            record["breakpoints"] = {
                name: values.tolist() for name, values in schedule.breakpoints.items()
            }
        if not records:
            record["drawn"] = _drawn(problem, study, cover, schedule)
        if not records and problem.system is not None:
            asked = problem.prove or text
            record |= _proofs(problem, study, asked, cover, schedule)
        record["seconds"] = round(time.process_time() - begin, 1)
        records.append(record)
    return records


def _drawn(
    problem: Problem, study: ts.Study, cover: ts.Cover, schedule: ts.Schedule | None
) -> dict[str, Any]:
    """Return what the picture of a plant shows: who serves what, and how well.

    The curves are the loss by the first demand, between the targets too.
    """
    contexts = {
        str(name).removeprefix("target_"): values.values
        for name, values in study.table.coords.items()
        if str(name).startswith("target_")
    }
    record: dict[str, Any] = {
        "contexts": {name: values.tolist() for name, values in contexts.items()},
        "sources": cover.sources.tolist(),
        "assignment": cover.assignment.tolist(),
    }
    if len(contexts) > 1 or problem.system is None:
        return record
    [(name, targets)] = contexts.items()
    first = str(cover.question).partition(" and ")[0]
    dense = np.linspace(targets.min(), targets.max(), N_DENSE)
    space = ts.Points([name], dense)
    tried = ts.evaluate_policies(
        problem.system, study.policies, space, sources=study.sources
    )
    losses = ts.loss(tried, first).values
    nearest = np.abs(dense[:, None] - targets).argmin(1)
    record["dense"] = dense.tolist()
    record["constant_loss"] = losses[
        cover.assignment[nearest], np.arange(N_DENSE)
    ].tolist()
    if schedule is not None:
        numbers = schedule.numbers_at(dense[:, None])
        policies = schedule.structure.policies(numbers[:, None])
        tried = ts.evaluate_policies(problem.system, policies, space, sources=space)
        record["interpolated_loss"] = ts.loss(tried, first).values.diagonal().tolist()
    return record


def _proofs(
    problem: Problem,
    study: ts.Study,
    text: str,
    cover: ts.Cover,
    schedule: ts.Schedule | None,
) -> dict[str, Any]:
    """Return what holds between the points, and the bound over all gains."""
    record: dict[str, Any] = {"proven_constant": None}
    for selection in (None, None if problem.prove else cover.sources):
        found = ts.certify(study, text, selection=selection, time_limit=LIMIT)
        held = {(c.name, c.kind, c.holds) for c in found.certificates}
        if PROVEN in held and found.continuum is not None:
            record["proven_constant"] = found.continuum.size
            break
    if schedule is not None:
        proof = ts.certify(study, text, schedule=schedule, time_limit=LIMIT)
        record["proven_interpolated"] = any(
            certificate.name == "schedule"
            and certificate.kind == "proof"
            and certificate.holds
            for certificate in proof.certificates
        )
    if problem.design:
        made = ts.design(problem.system, problem.space, text, time_limit=LIMIT)
        record["any_design"] = [made.lower_bound_all, made.size]
    return record


def stored(problem: Problem, folder: Path, progress: Callable[[str], object] = print):
    """Return the numbers of one problem, from an earlier call where there was one.

    Args:
        problem: the problem.
        folder: where the numbers are, in one file per problem.
        progress: told what is computed.
    """
    here = Path(__file__).parent
    names = ("problem", problem.name.partition("_")[0], problem.name)
    text = "".join((here / f"{n}.py").read_text() for n in names)
    key = hashlib.sha256(f"{ts.__version__}\n{text}".encode()).hexdigest()
    path = folder / f"{problem.name}.json"
    if path.exists() and (record := json.loads(path.read_text()))["key"] == key:
        return record["answers"]
    answers = answer(problem, progress)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"key": key, "answers": answers}, indent=1))
    return answers


def number(bounds: list[int], n: int | None = None) -> str:
    """Return a number with what is known of it."""
    low, high = bounds
    of = f" of {n}" if n else ""
    return f"{high}{of}" if low == high else f"{high}{of} (at least {low})"


def words(record: dict[str, Any]) -> str:
    """Return the answer to one question in a line."""
    parts = [f"constant {number(record['constant'], record['candidates'])}"]
    if "interpolated" in record:
        parts.append(f"interpolated {' × '.join(map(str, record['shape']))}")
    if record.get("proven_constant"):
        parts.append(f"proven everywhere: {record['proven_constant']} constant")
    if record.get("proven_interpolated"):
        parts.append("the interpolated table is proven everywhere")
    if "any_design" in record:
        parts.append(f"of any design {number(record['any_design'])}")
    return "; ".join(parts)


def show(problem: Problem) -> None:
    """Compute and print one problem."""
    print(f"{problem.plant}; {problem.contexts}. In use: {problem.in_use}.")
    for record in answer(problem, lambda text: print(text, file=sys.stderr)):
        print(f"{record['ask']}: {words(record)}  [{record['seconds']} s]")
