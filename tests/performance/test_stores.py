"""What a ledger knows does not depend on where it is kept, nor on who was first."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import DamagedFileError
from taskspace.performance.blocks import BlockFolder, Layout, StoredBlock
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import Task
from taskspace.systems import MassSpringDamper
from taskspace.trainers import Lqr

SPACE = ts.Grid(k=(1.0, 4.0, 4), c=(1.0, 2.0, 2))
SYSTEM = MassSpringDamper()
TASK = Task(
    SYSTEM, Lqr(n_policies=2, noise=0.1), SYSTEM.contexts(SPACE), 0, ("performance",)
)
LAYOUT = Layout(2, 8, 0, 3, ("performance",))


def folder(path):
    return BlockFolder(path, LAYOUT, "made", TASK.targets)


def ledger(path=None):
    return Ledger(TASK, SPACE, SPACE, folder=None if path is None else folder(path))


def reopened(path):
    found = ledger(path)
    for prefix, numbers in found.folder.asked(TASK.system.contexts(SPACE)):
        block = found.folder.find(prefix)
        if block is not None:
            found.enter(numbers, block)
    return found


def test_memory_and_files_hold_the_same(tmp_path):
    here, there = ledger(), ledger(tmp_path)
    here.work_off()
    there.work_off()
    for other in (there, reopened(tmp_path)):
        assert other.evaluated.all()
        assert other.missing() == []
        assert other.table().load().identical(here.table())
        np.testing.assert_array_equal(other.top(), here.top())
        some = [5, 0, 6]
        mine, theirs = (one.policies(some).trained.policies for one in (here, other))
        np.testing.assert_array_equal(mine.arrays()["gain"], theirs.arrays()["gain"])


def test_what_is_not_stored_is_missing(tmp_path):
    first = ledger(tmp_path)
    (prefix, work), *_ = first.missing()
    first.tell(work, TASK.do(work), prefix)
    again = reopened(tmp_path)
    assert again.evaluated.tolist() == [True] * 3 + [False] * 5
    assert [w.numbers.tolist() for _, w in again.missing()] == [[3, 4, 5], [6, 7]]
    assert again.table().sizes["source"] == 3
    assert again.table().attrs["n_planned"] == 8


def test_a_failure_is_kept_and_tried_again(tmp_path, monkeypatch):
    def fails(self, contexts, seed=None, real=Task.train):
        if (contexts[:, 0] == 2.0).any():
            raise ZeroDivisionError("x")
        return real(self, contexts, seed)

    with monkeypatch.context() as patch:
        patch.setattr(Task, "train", fails)
        found = ledger(tmp_path)
        for prefix, work in found.missing():
            found.tell(work, TASK.do(work, record_failures=True), prefix)
    again = reopened(tmp_path)
    assert again.failures == {2: "ZeroDivisionError: x", 3: "ZeroDivisionError: x"}
    assert again.states[2] == ("failed", "ZeroDivisionError: x")
    assert not again.pending.any()
    assert [w.numbers.tolist() for _, w in again.missing()] == [[0, 1, 2], [3, 4, 5]]
    # What did not fail is a part of the work, and not trained again.
    known = [again.before(work) for _, work in again.missing()]
    assert [b.places.tolist() for b in known if b] == [[0, 1], [1, 2]]
    assert all(b.known.all() for b in known if b)
    again.work_off()
    assert not again.failures
    whole = ledger()
    whole.work_off()
    assert again.table().load().identical(whole.table())


def test_everything_that_numbers_depend_on_is_in_a_key(tmp_path):
    def other(made_by="made", targets=TASK.targets, **layout):
        values = {"n_policies": 2, "n_targets": 8, "n_episodes": 0, "rows": 3}
        values |= {"variables": ("performance",)} | layout
        return BlockFolder(tmp_path, Layout(**values), made_by, targets)

    folders = [
        other(), other("else"), other(targets=TASK.targets[:-1]),
        other(variables=("worst",)), other(is_computed=True),
    ]  # fmt: skip
    names = [one.prefix(0, [[1.0]]) for one in folders]
    names += [other().prefix(0, [[2.0]]), other().prefix(1, [[1.0]])]
    assert len(set(names)) == len(names)
    # A table that is computed as it is read depends on no target.
    computed = other(is_computed=True, targets=TASK.targets[:-1])
    assert computed.prefix(0, [[1.0]]) == names[4]


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(3)))
def test_the_bytes_do_not_tell_who_finished_first(tmp_path_factory, order):
    whole, other = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    for path, places in ((whole, range(3)), (other, order)):
        found = ledger(path)
        pieces = found.missing()
        for place in places:
            prefix, work = pieces[place]
            found.tell(work, TASK.do(work), prefix)
    files = {file.name: file.read_bytes() for file in whole.iterdir()}
    assert files == {file.name: file.read_bytes() for file in other.iterdir()}


@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_damage_is_noticed(tmp_path, place):
    ledger(tmp_path).work_off()
    file = sorted(tmp_path.iterdir())[1]
    assert StoredBlock(file, LAYOUT).damage() == ""
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 1
    file.write_bytes(data)
    try:
        assert "checksum" in StoredBlock(file, LAYOUT).damage()
    except DamagedFileError as error:
        assert file.name in str(error)  # noqa: PT017
