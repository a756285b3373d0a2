"""Every store passes the same cases: none is told from another by what it holds."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskspace.errors import RunStoreError
from taskspace.performance.store.base import MemoryStore, Source
from taskspace.performance.store.disk import DiskStore, read_manifest
from taskspace.performance.store.records import Header, Layout, SystemFacts
from taskspace.performance.work import Rows, TrainedBlock
from taskspace.policies import LinearGain
from taskspace.trainers.base import Trained

N_TARGETS = 3
LAYOUT = Layout(1, N_TARGETS, 0, 2, 3, ("performance",))
SOURCES = Source.at(np.arange(8.0)[:, None], seed=0)


def disk(path, records=(), damage=()):
    header = Header({}, LAYOUT, {}, SystemFacts())
    return DiskStore(path, header, records, damage)


def reopened(store, mended=False) -> Any:
    """The same directory, as another process finds it; memory has no other process."""
    if isinstance(store, MemoryStore):
        return store
    (_, *records), damage = read_manifest(store.path)
    again = disk(store.path, records, damage)
    if mended:
        again.forget_damaged()
    again.plan(store.sources)
    return again


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    made = disk(tmp_path)
    made.compact()
    return made


def block(*numbers):
    gains = np.array(numbers, float).reshape(-1, 1, 1, 1)
    steps = np.array(numbers, np.int64).reshape(-1, 1)
    return TrainedBlock(Trained(LinearGain(gains), steps), -gains[:, :, 0, 0])


def rows(*numbers):
    values = np.array(numbers, float)[:, None, None] + np.arange(N_TARGETS) / 10
    return Rows({"performance": values}, values.max((0, 1)))


def gains(found):
    return found.trained.policies.arrays()["gain"].reshape(-1).tolist()


def test_what_is_appended_is_read_and_the_rest_is_missing(store):
    store.plan(SOURCES[:6])
    assert store.missing(SOURCES[:6]) == SOURCES[:6]
    store.append(SOURCES[2:4], block(2, 3))
    store.append(SOURCES[:1], block(0))
    store.fail(SOURCES[5], "ZeroDivisionError: x")
    store = reopened(store)
    assert store.missing(SOURCES[:6]) == [SOURCES[1], SOURCES[4]]
    assert store.trained.tolist() == [True, False, True, True, False, False]
    assert gains(store.read([SOURCES[3], SOURCES[0]])) == [3.0, 0.0]
    assert store.failures == {SOURCES[5]: "ZeroDivisionError: x"}
    # A failure is tried again, and its policies join those of its block.
    store.append(SOURCES[5:6], block(5))
    store.append(SOURCES[1:2], block(1))
    store = reopened(store)
    assert not store.failures
    assert gains(store.read(SOURCES[:4])) == [0.0, 1.0, 2.0, 3.0]
    assert store.read(SOURCES[5:6]).home.tolist() == [[-5.0]]


def test_rows_join_and_the_best_is_known(store):
    store.plan(SOURCES[:5])
    for numbers in ([0, 2], [3], [1]):
        keys = [SOURCES[number] for number in numbers]
        for key, number in zip(keys, numbers, strict=True):
            store.append([key], block(number))
        store.append_rows(numbers, rows(*numbers))
        store = reopened(store)
        assert store.evaluated[numbers].all()
    assert store.evaluated.tolist() == [True] * 4 + [False]
    found = store.variables(["performance"], np.array([0, 1, 3]))["performance"]
    expected = rows(0, 1, 3).variables["performance"]
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(store.top(), rows(3).top)


def test_seed_kind_weights_and_how_tell_trainings_apart(store):
    one = SOURCES[0]
    others = [
        Source(one.contexts, 1),
        Source(one.contexts, 0, "designed"),
        Source(one.contexts, 0, how="abc"),
        Source(((0.0,), (1.0,)), 0, "region", (0.25, 0.75)),
        Source(((0.0,), (1.0,)), 0, "region", (0.5, 0.5)),
    ]
    store.plan([one, *others])
    for number, source in enumerate([one, *others]):
        assert store.missing([source]) == [source]
        store.append([source], block(number))
    store = reopened(store)
    assert gains(store.read(others[::-1])) == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert Source.at(np.array([[-0.0]]), 0) == [one]


def test_a_source_that_is_planned_twice_is_trained_once(store):
    store.plan([SOURCES[0], SOURCES[1], SOURCES[0]])
    assert store.missing(store.sources) == SOURCES[:2]
    store.append(SOURCES[:1], block(0))
    assert store.trained.tolist() == [True, False, True]
    store.append_rows([2], rows(0))
    assert reopened(store).evaluated.tolist() == [False, False, True]


def test_a_row_that_is_withheld_does_not_count(store):
    store.plan(SOURCES[:2])
    for number in (0, 1):
        store.append([SOURCES[number]], block(number))
    store.append_rows([0, 1], rows(0, 1))
    store.withhold(1)
    assert store.evaluated.tolist() == [True, False]
    store.admit(1)
    assert store.evaluated.all()
    np.testing.assert_array_equal(store.top(), rows(1).top)


def test_trainings_planned_in_another_order_are_found(tmp_path):
    store = disk(tmp_path)
    store.compact()
    store.plan(SOURCES[:4])
    for first in (0, 2):
        store.append(SOURCES[first : first + 2], block(first, first + 1))
    (_, *records), _ = read_manifest(tmp_path)
    other = disk(tmp_path, records)
    other.plan(SOURCES[3:5])
    assert other.trained.tolist() == [True, False]
    assert gains(other.read(SOURCES[3:4])) == [3.0]
    assert gains(reopened(other).read(SOURCES[3:4])) == [3.0]


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(8)), cut=st.integers(1, 40))
def test_the_bytes_do_not_tell_who_finished_first_or_was_killed(
    tmp_path_factory, order, cut
):
    """Any order of trainings, and a line that is cut short: the same directory."""
    whole, other = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    for path, numbers in ((whole, range(8)), (other, order)):
        store = disk(path)
        store.compact()
        store.plan(SOURCES)
        for number in numbers:
            store.append([SOURCES[number]], block(number))
            store.append_rows([number], rows(number))
        if path is other:
            file = path / "manifest.jsonl"
            file.write_bytes(file.read_bytes()[:-cut])  # the last line at most
            store = reopened(store, mended=True)
            for source in store.missing(SOURCES):
                store.append([source], block(SOURCES.index(source)))
            for number in np.flatnonzero(~store.evaluated).tolist():
                store.append_rows([number], rows(number))
        store.compact()
    files = {p.relative_to(whole) for p in whole.rglob("*") if p.is_file()}
    assert files == {p.relative_to(other) for p in other.rglob("*") if p.is_file()}
    for name in files:
        assert (whole / name).read_bytes() == (other / name).read_bytes(), name


def test_damage_is_noticed_and_forgotten(tmp_path):
    store = disk(tmp_path)
    store.compact()
    store.plan(SOURCES[:4])
    for first in (0, 2):
        store.append(SOURCES[first : first + 2], block(first, first + 1))
    file = tmp_path / "policies" / "block-00001.npz"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    again = reopened(store)
    with pytest.raises(RunStoreError, match="checksum"):
        again.read(SOURCES[2:3])
    assert len(again.damages()) == 1
    (_, *records), _ = read_manifest(tmp_path)
    mended = disk(tmp_path, records)
    assert len(mended.forget_damaged()) == 1
    mended.plan(SOURCES[:4])
    assert mended.missing(SOURCES[:4]) == SOURCES[2:4]
