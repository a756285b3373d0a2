"""Hashes of every locked version, for each Python that taskspace supports.

Asks pip which wheels it would install from `requirements.lock` under each Python on
Linux and x86-64, checks that everything these wheels need is locked too, and writes
`requirements.hashes`, for `pip install --require-hashes -r requirements.hashes`.

    python tools/hash_lock.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SOURCE_ONLY = {"apricot-select", "nose"}
"""Peers of benchmarks that have no wheel."""
HEAD = "# Made by tools/hash_lock.py from requirements.lock; Linux, x86-64."


def locked() -> dict[str, str]:
    """Return the lines of the lock, by name."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if "==" in line]
    return {canonicalize_name(line.partition("==")[0]): line for line in pins}


def wheels(python: str, lines: list[str]) -> list[dict]:
    """Return what pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "wanted.txt", Path(folder) / "report.json"
        wanted.write_text("\n".join(lines))
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        words += ["--no-deps", "--ignore-installed", "--only-binary=:all:"]
        words += ["--python-version", python, "--target", str(Path(folder) / "x")]
        words += ["--report", str(report), "-r", str(wanted)]
        subprocess.run(words, check=True)
        return json.loads(report.read_text())["install"]


def missing(items: list[dict], python: str, pins: dict[str, str]) -> set[str]:
    """Return what the wheels need and the lock does not have."""
    here = {"python_version": python, "python_full_version": f"{python}.0"}
    here |= {"sys_platform": "linux", "platform_system": "Linux", "extra": ""}
    here |= {"platform_machine": "x86_64", "implementation_name": "cpython"}
    names = set()
    for item in items:
        if item["metadata"]["name"] == "torch":  # its GPU libraries are not ours
            continue
        for text in item["metadata"].get("requires_dist", ()):
            need = Requirement(text)
            applies = need.marker is None or need.marker.evaluate(here)
            if applies and canonicalize_name(need.name) not in pins:
                names.add(f"{need.name} (of {item['metadata']['name']})")
    return names


def main() -> None:
    """Write the file, or say what is not locked."""
    pins = locked()
    asked = [line for name, line in pins.items() if name not in SOURCE_ONLY]
    hashes: dict[str, set[str]] = {}
    for python in PYTHONS:
        items = wheels(python, asked)
        if unlocked := missing(items, python, pins):
            sys.exit(f"Not locked for Python {python}: {', '.join(sorted(unlocked))}")
        for item in items:
            name = canonicalize_name(item["metadata"]["name"])
            seal = item["download_info"]["archive_info"]["hashes"]["sha256"]
            hashes.setdefault(name, set()).add(seal)
    lines = [
        " \\\n".join([pins[name], *(f"    --hash=sha256:{h}" for h in sorted(seals))])
        for name, seals in sorted(hashes.items())
    ]
    (ROOT / "requirements.hashes").write_text("\n".join([HEAD, *lines]) + "\n")


if __name__ == "__main__":
    main()
