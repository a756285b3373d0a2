"""The page in a real Chromium, against the library."""

import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.show.page import build_page, collect
from taskspace.show.page.html import render
from tests.helpers import refused

VIEW = """
const view = taskspace.panels[0].view;
const answer = await view.answer();
return {
  epsilon: view.epsilon, sources: answer.sources, who: Array.from(answer.who),
  served: answer.served, counts: answer.counts, bound: view.bound(answer).bound,
};
"""


@pytest.fixture
def opened(browser, msd_page, tmp_path):
    browser.show(msd_page, tmp_path)
    yield browser
    assert browser.errors() == []


def expected(table, asked, epsilon, sources):
    """Who serves whom by the library's losses: least loss, ties to the lowest."""
    losses = ts.loss(table, ts.Question(asked)).values
    order = np.sort(sources).astype(int)
    served = (losses[order] <= epsilon).any(0)
    who = np.full(losses.shape[1], -1)
    if not len(order):
        return who
    who[served] = order[losses[order].argmin(0)[served]]
    return who


def test_opens_from_disk_without_a_network(opened):
    assert opened.run("return location.protocol") == "file:"
    assert opened.run("return navigator.onLine") is False
    assert "within regret ≤ 0.2" in opened.text(".sentence")
    asked = opened.run(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [name for name in asked if not name.startswith(("data:", "blob:"))] == []
    policy = opened.run("return document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'")


def test_tolerances_have_the_size_of_the_library(opened, msd_table):
    rng = np.random.default_rng(0)
    losses = ts.loss(msd_table, ts.Question("regret", "worst", epsilon=0.0))
    steps = opened.run("return taskspace.panels[0].view.layer.about.steps")
    epsilons = [step["epsilon"] for step in steps]
    opened.set(".method", "greedy", "change")
    for wanted in np.exp(
        rng.uniform(np.log(epsilons[0]), np.log(2 * epsilons[-1]), 20)
    ):
        opened.set(".epsilon-number", float(wanted), "change")
        shown = float(
            opened.run("return document.querySelector('.epsilon-number').value")
        )
        assert shown == max(e for e in epsilons if e <= wanted)
        sets = ts.tolerance_sets(losses, shown)
        cover = ts.greedy_cover(sets)
        size = int(opened.text(".sentence .size").split()[0])
        assert size == cover.size
        rows = opened.run(
            "return document.querySelectorAll('.selected tbody tr').length"
        )
        assert rows == cover.size


def test_losses_are_bit_for_bit(opened, msd_table):
    for criterion in ("signed", "regret", "ratio", "cost"):
        for judge in ("worst", "best"):
            losses = ts.loss(msd_table, ts.Question(f"{criterion} {judge}")).values
            found = opened.ask(
                "const layer = await taskspace.page.layer(arguments[0]);"
                "const n = layer.n; const rows = taskspace.page.rows.length;"
                "return Array.from({length: rows * n}, (_, i) => "
                "  layer.loss(Math.floor(i / n), i % n));",
                f"{criterion}.{judge}",
            )
            np.testing.assert_array_equal(np.reshape(found, losses.shape), losses)


def test_another_question_is_shown(opened, msd_table):
    opened.set(".question", "ratio.worst", "change")
    assert "ratio ≤" in opened.text(".sentence")
    opened.set(".question", "ratio.best", "change")
    assert "by the best policy" in opened.text(".sentence")
    found = opened.ask(VIEW)
    who = expected(msd_table, "ratio best", found["epsilon"], found["sources"])
    assert (who >= 0).sum() == found["served"]


def test_a_click_shows_the_context(opened):
    opened.run(
        "const canvas = document.querySelector('canvas');"
        "const box = canvas.getBoundingClientRect();"
        "canvas.dispatchEvent(new MouseEvent('click', "
        "{clientX: box.left + box.width - 3, clientY: box.top + 3, bubbles: true}))"
    )
    opened.until("return document.querySelector('.detail h3')")
    assert opened.text(".detail h3") == "k 8, c 8"
    assert "margin" in opened.text(".detail")


def test_a_source_is_taken_in_and_out(opened):
    before = opened.ask(VIEW)
    source = next(s for s in range(56) if s not in before["sources"])
    opened.ask("await taskspace.panels[0].toggle(arguments[0])", source)
    after = opened.ask(VIEW)
    assert after["sources"] == [*before["sources"], source]
    assert opened.run("return document.querySelector('.method').value") == "hand"
    opened.run("document.querySelector('.selected .remove').click()")
    opened.until(
        f"return taskspace.panels[0].view.hand.length === {len(before['sources'])}"
    )
    fewer = opened.ask(VIEW)
    assert fewer["served"] < after["served"]
    assert "%" in opened.text(".sentence")


def test_the_budget_takes_the_first_sources(opened):
    opened.set(".budget input", 2)
    found = opened.ask(VIEW)
    assert len(found["sources"]) == 2
    assert "2 of" in opened.text(".budget output")


def test_downloaded_covers_are_verified(browser, tmp_path):
    scores = 100 - np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)) * 10)
    file = tmp_path / "scores.npz"
    ts.performance.write_matrix(ts.performance.table_from_matrix(scores), file)
    page = tmp_path / "page.html"
    ran = CliRunner().invoke(
        app, ["explore", str(file), "--ask", "regret <= 20", "--out", str(page)]
    )
    assert ran.exit_code == 0, ran.output
    browser.open(page.as_uri())
    for hand in (None, [4, 0], []):
        if hand is not None:
            browser.ask(
                "const panel = taskspace.panels[0];"
                "panel.view.method = 'hand'; panel.view.hand = arguments[0];"
                "await panel.update()",
                hand,
            )
        saved = browser.download(".save-cover", "cover.json")
        cover = ts.Cover.load(saved)
        assert hand is None or cover.sources.tolist() == hand
        ran = CliRunner().invoke(app, ["verify", str(saved), str(file)])
        assert ran.exit_code == 0, ran.output
        if hand is None:  # the prices that prove the bound travel with it
            sets = ts.Question("regret", "worst", epsilon=20.0).sets(
                ts.performance.read_matrix(file)
            )
            assert any("its prices" in s for s in ts.verify_cover(cover, sets).proven)
        # And a claim that was tampered with is refused.
        record = json.loads(saved.read_text())
        record["coverage"] += 0.1
        saved.write_text(json.dumps(record))
        assert CliRunner().invoke(app, ["verify", str(saved), str(file)]).exit_code == 1
    assert browser.errors() == []


def test_the_command_of_a_view_gives_its_numbers(browser, tmp_path):
    """What the page says at a step is what its own command line prints."""
    rng = np.random.default_rng(8)
    costs = rng.integers(1, 40, (12, 17)).astype(float)
    file = tmp_path / "my costs.npz"
    ts.performance.write_matrix(ts.performance.table_from_matrix(costs), file)
    page = tmp_path / "page.html"
    made = ["explore", str(file), "--read", "lower_is_better", "--out", str(page)]
    assert CliRunner().invoke(app, made).exit_code == 0
    browser.open(page.as_uri())
    n_steps = browser.run("return taskspace.panels[0].view.layer.about.steps.length")
    for step in rng.choice(n_steps, min(3, n_steps), replace=False).tolist():
        for method in ("best", "greedy"):
            browser.set(".method", method, "change")
            browser.set(".epsilon", step)
            found = browser.ask(VIEW)
            command = shlex.split(browser.text(".command"))
            assert command[0] == "taskspace"
            ran = CliRunner().invoke(app, [*command[1:], "--format", "json"])
            assert ran.exit_code == 0, ran.output
            printed = json.loads(ran.stdout)
            assert ts.Question(printed["ask"]).epsilon == found["epsilon"]
            assert printed["size"] == len(found["sources"])
            assert printed["coverage"] == pytest.approx(found["served"] / 17)
            assert found["bound"] <= printed["size"]
    assert browser.errors() == []


def test_an_error_of_the_measured_context_is_exact(browser, tmp_path):
    """What is shown, saved and asked again is the question with its error."""
    space = ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 7))
    study = ts.evaluate(ts.systems.MassSpringDamper(), ts.trainers.Lqr(), space)
    file, page = tmp_path / "table.npz", tmp_path / "page.html"
    ts.performance.write_matrix(study.table, file)
    made = ["explore", str(file), "--out", str(page), "--ask"]
    assert "must have a bound" in refused(*made, "regret with k=1.5")
    asked = ts.Question("regret <= 0.6 with k=1.5, c=40 %")
    ran = CliRunner().invoke(app, [*made, str(asked)])
    assert ran.exit_code == 0, ran.output
    browser.open(page.as_uri())
    losses = ts.loss(study, asked).values
    label = "document.querySelector('.question').selectedOptions[0].text"
    assert browser.run(f"return {label}") == "regret with k=1.5, c=40 %"
    found = browser.ask(VIEW)
    chosen = np.array(found["sources"])
    who = np.array([-1 if p < 0 else chosen[p] for p in found["who"]])
    np.testing.assert_array_equal(who, asked.assign(study, chosen))
    lost = int((losses > 0.6).all(0).sum())
    assert lost
    assert f"{lost} contexts are served by no source" in browser.text(".claims")
    cover = ts.minimum_cover(study, asked, time_limit=20)
    assert cover.optimal
    assert cover.size == len(chosen)
    saved = browser.download(".save-cover", "cover.json")
    assert json.loads(saved.read_text())["question"]["ask"] == str(asked)
    ran = CliRunner().invoke(app, ["verify", str(saved), str(file)])
    assert ran.exit_code == 0, ran.output
    assert f"--ask '{asked}'" in browser.text("code.command")
    browser.set(".question", "regret.worst", "change")
    assert len(browser.ask(VIEW)["sources"]) < cover.size
    assert browser.errors() == []


def test_the_figure_is_an_svg(opened):
    from xml.etree import ElementTree

    file = opened.download(".save-figure", "map.svg")
    root = ElementTree.fromstring(file.read_text())
    assert root.tag.endswith("svg")
    assert any(child.tag.endswith("image") for child in root)


def test_the_address_holds_the_state(opened, msd_page, tmp_path):
    opened.set(".question", "cost.worst", "change")
    opened.set(".epsilon", 7)
    opened.set(".mode", "loss", "change")
    opened.ask(
        "taskspace.panels[0].view.pick = 33; await taskspace.panels[0].toggle(5)"
    )
    opened.run("document.querySelector('.compare').click()")
    opened.until(
        "return taskspace.panels.length === 2 && location.hash.includes('b.c=')"
    )
    before = opened.ask(VIEW)
    fragment = opened.run("return location.hash")
    opened.show(msd_page, tmp_path, fragment)
    assert opened.ask(VIEW) == before
    assert opened.run("return taskspace.panels.length") == 2
    assert opened.run("return taskspace.panels[0].view.pick") == 33
    assert opened.run("return document.querySelector('.mode').value") == "loss"
    assert opened.run("return location.hash") == fragment


def test_names_are_text(browser, named_matrix, tmp_path):
    title = "</script><script>window.hacked = 2</script>"
    asked = [ts.Question("regret", epsilon=8.0)]
    page = collect(named_matrix, asked, title=title, time_limit=0.5)
    browser.show(render(page.header, page.blobs), tmp_path, "#p=3")
    assert browser.text("h1") == title
    assert browser.run("return window.hacked === undefined")
    assert "t3<script>window.hacked = 1</script>" in browser.text(".detail h3")
    assert browser.errors() == []


def test_three_axes_by_slices(browser, tmp_path):
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 3), m=(0.5, 2.0, 5))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0).table
    page = build_page(table, [ts.Question("regret", epsilon=0.5)], time_limit=0.5)
    browser.show(page, tmp_path)
    browser.run(
        "const s = document.querySelector('.slices input'); s.value = 4;"
        "s.dispatchEvent(new Event('input'))"
    )
    # The middle of the map at the last slice of m: the target with that number.
    found = browser.run(
        "const map = taskspace.panels[0].shown.map;"
        "return map.targetAt(map.size.w - 1, 1)"
    )
    assert table["target_k"].values[found] == 8.0
    assert table["target_c"].values[found] == 8.0
    assert table["target_m"].values[found] == 2.0
    assert browser.errors() == []


def test_neighbours_differ_in_colour(browser, msd_page, tmp_path):
    browser.show(msd_page, tmp_path)
    rng = np.random.default_rng(5)
    for trial in range(6):
        n = int(rng.integers(2, 60))
        who = np.kron(rng.integers(-1, n, (9, 9)), np.ones((2, 2), int))
        got = browser.run(
            "const [who, n] = arguments;"
            "const map = taskspace.panels[0].shown.map;"
            "return Array.from(map.coloursOf(Int32Array.from(who), [18, 18], n))",
            who.ravel().tolist(),
            n,
        )
        colour = np.array([*got, -1])[who]
        for a, b in (
            (np.s_[1:, :], np.s_[:-1, :]),
            (np.s_[:, 1:], np.s_[:, :-1]),
            (np.s_[1:, 1:], np.s_[:-1, :-1]),
            (np.s_[1:, :-1], np.s_[:-1, 1:]),
        ):
            touch = (who[a] != who[b]) & (who[a] >= 0) & (who[b] >= 0)
            assert (colour[a] != colour[b])[touch].all(), trial


def test_keys_move_the_tolerance_and_the_pick(opened):
    from selenium.webdriver.common.keys import Keys

    slider = opened.driver.find_element("css selector", ".epsilon")
    before = opened.run("return taskspace.panels[0].view.step")
    slider.send_keys(Keys.ARROW_RIGHT)
    opened.until(f"return taskspace.panels[0].view.step === {before + 1}")
    canvas = opened.driver.find_element("css selector", "canvas")
    opened.ask("taskspace.panels[0].view.pick = 0; await taskspace.panels[0].update()")
    canvas.send_keys(Keys.ARROW_UP)
    opened.until("return taskspace.panels[0].view.pick === 1")
    canvas.send_keys(Keys.ARROW_RIGHT)
    opened.until("return taskspace.panels[0].view.pick === 9")
    canvas.send_keys(Keys.ENTER)
    opened.until("return taskspace.panels[0].view.method === 'hand'")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_runs_over_the_side(browser, msd_page, tmp_path, width):
    metrics = {
        "width": width,
        "height": 844,
        "deviceScaleFactor": 1,
        "mobile": width < 500,
    }
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.show(msd_page, tmp_path, "#p=9")
        assert browser.run("return document.documentElement.scrollWidth") <= width
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_large_table_keeps_only_some_rows(browser, tmp_path):
    """Rows are left out, losses quantised; counts stay exact."""
    space = ts.Grid(k=(0.1, 8.0, 30), c=(0.1, 8.0, 30))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0).table
    page = build_page(
        table, [ts.Question("regret", epsilon=0.1)], max_rows=400,
        n_steps=12, time_limit=1.0,
    )  # fmt: skip
    browser.show(page, tmp_path)
    assert browser.run("return taskspace.page.rows.length") <= 400
    assert browser.run("return taskspace.panels[0].view.layer.isExact") is False
    n_steps = browser.run("return taskspace.panels[0].view.layer.about.steps.length")
    for step in range(n_steps):
        browser.set(".epsilon", step)
        found = browser.ask(VIEW)
        who = expected(table, "regret", found["epsilon"], found["sources"])
        mine = [-1 if p < 0 else found["sources"][p] for p in found["who"]]
        np.testing.assert_array_equal(mine, who)
    assert browser.errors() == []


def odd_tables():
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    system = ts.systems.MassSpringDamper()
    flat = ts.Grid(k=(1.0, 1.0, 1), c=(0.1, 1.0, 4))
    strip = ts.Grid(k=(0.1, 8.0, 9, "log"))
    dots = ts.Points(["k", "c"], [[0.5, 1.0], [3.0, 0.2], [7.0, 7.0]])
    return {
        "one": ts.performance.table_from_matrix([[3.0]]),
        "all fail": ts.performance.table_from_matrix(np.full((3, 4), -np.inf)),
        "all alike": ts.performance.table_from_matrix(np.full((5, 4), 7.0)),
        "one value on an axis": ts.evaluate(system, trainer, flat, seed=0).table,
        "one axis": ts.evaluate(system, trainer, strip, seed=0).table,
        "points": ts.evaluate(system, trainer, dots, seed=0).table,
    }


@pytest.mark.parametrize("name", list(odd_tables()))
def test_odd_tables_open(browser, tmp_path, name):
    table = odd_tables()[name]
    browser.show(build_page(table, time_limit=0.2, n_steps=8), tmp_path, "#p=0")
    n_steps = browser.run("return taskspace.panels[0].view.layer.about.steps.length")
    for step in range(n_steps):
        browser.set(".epsilon", step)
        found = browser.ask(VIEW)
        who = expected(table, "regret", found["epsilon"], found["sources"])
        assert found["served"] == (who >= 0).sum()
    for mode in ("loss", "source"):
        if browser.run("return !!document.querySelector('.mode')"):
            browser.set(".mode", mode, "change")
    assert browser.errors() == []
