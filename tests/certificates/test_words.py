"""Sentences are made from facts, once; nothing reads or cuts a sentence."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskspace
import taskspace as ts
from taskspace.certificates.boxes.check import certify_cover
from taskspace.certificates.fresh import CERTIFIED, UNDECIDED, FreshCheck
from tests.certificates.worlds import msd_enclosure

SPACE = ts.Grid(k=(0.5, 4.0, 9))
EDGES = [np.linspace(0.5, 4.0, 33), np.array([1.0]), np.array([1.0])]
BOUNDS = msd_enclosure(SPACE)
AXES = ("k", "c", "m")
SERVED = replace(
    certify_cover(BOUNDS, [3, 6], EDGES, 0.5, axes=AXES), n_candidates=4, lower_bound=1
)
FAILS = replace(
    certify_cover(BOUNDS, [0, 1], EDGES, 1e-3, axes=AXES),
    n_candidates=4,
    lower_bound=1,
)
OPEN = replace(
    certify_cover(BOUNDS, [0, 1], EDGES, 1e-3, axes=AXES, time_limit=0.0),
    n_candidates=4,
    lower_bound=1,
)


def why(cover, **facts):
    return replace(cover, **facts).certificate.why


def test_what_holds_for_all_sources_is_not_said_of_the_candidates():
    assert SERVED.holds
    among = {"bound_candidates": 2}
    assert why(SERVED, **among).endswith(
        "No fewer of 4 candidates among the 9 sources do."
    )
    proven = why(SERVED, lower_bound=2, **among)
    assert "candidates" not in proven
    assert proven.endswith("No fewer of the 9 sources do.")


def test_a_lower_bound_of_one_is_no_news():
    for cover in (SERVED, OPEN, FAILS):
        assert "are needed" not in why(cover)
    for cover in (OPEN, FAILS):
        said = why(cover, lower_bound=2)
        assert said.endswith("At least 2 of the 9 sources are needed.")


def test_a_limit_that_ended_the_search_is_said():
    assert FAILS.witnesses
    assert not OPEN.witnesses
    for cover in (FAILS, OPEN):
        ended = why(cover, is_time_up=True)
        said = "The time limit ended the search: a larger time limit may find a cover."
        assert ended == f"{why(cover)} {said}"
    ended = why(SERVED, is_time_up=True)
    assert ended == f"{why(SERVED)} The time limit ended the search for fewer."
    assert "time" not in why(SERVED, is_time_up=True, lower_bound=2)
    hopeless = why(FAILS, uncoverable=np.array([3.0, 1.0, 1.0]), is_time_up=True)
    assert "time limit" not in hopeless


def test_no_cover_exists_says_where_and_nothing_of_bounds():
    said = why(FAILS, uncoverable=np.array([3.0, 1.0, 1.0]), lower_bound=2)
    assert said.startswith(
        "No cover of the whole box exists: none of the 9 sources serves k = 3. These 2 "
        "controllers certainly serve "
    )
    assert said.endswith("% is open.")


def test_between_nodes_says_what_the_nodes_had():
    some = why(FAILS, of_grid=(7, 8))
    assert (
        some == f"The sources that serve 7 of the 8 nodes, between nodes. {why(FAILS)}"
    )
    assert "serve every node," in why(FAILS, of_grid=(8, 8))
    assert why(SERVED, of_grid=(8, 8)) == why(SERVED)


def test_fresh_episodes_say_what_was_decided():
    fresh = FreshCheck(
        question=ts.Question("regret", epsilon=0.2),
        confidence=0.95,
        status=np.full(4, CERTIFIED, np.int8),
        assignment=np.array([0, 0, 1, 1]),
        n_episodes=np.full(4, 300),
        expected=np.full(4, np.inf),
        targets=ts.Points(["x"], np.arange(4.0)),
        source_contexts=ts.Points(["x"], np.arange(2.0)),
        is_cut=True,
    )
    assert fresh.certificate.why.endswith("(confidence 95 %, 1,200 fresh episodes).")
    status = np.array([CERTIFIED] * 3 + [UNDECIDED], np.int8)
    part = replace(fresh, status=status)
    assert "1 undecided. Undecided: x = 3. Their means" in part.certificate.why
    assert part.certificate.why.endswith(
        "The time limit ended it: a longer one may decide more."
    )
    assert "time limit" not in replace(part, is_cut=False).certificate.why


@pytest.mark.parametrize(
    ("provenance", "last"),
    [
        ("exact", "if it holds (no two targets of a cell of the grid contradict it)."),
        ("sampled", "J is a mean over episodes, so this is an estimate."),
        ("given", "It rests on the given table, so it is an estimate."),
    ],
)
def test_a_margin_says_what_it_rests_on(provenance, last):
    points = ts.Points(["x"], np.arange(4.0))
    table = ts.performance.table_from_matrix(
        -np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))),
        sources=points,
        targets=points,
        provenance=provenance,
    )
    said = ts.certify(table, "regret <= 1", rates=1.0)["continuum cover"].why
    assert "cells are open: their nodes keep no margin of Λδ. Λ as given" in said
    assert said.endswith(last)


def _readers(code: str) -> list[int]:
    """Lines that look into a sentence, or cut one."""
    lines = []
    for node in ast.walk(ast.parse(code)):
        looked_at: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            looked_at = [node.func.value]
        elif isinstance(node, ast.Compare):
            within = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
            looked_at = node.comparators if within else []
        elif isinstance(node, ast.Subscript):
            looked_at = [node.value]
        lines += [
            item.lineno
            for item in looked_at
            if isinstance(item, ast.Attribute) and item.attr in ("why", "statement")
        ]
    return lines


def test_nothing_reads_or_cuts_a_sentence():
    planted = "a = 'x' in c.why\nb = c.why.removesuffix('.')\nd = c.statement[:-1]"
    assert sorted(_readers(planted)) == [1, 2, 3]
    root = Path(taskspace.__file__).parent
    for file in root.rglob("*.py"):
        assert not _readers(file.read_text()), file
