"""Homes, installations and runs that cannot be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import taskspace as ts
from taskspace._util import cache as cache


def test_kernels_compile_where_nothing_can_be_cached(tmp_path):
    """Files in the place of both cache folders: not even root can write there."""
    package = tmp_path / "site" / "taskspace"
    shutil.copytree(
        Path(ts.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    environment = {
        k: v
        for k, v in os.environ.items()
        if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH")
    } | {
        "PYTHONPATH": str(tmp_path / "site"),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    code = (
        "import os, taskspace as ts, numpy as np\n"
        "print(ts.__file__)\n"
        "assert 'NUMBA_CACHE_DIR' not in os.environ\n"
        "import taskspace.sets as sets\n"
        "print(os.environ.get('NUMBA_CACHE_DIR'))\n"
        "print(sets.pack(np.eye(3, dtype=bool)).sizes.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, cache, sizes = done.stdout.split("\n")[:3]
    assert where.startswith(str(package))
    assert cache.startswith(str(tmp_path / "taskspace-kernels-"))
    assert sizes == "[1, 1, 1]"
    assert list(Path(cache).rglob("*.nbi"))
    # Negative control: without the folder, Numba finds no place.
    (package / "_util" / "cache.py").write_text("def keep_kernels_somewhere(): pass\n")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no locator available" in done.stderr


def test_every_package_with_kernels_names_a_place_for_them_first():
    root = Path(ts.__file__).parent
    users = [p for p in root.rglob("*.py") if "njit(" in p.read_text()]
    packages = {p.parent for p in users} - {root}
    assert len(packages) > 5
    for package in packages:
        above = [package, *package.parents][: len(package.relative_to(root).parts)]
        texts = [(folder / "__init__.py").read_text() for folder in above]
        assert any(
            "from taskspace._util import cache as cache" in text for text in texts
        ), package


def test_a_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    mine = cache._private_folder()
    assert cache._private_folder() == mine
    mine.chmod(0o777)
    assert cache._private_folder() != mine
