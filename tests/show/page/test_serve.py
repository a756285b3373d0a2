"""The server: what it answers, whom it refuses, and what it follows."""

import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.runs import (
    RunStore,
    load_experiment,
    run_experiment,
    run_selection,
)
from taskspace.runs import execute as execute_module
from taskspace.runs.opening import open_study
from taskspace.show.page.serve import Live, make_server
from taskspace.show.page.subject import Reader

real_work = execute_module.do_work
OPTIONS = {"time_limit": 0.2, "n_steps": 8}


@contextmanager
def served(path, host="127.0.0.1", **options):
    reader = Reader(path, options=OPTIONS | options)
    live = Live(reader, every=0.1)
    server, address = make_server(live, host=host)
    threads = [
        threading.Thread(target=live.follow, daemon=True),
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield live, address
    finally:
        live.close()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join(30)


def get(address, **headers):
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def wait_for(condition, seconds=60):
    import time

    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def msd_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "msd"
    experiment = load_experiment(
        "msd", ["space.n=6", "trainer.n_policies=2", "cover.n_repeats=3"]
    )
    run_experiment(experiment, path)
    return path


@pytest.fixture(scope="module")
def server(msd_run):
    with served(msd_run, max_rows=20, more_rows=5) as (live, address):
        wait_for(lambda: live.html is not None)
        yield live, address


def test_the_page_and_nothing_else(server, msd_run):
    _, address = server
    status, body = get(address)
    assert status == 200
    assert b"connect-src 'self'" in body
    for name in (
        "results.json", "../results.json", "..%2f..%2fetc/passwd", "/etc/passwd",
        "api/../results.json", "experiment.toml", "api/rows", "%00",
    ):  # fmt: skip
        assert get(address + name)[0] == 404, name
    assert (msd_run / "results.json").exists()


def test_foreign_pages_are_refused(server):
    _, address = server
    host = address.removeprefix("http://").rstrip("/")
    news = f"{address}api/news"
    assert get(news)[0] == 200
    assert get(news, Origin=f"http://{host}")[0] == 200
    assert get(news, Origin="http://evil.example")[0] == 403
    assert get(news, Origin="null")[0] == 403
    assert get(news, Host="evil.example")[0] == 403
    assert get(news, **{"Sec-Fetch-Site": "cross-site"})[0] == 403


def test_another_address_needs_its_token(msd_run):
    with served(msd_run, host="0.0.0.0") as (_, address):
        assert "?token=" in address
        bare = address.split("?")[0].replace("0.0.0.0", "127.0.0.1")
        token = address.split("?")[1]
        assert get(f"{bare}api/news")[0] == 403
        assert get(f"{bare}api/news?token=wrong")[0] == 403
        assert get(f"{bare}api/news?token=%C3%BC")[0] == 403
        assert get(f"{bare}api/news?{token}")[0] == 200


def test_only_reading(server):
    _, address = server
    request = urllib.request.Request(f"{address}api/news", data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(request, timeout=10)


@pytest.mark.parametrize(
    "query",
    ["key=regret.worst&step=0&sources=99&pick=0", "key=x&step=0&sources=1&pick=0",
     "key=regret.worst&step=999&sources=1&pick=0", "key=regret.worst", "step=a",
     "key=regret.worst&step=0&sources=-1&pick=0"],
)  # fmt: skip
def test_a_question_without_sense_gets_a_sentence(server, query):
    status, body = get(f"{server[1]}api/view?{query}")
    assert status == 400
    assert json.loads(body)["error"]


def test_any_source_at_any_tolerance(server, msd_run):
    import base64

    live, address = server
    table = open_study(msd_run).table
    losses = ts.loss(table, ts.Question("regret", "worst", epsilon=0.0)).values
    layer = next(one for one in live.page.layers if one.key == "regret.worst")
    rng = np.random.default_rng(0)
    for _ in range(10):
        sources = rng.choice(36, 4, replace=False)
        step = int(rng.integers(len(layer.steps)))
        words = ".".join(map(str, sources))
        status, body = get(
            f"{address}api/view?key=regret.worst&step={step}&sources={words}&pick=7"
        )
        assert status == 200
        found = json.loads(body)
        who = np.frombuffer(base64.b64decode(found["who"]), "<i4")
        epsilon = layer.steps[step].epsilon
        order = np.sort(sources)
        served_by = order[losses[order].argmin(0)]
        expected = np.where((losses[order] <= epsilon).any(0), served_by, -1)
        np.testing.assert_array_equal(np.append(sources, -1)[who], expected)
        assert found["losses"] == losses[sources, 7].tolist()


def test_the_page_asks_for_rows_that_it_lacks(server, browser):
    live, address = server
    assert live.page.header["rows"]["shape"][0] < 36
    browser.open(address, offline=False)
    source = next(s for s in range(36) if s not in set(
        browser.run("return Array.from(taskspace.page.rows)")))  # fmt: skip
    browser.ask("await taskspace.panels[0].toggle(arguments[0])", source)
    wanted = "return taskspace.panels[0].view.sources.includes(arguments[0])"
    assert browser.run(wanted, source)
    browser.ask("await taskspace.panels[0].update()")
    assert browser.errors() == []
    rows = browser.run(
        "return [...document.querySelectorAll('.selected tbody tr td:nth-child(4)')]"
        ".map(c => c.textContent)"
    )
    losses = ts.loss(
        open_study(live.reader.path).table, ts.Question("regret", "worst", epsilon=0.0)
    ).values
    epsilon = browser.run("return taskspace.panels[0].view.epsilon")
    assert int(rows[-1]) == (losses[source] <= epsilon).sum()


def test_any_policy_is_played(server):
    _, address = server
    status, body = get(f"{address}api/play?source=3&target=30&judge=worst")
    assert status == 200
    record = json.loads(body)
    assert record["scene"] == "mass"
    assert record["away"]["shape"][0] == 1
    assert get(f"{address}api/play?source=3&target=36&judge=worst")[0] == 400
    assert get(f"{address}api/play?source=3&target=1&judge=any")[0] == 400


def test_a_run_is_followed_from_its_first_moment(browser, tmp_path):
    experiment = load_experiment(
        "msd", ["space.n=5", "trainer.n_policies=2", "cover.n_repeats=3"]
    )
    path = tmp_path / "run"
    RunStore.create(path, experiment)
    with served(path) as (live, address):
        browser.driver.get("about:blank")
        browser.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": False, "latency": 0, "downloadThroughput": -1,
             "uploadThroughput": -1},
        )  # fmt: skip
        browser.driver.get(address)
        browser.until("return document.body.textContent.includes('Not yet')")
        assert live.html is None
        run_experiment(experiment, path)
        browser.until("return document.documentElement.dataset.ready === 'yes'", 90)
        assert "25 contexts" in browser.text(".sentence")


def test_a_run_in_progress_shows_its_rows_so_far(browser, tmp_path, monkeypatch):
    """Cut after three blocks: what is there is shown and can be played."""
    experiment = load_experiment(
        "msd", ["space.n=6", "trainer.n_policies=2", "cover.n_repeats=3"]
    )
    path = tmp_path / "run"
    monkeypatch.setattr("taskspace.runs.stored.BLOCK_CELLS", 4 * 36 * 2)
    done = []

    def cut(*arguments, real=execute_module.do_work):
        if arguments[-1].stage == "evaluate":
            if len(done) == 3:
                raise KeyboardInterrupt
            done.append(arguments[-1].block)
        return real(*arguments)

    monkeypatch.setattr(execute_module, "do_work", cut)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, path)
    monkeypatch.setattr(execute_module, "do_work", real_work)
    with served(path) as (live, address):
        wait_for(lambda: live.html is not None)
        browser.open(address, offline=False)
        assert browser.run("return taskspace.page.header.sources.n") == 12
        assert "of 36 planned" in browser.text(".warnings")
        browser.until("return document.querySelector('.progress progress')")
        progress = browser.text(".progress")
        assert "evaluate 12 of 36" in progress
        dots = browser.run("return document.querySelectorAll('.trained').length")
        assert dots == 12
        assert get(f"{address}api/play?source=11&target=30&judge=worst")[0] == 200
        assert get(f"{address}api/play?source=12&target=30&judge=worst")[0] == 400
        table = open_study(path).table
        losses = ts.loss(table, ts.Question("regret", "worst", epsilon=0.0)).values
        served_now = browser.run("return taskspace.panels[0].answer.served")
        epsilon = browser.run("return taskspace.panels[0].view.epsilon")
        assert served_now == (losses <= epsilon).any(0).sum()
        run_experiment(experiment, path)
        browser.until(
            "return document.documentElement.dataset.ready === 'yes' &&"
            " taskspace.page.header.sources.n === 36",
            90,
        )
        browser.until("return !document.querySelector('.progress progress')")


def test_a_selection_is_followed(browser, tmp_path):
    """What was trained where, and the coverage so far, while it goes on."""
    experiment = load_experiment(
        "msd",
        ["space.n=6", "trainer.n_policies=1", "trainer.noise=0.0",
         "cover.n_repeats=2", "select.budget=3"],
    )  # fmt: skip
    path = tmp_path / "selected"
    question = ts.Question("regret", epsilon=0.3)
    first = run_selection(experiment, path, question=question).result
    assert first.coverage < 1
    with served(path) as (live, address):
        wait_for(lambda: live.html is not None)
        browser.open(address, offline=False)
        browser.until("return document.querySelector('.progress progress')")
        assert "3 trainings, targets covered" in browser.text(".progress")
        covered = round(first.coverage * 36)
        assert f"{covered} of 36" in browser.text(".progress")
        more = replace(experiment, select=replace(experiment.select, budget=None))
        result = run_selection(more, path, question=question).result
        browser.until(
            "return document.documentElement.dataset.ready === 'yes' &&"
            " taskspace.page.header.selection.own.trainings.length ==="
            f" {len(result.history)}",
            90,
        )
        rows = browser.run(
            "return document.querySelectorAll('.trained-list tbody tr').length"
        )
        assert rows == result.trainings


def test_a_file_that_changes_is_shown_anew(browser, tmp_path):
    file = tmp_path / "scores.csv"
    scores = np.eye(4) * 10
    ts.performance.write_matrix(ts.performance.table_from_matrix(scores), file)
    with served(file) as (live, address):
        wait_for(lambda: live.html is not None)
        browser.open(address, offline=False)
        assert "of 4 targets" in browser.text(".sentence") or "all 4" in browser.text(
            ".sentence"
        )
        ts.performance.write_matrix(
            ts.performance.table_from_matrix(np.eye(6) * 10), file
        )
        browser.until(
            "return document.documentElement.dataset.ready === 'yes' &&"
            " taskspace.page.header.targets.n === 6",
            60,
        )


def test_a_port_that_is_taken(server):
    from taskspace.errors import InvalidInputError

    live, address = server
    port = int(address.rstrip("/").rsplit(":", 1)[1])
    with pytest.raises(InvalidInputError, match=str(port)):
        make_server(live, port=port)
