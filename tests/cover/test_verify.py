"""The verifier accepts every honest cover and refuses every tampered one."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cover_problems import blobs, random_problem

from taskspace.cover import (
    Cover,
    CoverRefutedError,
    greedy_cover,
    local_cover,
    minimum_cover,
    verify_cover,
)
from taskspace.errors import InvalidInputError
from taskspace.sets import pack

MATRIX = blobs(10, radius=0.2)
MATRIX[:, 7] = False  # uncoverable
SETS = pack(MATRIX)
COVER = minimum_cover(SETS, time_limit=20)


def swapped_assignment():
    assignment = COVER.assignment.copy()
    target = next(
        t for t in range(SETS.n_targets) if sum(MATRIX[s, t] for s in COVER.sources) > 1
    )
    assignment[target] = next(
        s for s in COVER.sources[::-1] if MATRIX[s, target] and s != assignment[target]
    )
    return assignment


TAMPERED = {
    "a source less": {"sources": COVER.sources[:-1], "size": COVER.size - 1},
    "another source": {"sources": np.append(COVER.sources[:-1], 0)},
    "a source twice": {"sources": np.append(COVER.sources, COVER.sources[0])},
    "a source that is none": {"sources": np.append(COVER.sources[:-1], 10**6)},
    "a negative source": {"sources": np.append(COVER.sources[:-1], -1)},
    "a later server": {"assignment": swapped_assignment()},
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


def test_a_false_bound_below_the_cost_is_refuted_by_a_cheaper_cover():
    everything = np.arange(SETS.n_sources)
    wasteful = replace(
        greedy_cover(SETS),
        sources=everything,
        assignment=np.where(MATRIX.any(0), MATRIX.argmax(0), -1),
        size=len(everything),
        cost=len(everything),
    )
    assert verify_cover(wasteful, SETS).holds
    false = replace(wasteful, lower_bound=50)
    assert "refuted" in verify_cover(false, SETS).failures[0]


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
        (text.replace('"version": 1', '"version": 99'), "version 1"),
        (text.replace('"size"', '"sise"'), "size are missing"),
        (text.replace('"sources": [', '"sources": ["a", '), "list of integers"),
    ]:
        path.write_text(damaged)
        with pytest.raises(InvalidInputError, match=message):
            Cover.load(path)
    with pytest.raises(InvalidInputError, match="reading it failed"):
        Cover.load(tmp_path / "nowhere.json")
