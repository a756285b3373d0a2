"""A command is a screenful, and its options are dataclasses that it shares."""

import ast
import importlib
import inspect

import pytest

from taskspace.cli import COMMANDS

SCREEN = 60


@pytest.mark.parametrize("name", COMMANDS)
def test_every_function_of_a_command_fits_a_screen(name):
    module = importlib.import_module(f"taskspace.cli.commands.{name}")
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < SCREEN, node.name
