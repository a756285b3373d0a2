"""Help: commands by purpose, two examples per command that parse, completion."""

import importlib
import os
import shlex
import subprocess
import sys

import pytest

from taskspace.cli import COMMANDS, GROUPS
from tests.helpers import command_of, taskspace


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name):
    """Options that do not exist, or values of the wrong kind, would raise."""
    examples = importlib.import_module(f"taskspace.cli.commands.{name}").EXAMPLES
    assert len(examples) == 2
    for example in examples:
        first, second, *words = shlex.split(example)
        assert (first, second) == ("taskspace", name)
        command = command_of(name)
        command.make_context(name, list(words))
        assert example in command.epilog


def test_a_wrong_example_would_be_found():
    with pytest.raises(Exception, match="No such option"):
        command_of("cover").make_context("cover", ["a.csv", "--epsilonn", "1"])


def test_help_groups_commands_by_purpose():
    text = taskspace("--help").stdout
    places = [text.index(purpose) for purpose in GROUPS]
    assert places == sorted(places)
    assert "MISSING" not in taskspace("cover", "--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_one_screen(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = taskspace(name, "--help")
    assert len(done.stdout.rstrip().splitlines()) <= 50


def test_help_imports_no_command():
    """The list of commands is there at once: 0.3 s of the processor, not 1.4 s."""
    code = (
        "import sys, taskspace.cli as c; sys.argv = ['taskspace', '--help']\n"
        "try: c.main()\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('taskspace.cli.commands.')])\n"
        "print([m for m in ('numpy', 'pandas', 'xarray', 'numba') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]
    assert "Choose the fewest sources" in done.stdout


def test_completion_of_a_shell():
    """What the script of --show-completion bash asks when TAB is pressed."""
    asked = {"COMP_WORDS": "taskspace cover --me", "COMP_CWORD": "2"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, taskspace.cli as c; sys.argv = ['taskspace']; c.main()",
        ],
        env=os.environ | asked | {"_TASKSPACE_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "--method" in done.stdout.split()
    assert "--ask" not in done.stdout.split()
