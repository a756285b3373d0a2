"""The verifier accepts every honest cover and refuses every tampered one."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from taskspace.cover import (
    Cover,
    CoverRefutedError,
    PriceProof,
    greedy_cover,
    local_cover,
    minimum_cover,
    verify_cover,
)
from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from tests.cover.cover_problems import blobs, random_problem
from tests.cover.known_covers import read_set_cover
from tests.helpers import taskspace

MATRIX = blobs(10, radius=0.2)
MATRIX[:, 7] = False  # uncoverable
SETS = pack(MATRIX)
COVER = minimum_cover(SETS, time_limit=20)


def swapped_assignment(serves):
    """The assignment with one target given to a source that does or does not serve it.

    A source that serves it but is not selected, or one that is selected but does not.
    """
    assignment = COVER.assignment.copy()
    target = int(np.flatnonzero(assignment >= 0)[0])
    assignment[target] = next(
        s
        for s in range(SETS.n_sources)
        if MATRIX[s, target] == serves and (s in COVER.sources) != serves
    )
    return assignment


def changed_prices(change):
    prices = COVER.prices
    assert prices is not None
    return {"prices": replace(prices, **change(prices))}


def selected(cover, matrix, sources, **claims):
    """The cover with other sources, and everything that can be counted set right."""
    rows = matrix[sources]
    who = sources[rows.argmax(0)] if len(sources) else -1
    return replace(
        cover,
        sources=sources,
        assignment=np.where(rows.any(0), who, -1),
        coverage=float(rows.any(0).mean()),
        size=len(sources),
        cost=float(len(sources)),
        **claims,
    )


TAMPERED = {
    "a source less": {"sources": COVER.sources[:-1], "size": COVER.size - 1},
    "another source": {"sources": np.append(COVER.sources[:-1], 0)},
    "a source twice": {"sources": np.append(COVER.sources, COVER.sources[0])},
    "a source that is none": {"sources": np.append(COVER.sources[:-1], 10**6)},
    "a negative source": {"sources": np.append(COVER.sources[:-1], -1)},
    "a server that is not selected": {"assignment": swapped_assignment(True)},
    "a selected source that does not serve": {"assignment": swapped_assignment(False)},
    "a target left out": {"assignment": np.full(SETS.n_targets, -1)},
    "a short assignment": {"assignment": COVER.assignment[:-1]},
    "full coverage": {"coverage": 1.0},
    "no uncoverable target": {"uncoverable": np.zeros(0, np.int64)},
    "another uncoverable target": {"uncoverable": np.array([8])},
    "a smaller size": {"size": COVER.size - 1},
    "a smaller cost": {"cost": COVER.cost - 1},
    "a bound above the cost": {"lower_bound": COVER.lower_bound + 1},
    "a bound that is none": {"lower_bound": float("nan")},
    "optimal with a lower bound": {"lower_bound": COVER.lower_bound - 1},
    "other sources to choose from": {"n_sources": SETS.n_sources + 1},
    "other targets": {"n_targets": SETS.n_targets - 1},
    "prices too high": changed_prices(lambda p: {"units": p.units * 2}),
    "prices too low": changed_prices(
        lambda p: {"units": p.units[:-1], "targets": p.targets[:-1]}
    ),
    "a negative price": changed_prices(lambda p: {"units": -p.units}),
    "a smaller unit": changed_prices(lambda p: {"unit": p.unit / 3}),
    "a coarser shift": changed_prices(lambda p: {"shift": p.shift - 1}),
    "a target priced twice": changed_prices(
        lambda p: {"targets": p.targets[[0, *range(len(p.targets) - 1)]]}
    ),
    "a price on what no source serves": changed_prices(
        lambda p: {"targets": np.sort(np.append(p.targets[1:], 7))}
    ),
    "a price beyond the targets": changed_prices(
        lambda p: {"targets": p.targets + SETS.n_targets}
    ),
}


def test_honest_covers_hold():
    for cover in (COVER, greedy_cover(SETS), local_cover(SETS, max_steps=50)):
        assert verify_cover(cover, SETS).failures == ()
    for seed in range(40):
        sets = pack(random_problem(seed))
        assert verify_cover(greedy_cover(sets, share=0.6), sets).failures == ()


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_covers_are_refused(what):
    tampered = replace(COVER, **TAMPERED[what])
    result = verify_cover(tampered, SETS)
    assert not result
    assert result.failures
    with pytest.raises(CoverRefutedError, match="must follow from its sets"):
        verify_cover(tampered, SETS, raise_on_failure=True)


def test_a_false_bound_below_the_cost_is_not_proven():
    wasteful = selected(greedy_cover(SETS), MATRIX, np.arange(SETS.n_sources))
    assert verify_cover(wasteful, SETS).holds
    false = replace(wasteful, lower_bound=50)
    assert "prices prove" in verify_cover(false, SETS).failures[0]
    # Said to come from a solver, or without prices, nothing proves it.
    for hidden in ({"lower_bound_kind": "exact"}, {"prices": None}):
        found = verify_cover(replace(false, **hidden), SETS)
        assert "was not proven again" in found.not_checked[0]


def test_prices_of_a_full_cover_prove_nothing_of_a_partial_one():
    """Sources 1 and 7 serve as many targets as the three that are claimed least."""
    rows = [
        "01111001100000", "10100001000001", "00010000101000", "00101110010000",
        "00000000001100", "11010100100010", "11010100100001", "01011000111000",
    ]  # fmt: skip
    matrix = np.array([[x == "1" for x in row] for row in rows])
    sets = pack(matrix)
    full = minimum_cover(sets)
    claim = selected(full, matrix, np.array([0, 1, 4]), lower_bound=3.0, optimal=True)
    assert claim.coverage == 10 / 14
    assert matrix[[1, 7]].any(0).sum() == 10
    found = verify_cover(claim, sets)
    assert not found.holds
    assert "prove nothing" in found.failures[0]
    assert verify_cover(full, sets).holds


def test_a_false_bound_of_any_partial_cover_is_not_proven():
    """Any two sources as a "least" partial cover, with the prices of the full one."""
    for seed in range(12):
        matrix = random_problem(seed)
        sets = pack(matrix)
        full = minimum_cover(sets)
        chosen = np.sort(full.sources)[:-1]
        if not full.size or not (matrix.any(0) & ~matrix[chosen].any(0)).any():
            continue
        claims = {"lower_bound_kind": "reductions", "optimal": True}
        claim = selected(full, matrix, chosen, lower_bound=float(len(chosen)), **claims)
        assert not any("prices" in s for s in verify_cover(claim, sets).proven), seed


def test_restrictions_of_a_claim_are_said():
    """A surplus source is optimal if every source "must be in": that has to show."""
    every, none = np.arange(3), np.zeros(0, np.int64)
    sets = pack(np.eye(3, dtype=bool) | np.eye(3, k=1, dtype=bool))
    honest = minimum_cover(sets)
    assert (honest.size, verify_cover(honest, sets).conditions) == (2, ())
    prices = PriceProof(Fraction(1), 0, True, none, none)
    claims = {"size": 3, "cost": 3.0, "lower_bound": 3.0, "prices": prices}
    padded = replace(
        honest, sources=every, include=every, lower_bound_kind="reductions", **claims
    )
    (condition,) = verify_cover(padded, sets).conditions
    assert "sources 0, 1, 2 must be in" in condition


def verified(*arguments):
    done = taskspace("verify", *arguments, "--format", "json")
    return done.returncode, json.loads(done.stdout)


def test_the_question_is_named_and_can_be_demanded(tmp_path):
    matrix, file = tmp_path / "m.csv", tmp_path / "cover.json"
    matrix.write_text("source,t,u,v,note\na,5,2,2,7\nb,2,5,4,7\nc,0,1,5,7\n")
    weights = tmp_path / "weights.txt"
    weights.write_text("1\n2\n1\n")
    options = ["--read", 'ignore=["note"]', "--include", "c", "--weights", weights]
    taskspace("cover", matrix, "--ask", "regret <= 1", *options, "--save", file)
    code, record = verified(file, matrix)
    assert code == 0
    asked = record["question"]
    assert asked["ask"] == "regret <= 1"
    assert (asked["include"], asked["exclude"]) == (["c"], [])
    assert (asked["read"], asked["weights"]) == ({"ignore": ["note"]}, str(weights))
    text = " ".join(taskspace("verify", file, matrix).stdout.split())
    for words in ("regret ≤ 1", "include ['c']", "ignore=['note']"):
        assert words in text
    assert verified(file, matrix, "--ask", "regret <= 1")[0] == 0
    for wrong in ("regret <= 0.5", "ratio <= 1", "regret <= 1 best"):
        code, record = verified(file, matrix, "--ask", wrong)
        assert (code, record["holds"]) == (1, False)
        assert f"'{wrong}' is demanded" in record["failures"][0]
    # A file that was given another tolerance is true of that one, and says so.
    values = json.loads(file.read_text())
    values["question"]["ask"] = "regret <= 1.5"
    file.write_text(json.dumps(values))
    code, record = verified(file, matrix)
    assert record["question"]["ask"] == "regret <= 1.5"
    assert verified(file, matrix, "--ask", "regret <= 1")[0] == 1
    assert taskspace("verify", tmp_path, "--ask", "regret <= 1").returncode == 2


def test_costs_are_part_of_the_claim():
    costs = np.random.default_rng(0).integers(1, 9, SETS.n_sources).astype(float)
    cover = minimum_cover(SETS, costs=costs, time_limit=20)
    assert verify_cover(cover, SETS, costs).holds
    assert not verify_cover(cover, SETS)


def test_other_data_refute_a_cover():
    other = MATRIX.copy()
    other[COVER.sources[0]] = False
    assert not verify_cover(COVER, pack(other))


def test_round_trip(tmp_path):
    COVER.save(tmp_path / "cover.json")
    assert Cover.load(tmp_path / "cover.json") == COVER
    assert Cover.from_dict(json.loads(json.dumps(COVER.to_dict()))) == COVER
    assert replace(COVER, size=0) != COVER
    assert COVER != 3


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "cover.json"
    COVER.save(path)
    text = path.read_text()
    for damaged, message in [
        (text[: len(text) // 2], "saved as JSON"),
        ("[1, 2]", "something else"),
        (text.replace('"version": 5', '"version": 4'), "format version 5"),
        (text.replace('"shift"', '"shifd"'), "reading them failed"),
        (text.replace('"unit": "1"', '"unit": "1/0"'), "reading them failed"),
        (text.replace('"size"', '"sise"'), "missing required field `size`"),
        (text.replace('"sources": [', '"sources": ["a", '), "list of int64"),
    ]:
        path.write_text(damaged)
        with pytest.raises(InvalidInputError, match=message):
            Cover.load(path)
    with pytest.raises(InvalidInputError, match="reading it failed"):
        Cover.load(tmp_path / "nowhere.json")


ASSETS = Path(__file__).parents[1] / "assets"


def test_a_cover_of_this_format_opens_and_holds():
    cover = Cover.load(ASSETS / "cover-v5.json")
    sets, _ = read_set_cover(ASSETS / "setcover" / "sts9.txt")
    assert (cover.size, cover.lower_bound, cover.optimal) == (5, 5, True)
    found = verify_cover(cover, sets)
    assert found.holds
    assert "trying all selections" in found.proven[0]
    # Without the time for that, it says what is proven instead.
    shown = verify_cover(cover, sets, effort=0)
    assert shown.holds
    assert shown.not_checked[0].endswith("its prices prove 2 less")


def test_prices_prove_bounds_of_parts_and_of_forced_sources():
    """Four triangles need two each, one target has one source: 9, prices sum to 7."""
    triangle = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], bool)
    matrix = np.zeros((13, 13), bool)
    matrix[:12, :12] = np.kron(np.eye(4, dtype=bool), triangle)
    matrix[12, 12] = True
    sets = pack(matrix)
    cover = minimum_cover(sets)
    assert (cover.lower_bound, cover.optimal) == (9, True)
    found = verify_cover(cover, sets, effort=0)
    assert found.not_checked == ()
    assert "proven again by its prices" in found.proven[0]


def test_saved_prices_are_of_moderate_size(tmp_path):
    sets = pack(blobs(30))
    cover = minimum_cover(sets, time_limit=2)
    cover.save(tmp_path / "cover.json")
    assert (tmp_path / "cover.json").stat().st_size < 60 * sets.n_targets
    again = Cover.load(tmp_path / "cover.json")
    assert again == cover
    assert verify_cover(again, sets).proven or cover.lower_bound_kind == "exact"
