"""What a selector must satisfy, ours or yours.

It is tried on tasks where a policy is a number x and J(t, x) = −|t − x|, so every
context can be served by a training of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskspace._util.arrays import Array
from taskspace.policies import LinearGain
from taskspace.questions import Question
from taskspace.selection.log import Log
from taskspace.selection.loop import COVERED, SelectionLoop
from taskspace.selection.options import Options
from taskspace.selection.selecting import new_selection_ledger
from taskspace.selection.selectors.base import Selector
from taskspace.spaces import Grid, Space
from taskspace.systems.base import ContextAxis, System
from taskspace.testing.checks import Check, assert_all
from taskspace.trainers.base import Trained
from taskspace.trainers.region import Region, RegionTrainer

__all__ = ["assert_selector", "check_selector"]

SPACES = Grid(x0=(0.0, 12.0, 13)), Grid(x0=(0.0, 4.0, 5), x1=(0.0, 4.0, 5))
QUESTION = Question("regret", epsilon=1.5)


@dataclass(frozen=True)
class _Distance(System):
    """J is minus the distance between a target and the number that is a policy."""

    n_axes: int = 1
    id: ClassVar[str] = "distance-v1"
    provenance: ClassVar[Any] = "exact"

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        return tuple(ContextAxis(f"x{i}", 0.0) for i in range(self.n_axes))

    def performance(self, policies: Any, contexts: Array) -> Array:
        away = policies.gain[:, :, None, 0] - contexts
        return -np.sqrt((away**2).sum(-1))

    def optimum(self, contexts: Array) -> Array:
        return np.zeros(len(contexts))


@dataclass(frozen=True)
class _Mean(RegionTrainer[LinearGain]):
    """The policy of a region is its mean; with it, that of a context the context."""

    n_policies: int = 1
    total_steps: int = 100
    id: ClassVar[str] = "mean"

    @property
    def steps_per_source(self) -> int:
        return self.total_steps

    def train_region(
        self, system: System, region: Region, *, seed: int, start: Any = None
    ) -> Trained[LinearGain]:
        del system, seed, start
        gain = (region.weights @ region.contexts)[None, None, None]
        steps = np.array([[min(self.total_steps, 10 * len(region.contexts))]])
        return Trained(LinearGain(gain), steps, {"since_best": np.ones((1, 1))})


def check_selector(make: Callable[[Space, int], Selector]) -> list[Check]:
    """Return what holds of a selector, one check for each promise.

    Args:
        make: makes it for contexts that may be trained, and a seed: its class.
    """
    found: dict[str, str] = {}
    for space in SPACES:
        for name, problem in _problems(make, space):
            found.setdefault(name, problem)
    fine = {
        "candidates": "it proposes at most n finite candidates that are not planned",
        "pure": "the same question gets the same proposals",
        "covers": "it goes on until every target is covered",
        "resumes": "after a kill the same sequence follows",
    }
    if not make(SPACES[0], 0).tries_homes:
        found.pop("covers", None)
        fine["covers"] = "it promises to stop, not to try every target at home"
    return [Check(n, n not in found, found.get(n, text)) for n, text in fine.items()]


def assert_selector(make: Callable[[Space, int], Selector]) -> None:
    """Raise an AssertionError that names every promise which a selector breaks.

    Args:
        make: makes it, see `check_selector`.
    """
    assert_all(check_selector(make))


def _selection(
    make: Callable[[Space, int], Selector], space: Space, log: Log
) -> SelectionLoop:
    """Return a selection of these contexts that goes on with a log."""
    system, trainer = _Distance(len(space.names)), _Mean()
    ledger = new_selection_ledger(system, trainer, space, space, QUESTION, seed=0)
    return SelectionLoop(ledger, make(space, 0), QUESTION, Options(), log=log)


def _problems(
    make: Callable[[Space, int], Selector], space: Space
) -> list[tuple[str, str]]:
    """Return each promise that is broken for these contexts, and how."""
    whole = _selection(make, space, Log())
    problems: list[tuple[str, str]] = []
    real = whole.selector.propose

    def watched(ledger: Any, question: Question, n: int) -> Array:
        version, rows = ledger.version, np.asarray(real(ledger, question, n))
        again = np.asarray(make(space, 0).propose(ledger, question, n))
        if rows.shape != again.shape or not (rows == again).all():
            text = f"A fresh selector proposed {again.tolist()}, not {rows.tolist()}."
            problems.append(("pure", text))
        if ledger.version != version:
            problems.append(("pure", "It changed the ledger."))
        if text := _not_candidates(whole.selector, ledger, rows, n):
            problems.append(("candidates", text))
        for more in (2, 3):
            several = np.asarray(make(space, 0).propose(ledger, question, more))
            if text := _not_candidates(whole.selector, ledger, several, more):
                problems.append(("candidates", text))
        return rows

    whole.selector.propose = watched
    reason = whole.run()
    lines = whole.log.lines
    if reason != COVERED:
        n = int((~whole.look().covered).sum())
        text = f"It stopped ({reason}) with {n} of {space.size} targets uncovered."
        problems.append(("covers", text))
    for cut in range(1, len(lines)):
        again = _selection(make, space, Log(lines=lines[:cut]))
        again.run()
        if again.log.proposals != whole.log.proposals:
            text = f"Killed after line {cut} of its log, it goes on with others."
            problems.append(("resumes", text))
            break
    return problems


def _not_candidates(selector: Selector, ledger: Any, rows: Array, n: int) -> str:
    """Return why rows are no candidates to train next, empty if they are."""
    candidates = selector.candidates
    rows = rows.reshape(-1, len(candidates.space.names)) if not rows.size else rows
    if rows.ndim != 2 or rows.shape[1] != len(candidates.space.names):
        return f"It must propose one row per context, but proposed {rows.tolist()}."
    if len(rows) > n:
        return f"It must propose at most {n} contexts, but proposed {len(rows)}."
    planned = ledger.sources.points if ledger.n_sources else rows[:0]
    seen = {tuple(row) for row in planned.tolist()}
    there = {tuple(row) for row in candidates.points.tolist()}
    for row in map(tuple, rows.tolist()):
        if not np.isfinite(row).all():
            return f"It must propose finite numbers, but proposed {row}."
        if row in seen:
            return f"It proposed {row}, which is planned already."
        if row not in there and not selector.anywhere:
            return f"It proposed {row}, which is no candidate."
        seen.add(row)
    return ""
