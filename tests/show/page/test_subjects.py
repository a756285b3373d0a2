"""Pages of selections and certificates, against the library."""

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.errors import InvalidInputError
from taskspace.runs import load_experiment, run_experiment, run_selection
from taskspace.show.page import collect
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
    assert f"{result.trainings} trainings" in browser.text("footer")
    figure = ts.show.history(result).axes[0].lines[0]
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


def test_a_library_is_no_study(tmp_path):
    """What is explored is the study that it was made from."""
    study = ts.evaluate(
        ts.systems.MassSpringDamper(), ts.trainers.Lqr(), ts.Grid(k=(0.1, 8.0, 5))
    )
    cover = ts.minimum_cover(study, "regret <= 0.4")
    folder = ts.library(study, cover).save(tmp_path / "lib")
    ran = CliRunner().invoke(app, ["explore", str(folder)])
    assert isinstance(ran.exception, InvalidInputError)
    assert "library" in str(ran.exception)
    assert not (folder / "explore.html").exists()
