"""Every block of the tutorial runs, in order, in one folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def blocks() -> list[tuple[str, str]]:
    parts = PAGE.read_text().split("```")[1::2]
    return [tuple(part.split("\n", 1)) for part in parts]  # type: ignore[misc]


def test_every_block_runs(tmp_path, monkeypatch, capfd):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    command = tools / "taskspace"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m taskspace "$@"\n')
    command.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    scope: dict = {}
    kinds = []
    for kind, text in blocks():
        kinds.append(kind)
        if kind == "python":
            exec(text, scope)
        elif kind == "c":
            name = text.split("*/")[0].removeprefix("/*").strip()
            (tmp_path / "firmware" / name).write_text(text)
        else:
            assert kind == "sh"
            subprocess.run(
                ["sh", "-e", "-c", text], check=True, env={**os.environ, "PATH": path}
            )
    assert kinds.count("python") >= 6
    assert kinds.count("sh") >= 2
    printed = capfd.readouterr().out
    assert "0 failures" in printed
    assert "Worst loss of" in printed
    assert scope["library"].size == scope["cover"].size
    assert scope["proven"].certificate.holds
