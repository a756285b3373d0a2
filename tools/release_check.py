"""Build the package, install it into clean environments, and try it there.

    python tools/release_check.py            # wheel and sdist, each Python that is here
    python tools/release_check.py --quick    # the wheel, this Python

A clean environment has the base package alone. What is tried there is what a reader of
docs/quickstart-table.md does, and that a missing extra is named. Run by
`make release-check` and `make smoke`.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SHIPPED = ("py.typed", "__init__.pyi", "runs/experiments/msd.toml", "show/page/web/")
"""Parts of the wheel that are no Python modules."""


def main() -> None:
    """Check the metadata, build, install, try; stop at the first failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the wheel, this Python")
    quick = parser.parse_args().quick
    version = check_metadata()
    with tempfile.TemporaryDirectory() as folder:
        wheel, sdist = build(Path(folder), version)
        pythons = {"this": sys.executable} if quick else interpreters()
        for name, python in pythons.items():
            try_in_clean_environment(wheel, python, Path(folder) / f"wheel-{name}")
        if not quick:
            try_in_clean_environment(sdist, sys.executable, Path(folder) / "sdist")
    print(f"taskspace {version}: built, installed and tried.")


def check_metadata() -> str:
    """Return the version, which every file must agree on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    places = {
        "src/taskspace/__init__.py": f'__version__ = "{version}"',
        "CITATION.cff": f"version: {version}",
        "CHANGELOG.md": f"## {version}",
    }
    for file, text in places.items():
        if text not in (ROOT / file).read_text():
            sys.exit(f"{file} must hold {text!r}: pyproject.toml has this version.")
    for python in PYTHONS:
        entry = f"Programming Language :: Python :: {python}"
        if entry not in project["classifiers"]:
            sys.exit(f"pyproject.toml must have the classifier {entry!r}.")
    return version


def build(folder: Path, version: str) -> tuple[Path, Path]:
    """Return the wheel and the sdist, which hold all they should.

    Args:
        folder: where to build them.
        version: the version that their names must have.
    """
    call(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    wheel = folder / f"taskspace-{version}-py3-none-any.whl"
    sdist = folder / f"taskspace-{version}.tar.gz"
    names = zipfile.ZipFile(wheel).namelist()
    for part in SHIPPED:
        if not any(name.startswith(f"taskspace/{part}") for name in names):
            sys.exit(f"The wheel must hold taskspace/{part}.")
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    listed = call("git", "-C", ROOT, "ls-files", "src", "tests").splitlines()
    if missing := sorted(set(listed) - members):
        sys.exit(f"The sdist must hold {missing[0]} ({len(missing)} files missing).")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    return wheel, sdist


def interpreters() -> dict[str, str]:
    """Return the interpreters that are here, by version, and name the others."""
    paths = {}
    for version in PYTHONS:
        name = f"python{version}"
        path = shutil.which(name)
        if path and works(path):
            paths[version] = path
        else:
            print(f"Python {version} is not here and was not tried.")
    return paths


def works(python: str) -> bool:
    """Return whether an interpreter starts; a shim may stand for one that is not there.

    Args:
        python: its path.
    """
    done = subprocess.run([python, "-V"], capture_output=True, check=False)
    return done.returncode == 0


def try_in_clean_environment(package: Path, python: str, folder: Path) -> None:
    """Install a package with nothing else, and follow the quickstart of tables.

    Args:
        package: a wheel or an sdist.
        python: the interpreter.
        folder: where the environment is made.
    """
    print(f"{package.name} on {call(python, '-V').strip()} ...", flush=True)
    call(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    call(inside, "-m", "pip", "install", "--quiet", package)
    work = folder / "work"
    work.mkdir()
    call(inside, "-c", quickstart(), cwd=work)
    light = "import sys, taskspace; assert 'numpy' not in sys.modules"
    call(inside, "-c", light, cwd=work)
    refusal = subprocess.run(
        [inside, "-m", "taskspace", "run", "cartpole"],
        cwd=work, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if refusal.returncode != 2 or "taskspace[sim]" not in refusal.stderr:
        sys.exit(f"A missing extra must be named, but got:\n{refusal.stderr}")
    size = sum(f.stat().st_size for f in (folder / "lib").rglob("*") if f.is_file())
    print(f"  tried; {size / 1e6:.0f} MB on disk", flush=True)
    shutil.rmtree(folder)


def quickstart() -> str:
    """Return a script that does what docs/quickstart-table.md says."""
    page = (ROOT / "docs" / "quickstart-table.md").read_text()
    lines = ["import subprocess, sys"]
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL):
        if kind == "python":
            lines.append(block)
        for command in re.findall(r"^\$ (taskspace .*)$", block, re.MULTILINE):
            words = ["-m", *shlex.split(command, comments=True)]
            lines.append(f"subprocess.run([sys.executable, *{words!r}], check=True)")
    if len(lines) < 6:
        sys.exit("docs/quickstart-table.md must have blocks to run.")
    return "\n".join(lines)


def call(*words: object, cwd: Path = ROOT) -> str:
    """Return what a command prints; stop with its error where it fails.

    Args:
        words: the command.
        cwd: where it runs.
    """
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        shown = " ".join(str(word).strip()[:60] for word in words)
        sys.exit(f"{shown}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
