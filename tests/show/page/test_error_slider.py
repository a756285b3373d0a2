"""The error of measured contexts on a page, in a real Chromium, against the library."""

import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.show.page import build_page
from tests.helpers import refused


@pytest.fixture(scope="module")
def study():
    space = ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 7))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    return ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0)


def test_the_slider_of_the_error_is_exact_at_its_steps(browser, study, tmp_path):
    asked = ts.Question("regret", epsilon=0.6, error={"k": 2.0, "c": "40%"})
    browser.show(build_page(study.table, [asked], time_limit=6), tmp_path)
    assert browser.text(".error-words") == "k ± 2, c ± 40 %"
    sizes, lost = [], []
    for step in range(5):
        browser.set("input.error", step)
        part = asked.measured_with(asked.error.times(step / 4))
        losses = ts.loss(study, part).values
        served = losses <= asked.epsilon
        shown = browser.ask(
            "const { view } = taskspace.panels[0];"
            "const answer = await view.answer();"
            "return { epsilon: view.epsilon, sources: answer.sources,"
            " who: Array.from(answer.who), lost: view.about.n_uncoverable,"
            " sizes: answer.sources.map((s) => view.setSize(s)) };"
        )
        assert shown["epsilon"] == asked.epsilon
        chosen = np.array(shown["sources"])
        who = np.array([-1 if p < 0 else chosen[p] for p in shown["who"]])
        np.testing.assert_array_equal(who, part.assign(study, chosen))
        assert shown["sizes"] == served[chosen].sum(1).tolist()
        assert shown["lost"] == (~served.any(0)).sum()
        cover = ts.minimum_cover(study, part, time_limit=20)
        assert cover.optimal
        assert len(chosen) == cover.size
        command = browser.text("code.command")
        assert (" with k=" in command) == (step > 0)
        sizes.append(len(chosen))
        lost.append(shown["lost"])
    assert lost == sorted(lost)
    assert lost[-1] > 0
    assert f"{lost[-1]} contexts are served by no source" in browser.text(".claims")
    assert sizes[0] < max(sizes)
    # A link keeps the error; another criterion has none to show.
    link = browser.run("return location.href")
    browser.open(link)
    assert browser.text(".error-words") == "k ± 2, c ± 40 %"
    browser.set(".criterion", "cost", "change")
    slider = "document.querySelector('input.error')"
    assert browser.run(f"return {slider}.closest('label').hidden")
    assert browser.errors() == []


def test_what_is_taken_along_states_the_error(browser, study, tmp_path):
    file, page = tmp_path / "table.npz", tmp_path / "page.html"
    ts.performance.write_matrix(study.table, file)
    made = ["explore", str(file), "--out", str(page), "--ask"]
    assert "must have a bound" in refused(*made, "regret with k=1.5")
    ran = CliRunner().invoke(app, [*made, "regret <= 0.6 with k=1.5"])
    assert ran.exit_code == 0, ran.output
    browser.open(page.as_uri())
    saved = browser.download(".save-cover", "cover.json")
    assert (
        json.loads(saved.read_text())["question"]["ask"] == "regret <= 0.6 with k=1.5"
    )
    ran = CliRunner().invoke(app, ["verify", str(saved), str(file)])
    assert ran.exit_code == 0, ran.output
    command = shlex.split(browser.text("code.command"))
    ran = CliRunner().invoke(app, [*command[1:], "--format", "json"])
    assert json.loads(ran.stdout)["size"] == ts.Cover.load(saved).size
