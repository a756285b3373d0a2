"""The documents are true: their blocks run, their experiments load, links hold."""

import re
import shlex
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from taskspace.runs.experiment import Experiment, parse_toml
from tests.helpers import taskspace

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def run_commands(block: str) -> None:
    """Run the lines of a block that begin with a prompt; each must succeed."""
    for line in block.splitlines():
        if line.startswith("$ taskspace "):
            done = taskspace(*shlex.split(line[2:])[1:])
            assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    """Each page's blocks, one after the other, in an empty folder with a small run."""
    code = blocks(page, "python")
    if not code:
        pytest.skip("no Python on this page")
    if page.stem == "bring-your-own":
        pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    if any("runs/msd" in block for block in code):
        from taskspace.runs import load_experiment, run_experiment

        options = ["space.n=5", "trainer.n_policies=2", "cover.n_repeats=3"]
        run_experiment(load_experiment("msd", options), tmp_path / "runs" / "msd")
    if any("examples/data" in block for block in code):
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    module = types.ModuleType("page_of_the_docs")  # so that its classes can be sent
    monkeypatch.setitem(sys.modules, module.__name__, module)
    scope = vars(module)
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "python":
            exec(compile(block, page.name, "exec"), scope)
        if kind == "console":
            run_commands(block)
    if page.stem == "README":
        study, question, cover = (scope[k] for k in ("study", "question", "cover"))
        assert cover.coverage == 1.0
        assert cover.optimal
        assert cover.size <= scope["ts"].greedy_cover(study, question).size
        schedule = scope["schedule"]
        assert (schedule.size, schedule.optimal) == (6, True)
        proofs = scope["ts"].certify(study, question, schedule=schedule)
        assert proofs["schedule"].kind == "proof"
        assert proofs["schedule"].holds
        points = [point for point in scope["profile"] if point.upper is not None]
        assert points
        assert all(p.lower <= p.upper <= p.greedy for p in points)
        assert scope["proofs"].continuum.certificate.kind == "proof"
        assert scope["library"].size == cover.size
        assert (tmp_path / "page.html").stat().st_size > 10_000
    if page.stem == "bring-your-own":
        assert scope["few"].coverage == scope["best"].coverage == 1.0
        assert len(scope["acrobot"].axes) == 7
    for value in scope.values():
        if isinstance(value, float):
            assert not np.isnan(value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_experiments_in_the_text_load(page):
    for text in blocks(page, "toml"):
        values = parse_toml(text, page.name)
        if "ask" in values:
            Experiment.from_dict(values)


def test_nothing_is_trained_to_get_policies_again():
    """A study holds its policies: no page and no example calls a trainer itself."""
    examples = [path.read_text() for path in ROOT.glob("examples/*.py")]
    pages = [block for page in PAGES for block in blocks(page, "python")]
    assert examples
    assert pages
    for text in [*examples, *pages]:
        assert ".train(" not in text


QUICK = (
    "cover examples",
    "cover matrix",
    "cover scores",
    "schedule runs",
    "profile matrix",
    "explore runs",
)
"""Commands of the pages that the quick suite runs; the slow one runs the others."""
SLOW = ("--certify",)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with what the commands of the pages read, each thing small."""
    from taskspace.runs import load_experiment, run_experiment

    folder = tmp_path_factory.mktemp("desk")
    for name in ("msd", "msd-lqr"):
        options = ["space.n=5", "trainer.n_policies=1", "cover.n_repeats=3"]
        run_experiment(load_experiment(name, options), folder / "runs" / name)
    rng = np.random.default_rng(0)
    names = [f"t{i}" for i in range(6)]
    for file in ("matrix.csv", "scores.csv"):
        rows = [[s, *np.round(rng.random(6), 3)] for s in "abcdefgh"]
        lines = [",".join(map(str, row)) for row in [["source", *names], *rows]]
        (folder / file).write_text("\n".join(lines) + "\n")
    (folder / "weights.csv").write_text("1\n2\n1\n1\n1\n3\n")
    (folder / "costs.csv").write_text("1\n2\n1\n1\n1\n3\n1\n1\n")
    (folder / "examples/data").mkdir(parents=True)
    shutil.copy(ROOT / "examples/data/cartpole.npz", folder / "examples/data")
    (folder / "runs/msd-select").symlink_to("msd")
    words = ("--ask", "regret <= 0.4", "--to", "lib")
    assert taskspace("export", "runs/msd", *words, cwd=folder).returncode == 0
    return folder


def command_lines() -> dict[str, str]:
    """Commands in blocks of the pages that no other test runs, each with its page."""
    return {
        line.split("  #")[0].strip().removeprefix("$ "): page.name
        for page in PAGES
        for kind in ("", "sh")
        for block in blocks(page, kind)
        for line in block.splitlines()
        if line.startswith(("taskspace ", "$ taskspace "))
    }


def is_quick(line: str) -> bool:
    return line.split(" ", 1)[1].startswith(QUICK) and not line.endswith(SLOW)


def run_line(line: str, folder: Path) -> None:
    done = taskspace(*shlex.split(line)[1:], cwd=folder)
    # 3: the answer falls short of what was asked, which these tables may not have
    assert done.returncode in (0, 3), f"{line}\n{done.stderr}"


def test_commands_of_the_pages_run(desk):
    """On small runs and tables of the names in the pages."""
    quick = [line for line in command_lines() if is_quick(line)]
    assert len(quick) >= 12
    for line in quick:
        run_line(line, desk)


def test_the_first_command_of_each_trade_stands_first_and_runs():
    """Control, learning, tables: in the top of README; the test above runs them."""
    top = (ROOT / "README.md").read_text().splitlines()[:30]
    lines = [line.split("  #")[0].strip() for line in top]
    first = [line for line in lines if line.startswith("taskspace ")]
    assert [line.split()[1] for line in first] == ["schedule", "cover", "cover"]
    assert all(map(is_quick, first))
    assert {*first} <= {*command_lines()}


@pytest.mark.slow
def test_longer_commands_of_the_pages_run(desk):
    """All but runs at full size, and files that the reader writes."""
    other = re.compile(
        r"\bcartpole(-select)?(\s|$)|run msd$|--scheduler|my_module|mine\.toml"
    )
    lines = [line for line in command_lines() if not other.search(line)]
    longer = [line for line in lines if not is_quick(line)]
    assert len(longer) > 15
    shutil.rmtree(desk / "lib")  # these commands write both
    (desk / "runs/msd-select").unlink()
    for line in longer:
        run_line(line, desk)


def test_every_command_is_in_the_text():
    from taskspace.cli import COMMANDS

    readme = (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert re.search(rf"`(?:taskspace )?{command}\b", readme), command
