"""Compiling a kernel takes nothing of a time limit, and commands name it."""

import importlib
import sys
import time

import pytest

from taskspace._util.clock import Clock, compilations_told, compiled_seconds

MODULE = """
from numba import njit

@njit(cache=True)
def inner(x):
    return 2 * x

@njit(cache=True)
def outer(x):
    return inner(x) + 1
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    (tmp_path / "tiny_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def load():
        sys.modules.pop("tiny_kernels", None)
        return importlib.import_module("tiny_kernels")

    yield load
    sys.modules.pop("tiny_kernels", None)


def test_a_limit_stands_still_while_a_kernel_is_compiled(kernels):
    module, clock = kernels(), Clock(60.0)
    began, before = time.process_time(), compiled_seconds()
    assert module.outer(1.0) == 3.0
    passed = time.process_time() - began
    compiled = compiled_seconds() - before
    # One kernel calls the other: their times are not added up.
    assert 0.5 * passed < compiled <= passed
    assert 60.0 - clock.left <= passed - compiled + 1e-2
    assert clock.seconds > 0.9 * passed
    # Compiled, it takes time like anything else.
    before = compiled_seconds()
    module.outer(2.0)
    assert compiled_seconds() == before


def test_a_compilation_is_told_and_a_loaded_kernel_is_not(kernels):
    heard = []
    with compilations_told(lambda *what: heard.append(what)):
        kernels().outer(1.0)
        assert heard[0] == ("outer", False)
        assert heard[-1] == ("outer", True)
        assert heard.count(("inner", True)) == heard.count(("inner", False)) == 1
        del heard[:]
        kernels().outer(1.0)  # from the disk
    kernels().outer(1)
    assert not heard


def test_a_command_shows_it(kernels, capsys):
    from taskspace.cli.output import stage_progress

    with stage_progress():
        kernels().outer(1.0)
    assert "compile" in capsys.readouterr().err
