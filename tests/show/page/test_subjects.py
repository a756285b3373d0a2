"""Pages of selections, libraries and certificates, against the library."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.deploy import Status
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.errors import InvalidInputError
from taskspace.runs import load_experiment, run_experiment, run_selection
from taskspace.runs.opening import open_study
from taskspace.show.page import collect, library_page
from taskspace.show.page.html import render

OPTIONS = {"time_limit": 0.3, "n_steps": 8}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "msd"
    experiment = load_experiment(
        "msd",
        ["space.n=8", "trainer.n_policies=1", "trainer.noise=0.0",
         "cover.n_repeats=3"],
    )  # fmt: skip
    run_experiment(experiment, path)
    return path


# --- certificates -----------------------------------------------------------------


@pytest.fixture(scope="module")
def certified(run):
    """The page's data at ε = 0.4, and what `certify` says."""
    question = ts.Question("regret", epsilon=0.4)
    study = ts.open(run)
    result = ts.certify(study, question, time_limit=6.0)
    page = collect(study, [question], certified=[result], **OPTIONS)
    return page, result, study


BOX = """
const { view, answer } = taskspace.panels[0];
return arguments[0].map((row) => {
  const box = view.boxes.find(row, answer.sources);
  return box < 0 ? null
    : [view.boxes.sourceOf(box), view.boxes.bound[box], ...view.boxes.edges(box)];
});
"""


def test_boxes_of_the_page_are_those_of_the_certificate(browser, certified, tmp_path):
    page, result, _ = certified
    found = result.continuum
    assert found is not None
    assert found.certificate.holds
    browser.show(render(page.header, page.blobs), tmp_path, "#c=regret.worst&e=0.4")
    browser.set(".mode", "boxes", "change")
    assert browser.run("return document.querySelector('.method').value") == "certified"
    sources = browser.run("return taskspace.panels[0].answer.sources")
    assert sorted(sources) == sorted(found.sources.tolist())
    text = browser.text(".claims")
    assert found.certificate.why in text
    rng = np.random.default_rng(0)
    live = [found.axes.index(name) for name in ("k", "c")]
    names = browser.run("return taskspace.panels[0].view.boxes.about.names")
    assert names == [found.axes[i] for i in sorted(live)]
    rows = rng.uniform(0.1, 8.0, (200, 2))
    columns = sorted(live)
    answers = browser.run(BOX, rows.tolist())
    boxes = found.boxes
    for row, answer in zip(rows, answers, strict=True):
        inside = ((boxes.low[:, columns] <= row) & (row <= boxes.high[:, columns])).all(
            1
        )
        assert answer is not None
        mine = np.flatnonzero(inside & (found.assignment == answer[0]))
        assert len(mine)
        assert answer[1] in found.loss_bound[mine]
        for (_, low, high), value in zip(answer[2:], row, strict=True):
            assert low <= value <= high
    browser.ask("taskspace.panels[0].view.pick = 9; await taskspace.panels[0].update()")
    assert "proof" in browser.text(".detail .certified")
    assert "serves every context of the box" in browser.text(".detail .certified")
    assert browser.errors() == []


def test_the_gains_of_the_selected_sources_are_on_the_page(
    browser, certified, tmp_path
):
    page, _, study = certified
    browser.show(render(page.header, page.blobs), tmp_path, "#c=regret.worst&e=0.4")
    head = browser.run(
        "return [...document.querySelectorAll('.selected th')].map(c => c.textContent)"
    )
    assert head[4:6] == ["gain: force [N] on position [m]",
                         "gain: force [N] on velocity [m/s]"]  # fmt: skip
    rows = browser.run(
        "return [...document.querySelectorAll('.selected tbody tr')]"
        ".map(r => [...r.children].slice(4, 6).map(c => Number(c.textContent)))"
    )
    sources = browser.run("return taskspace.panels[0].answer.sources")
    np.testing.assert_allclose(rows, study.policies.gain[sources, 0, 0], rtol=1e-5)


def test_a_certificate_goes_with_its_source(browser, certified, tmp_path):
    page, result, _ = certified
    found = result.continuum
    browser.show(render(page.header, page.blobs), tmp_path, "#c=regret.worst&e=0.4")
    browser.set(".mode", "boxes", "change")
    share = (
        "const { view, answer } = taskspace.panels[0];"
        "return view.boxes.shareBy(answer.sources)"
    )
    assert browser.run(share) == 1
    gone = int(found.sources[0])
    browser.ask("await taskspace.panels[0].toggle(arguments[0])", gone)
    browser.ask("await taskspace.panels[0].update()")
    left = found.boxes.share[found.assignment != gone].sum()
    assert browser.run(share) == pytest.approx(left)
    assert browser.run(share) < 1
    assert found.certificate.why not in browser.text(".claims")
    # At another tolerance nothing is said between the contexts.
    browser.set(".epsilon", 0)
    assert "Nothing is said here about contexts between" in browser.text(".claims")
    assert browser.errors() == []


def test_the_certified_cover_is_verified(browser, certified, tmp_path, run):
    page, _, _ = certified
    browser.show(
        render(page.header, page.blobs), tmp_path, "#c=regret.worst&e=0.4&m=certified"
    )
    saved = browser.download(".save-cover", "cover.json")
    ran = CliRunner().invoke(app, ["verify", str(saved), str(run)])
    assert ran.exit_code == 0, ran.output
    assert "taskspace certify" in browser.text(".command")


def test_what_cannot_be_certified_between_contexts(tmp_path):
    file = tmp_path / "scores.npz"
    ts.performance.write_matrix(ts.performance.table_from_matrix(np.eye(4) * 10), file)
    loaded = open_study(file)
    found = [ts.certify(loaded, ts.Question(epsilon=3.0), time_limit=2.0)]
    assert found[0].continuum is None


# --- selections -------------------------------------------------------------------


@pytest.fixture(scope="module")
def selection(tmp_path_factory):
    path = tmp_path_factory.mktemp("selected") / "coverage"
    experiment = load_experiment(
        "msd",
        ["space.n=8", "trainer.n_policies=1", "trainer.noise=0.0",
         "cover.n_repeats=2", "select.selector='coverage'"],
    )  # fmt: skip
    question = ts.Question("regret", epsilon=0.3)
    return path, run_selection(experiment, path, question=question).result


def test_a_selection_tells_its_history(browser, selection, tmp_path):
    path, result = selection
    page = collect(ts.open(path), **OPTIONS)
    record = page.header["selection"]
    assert record["history"] == result.history
    browser.show(render(page.header, page.blobs), tmp_path)
    assert "regret ≤ 0.3" in browser.text(".sentence")
    assert "How it was found" in browser.text("footer")
    rows = browser.run(
        "return [...document.querySelectorAll('.trained-list tbody tr')]"
        ".map(r => [...r.children].map(c => c.textContent))"
    )
    assert [row[1] for row in rows] == ["trained"] * result.trainings
    figure = ts.show.history(path).axes[0].lines[0]
    assert np.asarray(figure.get_xdata())[-1] == result.trainings
    for name in ("evaluations", "trainings"):
        browser.run(
            "const s = document.querySelector('.spent'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change'))",
            name,
        )
        assert browser.run("return document.querySelector('.spent').value") == name
    assert browser.errors() == []


def test_explored_selections_go_on(selection):
    """The page in the folder of a run is one of its own files."""
    path, result = selection
    ran = CliRunner().invoke(app, ["explore", str(path), "--time-limit", "0.2"])
    assert ran.exit_code == 0, ran.output
    assert (path / "explore.html").exists()
    question = ts.Question("regret", epsilon=0.3)
    experiment = load_experiment(str(path / "experiment.toml"))
    again = run_selection(experiment, path, question=question).result
    assert again.history == result.history


# --- libraries --------------------------------------------------------------------


def libraries():
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    question = ts.Question("regret", epsilon=0.4)

    def of(space, selection=None, **options):
        table = ts.evaluate(system, trainer, space, seed=0).table
        policies = trainer.train(system, system.contexts(space), seed=0).policies
        chosen = selection or ts.greedy_cover(question.sets(table))
        return ts.library(
            ts.Study.of(table, system=system, policies=policies),
            chosen,
            question,
            **options,
        )

    rng = np.random.default_rng(2)
    grid = of(ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 6)))
    return {
        "grid": grid,
        "estimated": replace(grid, guarantee=replace(grid.guarantee, kind="estimate")),
        "clamp": of(ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 6)), outside="clamp"),
        "points": of(ts.Points(["k", "c"], rng.uniform(0.1, 8.0, (30, 2)))),
        "one axis": of(ts.Grid(k=(0.1, 8.0, 9))),
        "three axes": of(ts.Grid(m=(0.5, 2.0, 3), k=(0.1, 8.0, 4), c=(0.1, 8.0, 5))),
    }


CHOICE = """
return arguments[0].map((row) => {
  const found = taskspace.shelf.select(row.map((x) => (x === null ? NaN : x)));
  return [found.policy, found.status, Number.isNaN(found.margin) ? null : found.margin,
    found.region];
});
"""


def check_library(browser, folder, rows):
    library = ts.PolicyLibrary.load(folder)
    browser.show(library_page(folder), folder)
    answers = browser.run(
        CHOICE, [[None if np.isnan(x) else x for x in row] for row in rows.tolist()]
    )
    expected = library.select(rows)
    for i, (policy, status, margin, region) in enumerate(answers):
        assert policy == expected.policy[i], rows[i]
        assert Status[status.upper()] == expected.status[i], rows[i]
        assert region == expected.region[i]
        if np.isnan(expected.margin[i]):
            assert margin is None
        else:
            assert margin == expected.margin[i]
    assert library.guarantee.statement in browser.text(".claims")
    assert browser.errors() == []


@pytest.mark.parametrize(
    "name", ["grid", "estimated", "clamp", "points", "one axis", "three axes"]
)
def test_a_library_selects_in_the_page_as_in_python(browser, tmp_path, name):
    library = libraries()[name]
    folder = library.save(tmp_path / "lib")
    rng = np.random.default_rng(1)
    span = library.high - library.low
    rows = rng.uniform(library.low - 0.2 * span, library.high + 0.2 * span,
                       (300, len(span)))  # fmt: skip
    exact = [library.low, library.high, *library.regions.centres[:40]]
    borders = [v for v in library.regions.arrays() if v.startswith("borders")]
    rows = np.vstack([rows, exact, np.full_like(library.low, np.nan)])
    if borders:
        assert isinstance(library.regions, GridRegions)
        first = np.array(library.regions.borders[0])
        on = np.tile(library.low, (len(first), 1))
        on[:, 0] = first
        rows = np.vstack([rows, on])
    check_library(browser, folder, rows)
    page = browser.text("body")
    assert ("The estimate speaks of" in page) == (name == "estimated")
    assert ("The guarantee speaks of" in page) == (name != "estimated")


def test_a_certified_library_shows_its_boxes(browser, run, tmp_path):
    folder = tmp_path / "lib"
    ran = CliRunner().invoke(
        app,
        [
            "export",
            str(run),
            "--ask",
            "regret <= 0.4",
            "--certified",
            "--to",
            str(folder),
            "--as",
            "none",
            "--time-limit",
            "6",
        ],
    )
    assert ran.exit_code == 0, ran.output
    library = ts.PolicyLibrary.load(folder)
    rng = np.random.default_rng(4)
    assert isinstance(library.regions, BoxRegions)
    edges = library.regions.box_low[:30]
    rows = np.vstack([rng.uniform(0.0, 8.2, (300, 2)), edges])
    check_library(browser, folder, rows)
    browser.run(
        "const f = document.querySelector('.context-number'); f.value = '3.3';"
        "f.dispatchEvent(new Event('change'))"
    )
    assert "k 3.3" in browser.text(".detail h3")
    assert "guaranteed" in browser.text(".detail")
    assert "Its box" in browser.text(".detail")
    saved = browser.download(".save-contract", "contract.json")
    assert json.loads(saved.read_text()) == json.loads(
        (folder / "contract.json").read_text()
    )
    # The address holds the context.
    fragment = browser.run("return location.hash")
    browser.open(f"{(folder / 'page.html').as_uri()}{fragment}")
    assert "k 3.3" in browser.text(".detail h3")


def test_a_library_of_names(browser, tmp_path):
    scores = np.array([[9.0, 1.0, 8.0], [2.0, 9.0, 3.0]])
    table = ts.performance.table_from_matrix(scores).assign_coords(
        source=["<i>a</i>", "b"], target=["<script>window.hacked=1</script>", "y", "z"]
    )
    question = ts.Question(epsilon=2.0)
    made = ts.library(table, ts.greedy_cover(question.sets(table)), question)
    folder = made.save(tmp_path / "lib")
    browser.show(library_page(folder), tmp_path)
    assert browser.run("return window.hacked === undefined")
    assert "<script>window.hacked=1</script>" in browser.text(".panel table")
    assert browser.errors() == []


def test_a_damaged_library_is_refused(tmp_path):
    folder = libraries()["grid"].save(tmp_path / "lib")
    (folder / "policies.csv").write_text("changed")
    ran = CliRunner().invoke(app, ["explore", str(folder)])
    assert isinstance(ran.exception, InvalidInputError)
    assert "checksum" in str(ran.exception)
    assert not (folder / "explore.html").exists()
