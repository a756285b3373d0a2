"""Kernels are compiled as a step of their own, once, and only those needed."""

import importlib
import sys

import numpy as np
import pytest

from taskspace.cli.kernels import (
    KERNELS,
    Kernels,
    box_kernels,
    cold,
    compile_kernels,
    method_kernels,
    system_kernels,
)
from taskspace.cover import METHODS
from taskspace.systems import MassSpringDamper
from tests.helpers import taskspace

MODULE = """
from numba import njit

@njit(cache=True)
def double(x):
    return 2 * x
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    (tmp_path / "tiny_kernel.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("tiny_kernel", None)


def test_a_kernel_is_cold_until_it_is_kept(kernel, monkeypatch):
    module = importlib.import_module("tiny_kernel")
    assert cold(module.double)
    seen = []
    monkeypatch.setitem(
        KERNELS, "tiny", Kernels(("tiny_kernel", "double"), lambda: module.double(1.0))
    )
    assert compile_kernels(lambda *stage: seen.append(stage[:3]), ["tiny"])
    assert seen == [("compile", 0, 1), ("compile", 1, 1)]
    assert not cold(module.double)
    # Another process finds it on the disk, and there is nothing to report.
    del sys.modules["tiny_kernel"]
    again = importlib.import_module("tiny_kernel")
    assert not again.double.signatures
    assert not cold(again.double)
    assert not compile_kernels(lambda *stage: seen.append(stage), ["tiny"])
    assert len(seen) == 2


def test_a_plain_function_is_never_cold():
    assert not cold(len)


def test_what_is_needed():
    assert method_kernels(["greedy", "uniform", "random"]) == ["greedy"]
    assert method_kernels(METHODS) == ["greedy", "search"]
    assert system_kernels(MassSpringDamper()) == []
    assert system_kernels(MassSpringDamper(horizon=3.0)) == ["loops"]
    assert box_kernels(None) == []
    assert set(box_kernels(MassSpringDamper())) <= set(KERNELS)


def test_the_command_line_names_the_step(tmp_path, monkeypatch):
    file = tmp_path / "matrix.csv"
    np.savetxt(file, -np.random.default_rng(0).random((4, 4)), delimiter=",")
    asked = ("cover", file, "--epsilon", 0.3, "--format", "json")
    taskspace(*asked)
    assert "compile" not in taskspace(*asked).stderr
    monkeypatch.setattr("taskspace.cli.kernels.cold", lambda kernel: True)
    done = taskspace(*asked)
    assert done.returncode == 0
    assert "compile" in done.stderr


@pytest.mark.parametrize("name", ["greedy", "search"])
def test_warming_leaves_nothing_cold(name):
    KERNELS[name].warm()
    assert not KERNELS[name].is_cold
