"""Sentences are made from facts, once; nothing reads or cuts a sentence."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import taskspace
from taskspace.certificates.statements.words import (
    BoxFacts,
    FreshFacts,
    PilotFacts,
    Shares,
    margin_sentence,
)
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS, Provenance

SERVED = BoxFacts(
    question=Question("regret", epsilon=0.2),
    names=["k"],
    holds=True,
    size=2,
    n_policies=1,
    n_open=0,
    shares=Shares(1.0, 0.0, 0.0),
    witness=None,
    basis="interval arithmetic",
    n_sources=9,
)
FAILS = replace(SERVED, holds=False, shares=Shares(0.5, 0.25, 0.25), witness={"k": 1.5})
OPEN = replace(FAILS, witness=None, n_open=3)
TIME = "Time was up: a larger time limit may find a cover."


def test_what_holds_for_all_sources_is_not_said_of_the_candidates():
    among = replace(SERVED, n_candidates=4, bound_candidates=2)
    assert among.sentence.endswith("No fewer of 4 candidates among the 9 sources do.")
    both = replace(among, bound=1)
    assert "4 candidates among" in both.sentence
    assert both.sentence.endswith("At least 1 of the 9 sources are needed.")
    proven = replace(among, bound=2)
    assert "candidates" not in proven.sentence
    assert proven.sentence.endswith("No fewer of the 9 sources do.")


def test_a_lower_bound_of_one_is_news_only_beside_a_cover():
    assert replace(OPEN, bound=1).sentence == OPEN.sentence
    assert replace(OPEN, bound=2).sentence.endswith(
        "At least 2 of the 9 sources are needed."
    )
    assert "are needed" in replace(SERVED, bound=1).sentence


def test_the_time_is_named_once_and_only_where_more_of_it_may_help():
    assert replace(FAILS, is_time_up=True).sentence == f"{FAILS.sentence} {TIME}"
    # An open check names the time limit in its own sentence.
    assert replace(OPEN, is_time_up=True).sentence == OPEN.sentence
    assert OPEN.sentence.count("time limit") == 1
    assert replace(SERVED, is_time_up=True).sentence == SERVED.sentence
    hopeless = replace(FAILS, uncoverable={"k": 3.0}, is_time_up=True)
    assert TIME not in hopeless.sentence
    # It does not depend on words that a basis happens to use.
    told = replace(FAILS, basis="a table with a time limit", is_time_up=True)
    assert told.sentence.endswith(TIME)


def test_no_cover_exists_says_where_and_nothing_of_bounds():
    hopeless = replace(FAILS, uncoverable={"k": 3.0}, bound=2)
    assert hopeless.sentence == (
        "No cover of the whole box exists: none of the 9 sources manages k = 3. "
        "These 2 certainly serve 50 % of it; 25 % is refuted (parts that hold a "
        "context which none serves), 25 % is open."
    )


def test_between_nodes_says_what_the_nodes_had():
    some = replace(FAILS, nodes=(7, 8))
    assert some.sentence == (
        f"The 2 sources that serve 7 of the 8 nodes, between nodes. {FAILS.sentence}"
    )
    assert "serve every node," in replace(FAILS, nodes=(8, 8)).sentence
    assert replace(SERVED, nodes=(8, 8)).sentence == SERVED.sentence


def test_fresh_episodes_say_how_the_sources_were_selected():
    fresh = FreshFacts(
        question=SERVED.question,
        confidence=0.95,
        n_targets=4,
        n_certified=4,
        n_refuted=0,
        n_undecided=0,
        n_untried=0,
        n_reassigned=1,
        n_added=0,
        n_episodes=1200,
    )
    assert fresh.sentence.endswith(
        "(confidence 95 %, 1,200 fresh episodes). 1 target of these by another "
        "selected source."
    )
    chosen = replace(fresh, pilot=PilotFacts(6, 400, 2))
    assert chosen.sentence == (
        f"{fresh.sentence} Selected were 2 sources of a shortlist of 6, on 400 other "
        "episodes."
    )
    part = replace(fresh, n_certified=3, n_undecided=1, n_reassigned=0, is_cut=True)
    assert part.sentence.endswith(
        "1 undecided. The time limit ended it: a longer one may decide more."
    )
    assert replace(part, is_cut=False).sentence.endswith("1 undecided.")


@pytest.mark.parametrize(
    ("provenance", "last"),
    [
        ("exact", "so this is one too."),
        ("sampled", "J is a mean over episodes, so this is an estimate."),
        ("given", "It rests on the given table, so it is an estimate."),
    ],
)
def test_a_margin_says_what_it_rests_on(provenance, last):
    said = margin_sentence(3, "Λ is 2.", is_estimate=True, provenance=provenance)
    assert said.startswith("3 cells are open: their nodes keep no margin of Λδ. Λ is 2")
    assert said.endswith(last)
    more = margin_sentence(
        3, "Λ is 2.", is_estimate=True, provenance=provenance, reason="No bounds."
    )
    assert more == f"{said} No bounds."


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


def _tables_by_provenance(code: str) -> int:
    """How many dicts have words by all provenances; ranks are not words."""
    n_tables = 0
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            ranks = [isinstance(getattr(v, "value", ""), int) for v in node.values]
            n_tables += keys == set(get_args(Provenance)) and not all(ranks)
    return n_tables


def test_one_table_has_the_words_by_provenance():
    assert set(PROVENANCE_WORDS) == set(get_args(Provenance))
    assert PROVENANCE_WORDS["exact"].scope == PROVENANCE_WORDS["exact"].caution == ""
    planted = "w = {'exact': 'a', 'computed': 'd', 'sampled': 'b', 'given': 'c'}"
    assert _tables_by_provenance(planted) == 1
    root = Path(taskspace.__file__).parent
    where = [f for f in root.rglob("*.py") if _tables_by_provenance(f.read_text())]
    assert where == [root / "systems" / "base.py"]
