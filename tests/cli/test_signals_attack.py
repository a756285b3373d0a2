"""Ctrl-C and SIGTERM at any moment: one line, the code of the signal, nothing stored.

The places are those that do not let an exception pass: compiled functions make another
one of it, finalizers swallow it, and solvers in C++ hear no signal at all.
"""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from taskspace.cover import minimum_cover
from taskspace.cover.lp import interruptible
from taskspace.sets import pack

CODES = {"SIGINT": 130, "SIGTERM": 143}

PLANTED = """
import signal, sys
from taskspace.cli import main

number, where = getattr(signal, sys.argv[1]), sys.argv[2]

class Swallows:
    def __del__(self):
        signal.raise_signal(number)

def plant(frame, event, arg):
    name = frame.f_code.co_name
    if event == "call" and where == "numba":
        # An array that is not made here ends in a crash or a SystemError.
        if name == "_numba_unpickle" and frame.f_back.f_code.co_name == "inverse":
            sys.setprofile(None)
            signal.raise_signal(number)
    elif event == "call" and name == "minimum_cover":
        sys.setprofile(None)
        Swallows()

sys.argv[:] = ["taskspace", *sys.argv[3:]]
sys.setprofile(plant)
main()
"""


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """Losses whose minimum cover no solver finds in a minute."""
    file = tmp_path_factory.mktemp("hard") / "hard.npy"
    np.save(file, np.random.default_rng(0).random((300, 300)))
    return file


def ended(said, code, sent):
    assert code == CODES[sent], said
    assert "Traceback" not in said, said
    assert "Exception ignored" not in said
    assert said.count("Run the same command to go on") == 1


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        ("SIGINT", "numba"),
        ("SIGTERM", "finalizer"),
        pytest.param("SIGINT", "finalizer", marks=pytest.mark.slow),
        pytest.param("SIGTERM", "numba", marks=pytest.mark.slow),
    ],
)
def test_where_exceptions_do_not_pass(hard, sent, where):
    asked = ["cover", hard, "--ask", "regret <= 0.1", "--method", "minimum"]
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, sent, where, *asked],
        capture_output=True,
        check=False,
        text=True,
        timeout=50,
    )
    ended(done.stderr, done.returncode, sent)


@pytest.mark.parametrize("sent", CODES)
def test_while_the_exact_solver_runs(hard, tmp_path, sent):
    """It must neither swallow Ctrl-C nor make SIGTERM wait for its time limit."""
    log = tmp_path / "log"
    code = (
        "import taskspace.cli.output as output\n"
        "output.LOG_SECONDS = 0.0\n"
        "from taskspace.cli import main\n"
        "main()\n"
    )
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "cover", hard, "--ask", "regret <= 0.1",
             "--method", "minimum", "--time-limit", "100"],
            stderr=stream,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        while "exact search" not in log.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1)  # both solvers are at work
        began = time.monotonic()
        process.send_signal(getattr(signal, sent))
        process.wait(60)
    assert time.monotonic() - began < 5
    ended(log.read_text(), process.returncode, sent)


def test_a_search_that_is_interrupted_ends():
    """In a program of one's own too; HiGHS itself is left behind until its limit."""
    sets = pack(np.random.default_rng(0).random((300, 300)) <= 0.1)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        minimum_cover(sets, time_limit=50, progress=_interrupts_the_exact_solver)
    assert time.monotonic() - began < 45


def _interrupts_the_exact_solver(stage, low, best, phase):
    if phase == "exact search" and not any(signal.getitimer(signal.ITIMER_REAL)):
        signal.setitimer(signal.ITIMER_REAL, 1.0)


@pytest.fixture(autouse=True)
def _alarm_is_ctrl_c():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


def test_work_in_a_thread_is_like_work_here():
    assert interruptible(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["run", "select", "cover", "profile", "certify", "doctor"]
)
def test_at_any_moment(hard, tmp_path, command):
    """Eight times each: what is sent in time ends the command within 5 seconds."""
    run = tmp_path / "run"
    asked = {
        "run": ["run", "msd", "--set", "space.n=40", "--out"],
        "select": [
            "select",
            "msd",
            "--set",
            "space.n=40",
            "--ask",
            "regret <= 0.3",
            "--out",
        ],
        "cover": ["cover", hard, "--ask", "regret <= 0.1", "--method", "minimum"],
        "doctor": ["doctor", "cartpole"],  # JAX compiles most of the time
        "profile": ["profile", hard, "--time-limit", "20"],
        "certify": ["certify", run, "--ask", "regret <= 0.2", "--time-limit", "20"],
    }[command]
    if command == "certify":
        made = ["run", "msd", "--set", "space.n=12", "--out", run]
        subprocess.run([sys.executable, "-m", "taskspace", *made], check=True)
    rng = random.Random(command)
    for attempt in range(8):
        sent = rng.choice(list(CODES))
        new = [tmp_path / str(attempt)] if asked[-1] == "--out" else []
        process = subprocess.Popen(
            [sys.executable, "-m", "taskspace", *asked, *new],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(rng.uniform(1.0, 12.0))
        began = time.monotonic()
        process.send_signal(getattr(signal, sent))
        answer, said = process.communicate(timeout=100)
        assert time.monotonic() - began < 5
        if "Next: " not in answer:  # else it was done before
            ended(said, process.returncode, sent)
