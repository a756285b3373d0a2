"""Hostile text, odd numbers, edges of tolerances."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import TaskspaceError
from taskspace.runs.opening import open_study
from taskspace.show.page import build_page, collect
from taskspace.show.page.html import render
from tests.show.page.test_browser import VIEW, expected

EVIL = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "<!--<script>{{script}}{{data}}",
    "\u2028'\"`${window.hacked=1}\\u003c",
)


def hostile_table(evil):
    rng = np.random.default_rng(0)
    space = ts.Grid(**{"k": (0.1, 8.0, 4), "c": (0.1, 8.0, 3)})
    table = ts.performance.table_from_matrix(
        rng.normal(0, 1, (12, 12)), sources=space, targets=space
    )
    renamed = {f"{side}_k": f"{side}_{evil}" for side in ("source", "target")}
    return table.rename(renamed).assign_attrs(system=evil)


@pytest.mark.parametrize("evil", EVIL)
def test_text_is_text_wherever_it_stands(browser, tmp_path, evil):
    about = {"warnings": [evil], "settings": evil, "reproduce": evil, "versions": evil}
    asked = [ts.Question(epsilon=1.0)]
    page = collect(hostile_table(evil), asked, title=evil, time_limit=0.2, n_steps=5)
    page.header["about"] |= {"path": evil, **about}
    for axis in page.header["targets"]["axes"]:
        axis["label"] = f"{evil} [{evil}]"
    browser.show(render(page.header, page.blobs), tmp_path, "#p=3")
    assert browser.run("return window.hacked === undefined")
    assert browser.text("h1") == evil
    assert browser.run("return document.title.trim()") == evil.strip()
    for selector in (".warnings", "footer", ".overlay", ".detail h3"):
        assert evil.strip() in browser.text(selector), selector
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.errors() == []


@pytest.mark.parametrize("evil", EVIL)
def test_names_are_text_in_selections_and_certificates(browser, tmp_path, evil):
    table = hostile_table("k").assign_attrs(system="x")

    page = collect(table, [ts.Question(epsilon=1.0)], time_limit=0.2, n_steps=4)
    step = {"trainings": 1, "environment_steps": 0, "evaluations": 5, "coverage": 0.5}
    page.header["selection"] = {
        "title": evil, "selector": evil, "history": [step], "question": {},
        "sources": [{"context": (1.0, 2.0), "kind": evil, "place": 0,
                     "state": "failed", "reason": evil, "region": ()}],
    }  # fmt: skip
    page.header["certificates"] = [
        {"key": "regret.worst", "epsilon": 1.0, "question": evil, "ask": evil,
         "boxes": None,
         "items": [{"name": evil, "holds": True, "kind": "proof", "scope": evil,
                    "why": evil}]}
    ]  # fmt: skip
    page.header["no_play"] = evil
    browser.show(render(page.header, page.blobs), tmp_path, "#p=3")
    assert browser.run("return window.hacked === undefined")
    history = browser.text("footer .below")
    assert history.count(evil.strip()) >= 2
    assert "1 failed" in history
    assert evil.strip() in browser.text(".no-play")
    assert browser.errors() == []


def test_infinite_scores_are_failures_or_refused(browser, tmp_path):
    scores = np.array([[5.0, -np.inf, 1.0], [-np.inf, 4.0, -np.inf]])
    table = ts.performance.table_from_matrix(scores)
    browser.show(build_page(table, time_limit=0.2, n_steps=5), tmp_path, "#p=1")
    assert "4 of 4" not in browser.text(".sentence")
    found = browser.ask(
        "const layer = await taskspace.page.layer('regret.worst');"
        "return Array.from({length: 6}, (_, i) => "
        "  String(layer.loss(Math.floor(i / 3), i % 3)));"
    )
    assert [float(x.replace("Infinity", "inf")) for x in found] == [
        0.0, np.inf, 0.0, np.inf, 0.0, np.inf,
    ]  # fmt: skip
    assert browser.errors() == []
    for bad in (np.nan, np.inf):
        with pytest.raises(TaskspaceError):
            ts.performance.table_from_matrix([[bad, 1.0], [2.0, 3.0]])


def exact_tables():
    """Tables whose losses tie, fail, or come in few values."""
    rng = np.random.default_rng(11)
    tied = rng.integers(0, 4, (9, 14)).astype(float)
    tenths = rng.integers(0, 30, (10, 10)) * 0.1  # 0.1 has no exact binary form
    failing = rng.normal(0, 1, (8, 12))
    failing[rng.uniform(size=failing.shape) < 0.3] = -np.inf
    hopeless = failing.copy()
    hopeless[:, :4] = -np.inf
    return {
        "ties": tied,
        "tenths": tenths,
        "failures": failing,
        "targets that nobody serves": hopeless,
        "one source": rng.normal(0, 1, (1, 9)),
        "one target": rng.normal(0, 1, (9, 1)),
        "tiny units": 1e-13 * tied,
        "huge units": 1e15 * tenths,
    }


@pytest.mark.parametrize("name", list(exact_tables()))
def test_tolerances_on_the_very_losses(browser, tmp_path, name):
    """At ε equal to a loss, and at its neighbours, the page counts as the library."""
    table = ts.performance.table_from_matrix(exact_tables()[name])
    losses = ts.loss(table, ts.Question("regret", "worst", epsilon=0.0)).values
    values = np.unique(losses[np.isfinite(losses)])
    chosen = values[:: max(1, len(values) // 6)]
    near = [*chosen, *np.nextafter(chosen, -np.inf), *np.nextafter(chosen, np.inf)]
    epsilons = sorted({float(e) for e in near if e >= 0})
    questions = [ts.Question(epsilon=e) for e in epsilons]
    browser.show(build_page(table, questions, time_limit=0.2, n_steps=4), tmp_path)
    for epsilon in epsilons:
        browser.set(".epsilon-number", epsilon, "change")
        found = browser.ask(VIEW)
        assert found["epsilon"] == epsilon
        who = expected(table, "regret", epsilon, found["sources"])
        mine = [-1 if p < 0 else found["sources"][p] for p in found["who"]]
        np.testing.assert_array_equal(mine, who)
        sets = ts.tolerance_sets(
            ts.loss(table, ts.Question("regret", "worst", epsilon=0.0)), epsilon
        )
        best = ts.minimum_cover(sets, time_limit=2)
        assert found["bound"] <= best.size <= len(found["sources"])
        assert found["served"] == (losses <= epsilon).any(0).sum()
    assert browser.errors() == []


@pytest.mark.parametrize(
    "fragment",
    ["#c=__proto__", "#c=regret.worst&e=abc&p=-1&k=1e9", "#m=constructor", "#v=boxes",
     "#m=certified", "#m=hand&s=0.99.x.1&p=999", "#v=source&o=77", "#b.c=nothing",
     "#c=nonsense.worst&e=NaN", "#c=regret.worst&e=1e99&p=-4&k=x&m=hand&s=9999.a.3",
     "#c=regret.worst&m=<script>&x=1.1.1", "#%%%", "#e=0&p=1e9&v=source&o=777",
     "#x=0.0.1.1", "#e=1e400", "#e=", "#%", "#c=<script>", "#v=loss&k=0"],
)  # fmt: skip
def test_addresses_that_make_no_sense(browser, msd_page, tmp_path, fragment):
    browser.show(msd_page, tmp_path, fragment)
    assert "within" in browser.text(".sentence")
    assert browser.run("return document.querySelector('.mode').value")
    assert browser.errors() == []


@pytest.mark.parametrize(
    ("name", "n_views"),
    [
        ("msd", 20),
        *(
            pytest.param(name, 500, marks=pytest.mark.slow)
            for name in ("msd", "cartpole", "failures", "ties")
        ),
    ],
)
def test_random_views_are_exact(browser, tmp_path, name, n_views, msd_table):
    if name == "msd":
        table = msd_table
    elif name == "cartpole":
        from pathlib import Path

        data = Path(__file__).parents[3] / "examples" / "data" / "cartpole.npz"
        table = open_study(data).table
    else:
        table = ts.performance.table_from_matrix(exact_tables()[name])
    browser.show(build_page(table, time_limit=1.0), tmp_path)
    layers = browser.run("return taskspace.page.header.layers.map(l => l.key)")
    losses = {
        key: ts.loss(table, ts.Question(key.replace(".", " "))).values for key in layers
    }
    rng = np.random.default_rng(9)
    n = table.sizes["source"]
    for _ in range(n_views):
        key = layers[rng.integers(len(layers))]
        size = int(rng.integers(0, min(n, 9) + 1))
        sources = rng.choice(n, size, replace=False).tolist()
        found = browser.ask(
            "const [key, sources, share] = arguments;"
            "const panel = taskspace.panels[0];"
            "await panel.setLayer(key);"
            "panel.view.method = 'hand'; panel.view.hand = sources;"
            "panel.view.step = Math.floor(share * panel.view.layer.about.steps.length);"
            "await panel.update();"
            "const { view, answer } = panel;"
            "return { epsilon: view.epsilon, who: Array.from(answer.who),"
            "  served: answer.served, counts: answer.counts,"
            "  sizes: sources.map(s => view.setSize(s)) }",
            key, sources, float(rng.uniform()),
        )  # fmt: skip
        served = losses[key] <= found["epsilon"]
        order = np.sort(sources).astype(int)
        who = np.full(served.shape[1], -1)
        if size:
            any_of = served[order].any(0)
            who[any_of] = order[losses[key][order].argmin(0)[any_of]]
        mine = [-1 if p < 0 else sources[p] for p in found["who"]]
        np.testing.assert_array_equal(mine, who)
        assert found["served"] == (who >= 0).sum()
        assert found["counts"] == [int((who == s).sum()) for s in sources]
        assert found["sizes"] == [int(served[s].sum()) for s in sources]
    assert browser.errors() == []
