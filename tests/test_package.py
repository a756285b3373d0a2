"""The package as a whole: light to import, and true to its own claims."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import taskspace as ts

ROOT = Path(__file__).parents[1]


def test_import_stays_light():
    heavy = ("jax", "torch", "gymnasium", "matplotlib", "numba", "xarray")
    code = f"import sys, taskspace; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_cover_of_a_matrix_loads_no_physics(tmp_path):
    (tmp_path / "m.csv").write_text("policy,easy,hard\np0,10,0\np1,9,8\n")
    heavy = ("jax", "torch", "matplotlib", "scipy.optimize")
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([m for m in {heavy!r} if m in sys.modules], "
        "file=sys.stderr))\n"
        "from taskspace.cli import main\n"
        f"sys.argv = ['taskspace', 'cover', {str(tmp_path / 'm.csv')!r}, "
        "'--ask', 'regret <= 1', '--format', 'json']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"


WITHOUT_EXTRAS = """
import sys
from taskspace.errors import EXTRA_OF

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA_OF:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without_extras(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code where the base package is installed alone."""
    words = [sys.executable, "-c", WITHOUT_EXTRAS + code]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_base_package_needs_no_extra():
    """All rooms load without one, but for the modules that are written in JAX."""
    done = without_extras(
        "import importlib, pkgutil, taskspace\n"
        "for module in pkgutil.walk_packages(taskspace.__path__, 'taskspace.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        try: importlib.import_module(module.name)\n"
        "        except ModuleNotFoundError as error: print(module.name, error.name)\n"
    )
    assert not done.returncode, done.stderr
    needy = dict(line.split() for line in done.stdout.splitlines())
    assert {name.partition(".")[0] for name in needy.values()} == {"jax"}
    rooms = {name.rpartition(".")[0] for name in needy}
    assert rooms == {"taskspace.systems", "taskspace.trainers"}
    systems = set(needy) & {"taskspace.systems.base", "taskspace.systems.simulated"}
    assert not systems


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import taskspace as ts; ts.systems.CartPole", "sim"),
        ("import taskspace as ts; ts.trainers.Ppo", "sim"),
        ("from taskspace.systems import SYSTEMS; SYSTEMS['pendulum-v1']", "sim"),
        (
            "from taskspace.cli import main; sys.argv = ['taskspace', 'run', "
            "'cartpole']; main()",
            "sim",
        ),
    ],
)
def test_what_misses_an_extra_names_it(code, extra):
    done = without_extras(code)
    assert done.returncode
    last = done.stderr.strip().splitlines()[-1]
    assert f"needs the extra {extra!r}: pip install 'taskspace[{extra}]'" in last


def test_every_extra_is_named_for_its_modules():
    from taskspace.errors import EXTRA_OF

    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = data["project"]["optional-dependencies"]
    whole = extras.pop("all")
    assert whole == [f"taskspace[{','.join(sorted(extras))}]"]
    modules = {
        (requirement.partition(">")[0].replace("-", "_"), extra)
        for extra, requirements in extras.items()
        for requirement in requirements
        if "[" not in requirement  # extras of others bring no module of their own
    }
    assert modules == set(EXTRA_OF.items())


def test_the_page_on_formats_has_their_versions():
    from taskspace.cover import cover as covers
    from taskspace.deploy import files as libraries
    from taskspace.runs import info as runs
    from taskspace.schedules import table as schedules
    from taskspace.show.page import data as pages

    versions = {
        "run and selection": runs.FORMAT_VERSION,
        "cover": covers.FORMAT_VERSION,
        "library": libraries.FORMAT_VERSION,
        "schedule": schedules.VERSION,
        "schedule library": libraries.FORMAT_VERSION,
        "page": pages.FORMAT_VERSION,
    }
    text = (ROOT / "docs" / "formats.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \|", text, re.MULTILINE)
    assert {name: int(number) for name, number in rows} == versions


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == ts.__version__
    assert f"version: {ts.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {ts.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert project["requires-python"] == ">=3.11"
    assert "Python 3.11 or later" in (ROOT / "README.md").read_text()


def test_every_requirement_is_locked():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = data["project"]["dependencies"] + data["build-system"]["requires"]
    for group in data["project"]["optional-dependencies"].values():
        wanted += group
    for group in data["dependency-groups"].values():
        wanted += group

    def name(requirement: str) -> str:
        head = requirement.split(">")[0].split("=")[0].split("[")[0]
        return head.strip().lower().replace("_", "-")

    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked = {name(line) for line in lines if "==" in line}
    assert {name(requirement) for requirement in wanted} <= {*locked, "taskspace"}


MADE_BY_THE_BUILD = "images/criterion-"


def test_documents_link_to_files_that_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    for page in pages:
        for part in page.read_text().split("](")[1:]:
            target = part.split(")")[0].split("#")[0]
            if target and "://" not in target and MADE_BY_THE_BUILD not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_hashes_are_those_of_the_lock():
    """`requirements.hashes` is made from the lock, and by hand nothing is."""
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    pins = {line for line in lock if "==" in line}
    lines = (ROOT / "requirements.hashes").read_text().splitlines()
    hashed = [line.removesuffix(" \\") for line in lines if "==" in line]
    assert len(hashed) == len(set(hashed))
    # Peers of benchmarks that have no wheel.
    left = {line.partition("==")[0] for line in pins - set(hashed)}
    assert left == {"apricot-select", "nose"}
    assert set(hashed) <= pins
    seals = [line.strip() for line in lines if "--hash" in line]
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}( \\)?", s) for s in seals)
    assert len(seals) >= len(hashed)


def test_the_lowest_versions_are_those_of_the_project():
    """What `make test-lowest` installs is what pyproject.toml allows at least."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    bounds = list(data["project"]["dependencies"])
    for extra in ("control", "dask", "export", "sim"):
        bounds += data["project"]["optional-dependencies"][extra]
    lines = (ROOT / "requirements-lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if "==" in line)
    for bound in bounds:
        name, _, version = bound.partition(">=")
        assert name in lowest, name
        parts = version.split(".")
        assert lowest[name].split(".")[: len(parts)] == parts, bound


@pytest.mark.parametrize(
    "first",
    ["taskspace.selection", "taskspace.deploy", "taskspace.cli.commands.select"],
)
def test_select_and_library_are_plain_functions(first):
    """Whatever was imported before them: no package has the name of a function."""
    code = (
        f"import {first}, types, taskspace as ts\n"
        "assert type(ts.select) is type(ts.library) is types.FunctionType\n"
        "assert ts.selection.Selector and ts.deploy.PolicyLibrary is ts.PolicyLibrary\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
