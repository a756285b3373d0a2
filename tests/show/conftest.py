"""A real Chromium, started once; pages are opened from disk with the network off."""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.runs import load_experiment, run_experiment
from taskspace.show.page import build_page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
HOW = "Chromium is not installed. On Debian: apt-get install chromium chromium-driver"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--window-size=1280,900",
)  # fmt: skip


class Browser:
    """A driver with the few moves that tests make."""

    def __init__(self, driver, downloads: Path):
        self.driver, self.downloads = driver, downloads

    def open(self, address: str, *, offline: bool = True) -> None:
        self.driver.get("about:blank")
        self.errors()
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {
                "offline": offline,
                "latency": 0,
                "downloadThroughput": -1,
                "uploadThroughput": -1,
            },
        )
        self.driver.get(address)
        self.until("return document.documentElement.dataset.ready === 'yes'")

    def show(self, html: str, folder: Path, fragment: str = "") -> None:
        file = folder / "page.html"
        file.write_text(html, encoding="utf-8")
        self.open(f"{file.as_uri()}{fragment}")

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, seconds: float = 30.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(script):
                return found
            time.sleep(0.03)
        raise AssertionError(f"Never true: {script}; {self.errors()}")

    def ask(self, script: str, *arguments):
        """The value of a promise."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            f"(async () => {{ {script} }})().then(done, e => done('' + e))",
            *arguments,
        )

    def set(self, selector: str, value: object, event: str = "input") -> None:
        """Move a control as a person would, and wait for the picture."""
        self.ask(
            "const [selector, value, event] = arguments;"
            "const control = document.querySelector(selector);"
            "const turn = taskspace.panels[0].turn;"
            "control.value = value;"
            "control.dispatchEvent(new Event(event, { bubbles: true }));"
            "while (taskspace.panels[0].turn === turn) "
            "  await new Promise(r => setTimeout(r, 2));"
            "await taskspace.panels[0].update();",
            selector,
            value,
            event,
        )

    def text(self, selector: str) -> str:
        return self.run(
            "return document.querySelector(arguments[0]).textContent", selector
        )

    def errors(self) -> list[str]:
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
        ]

    def download(self, selector: str, name: str) -> Path:
        file = self.downloads / name
        file.unlink(missing_ok=True)
        self.run("document.querySelector(arguments[0]).click()", selector)
        end = time.monotonic() + 20
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.03)
        return file


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if not CHROMIUM or not DRIVER:
        pytest.skip(HOW)
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior",
        {"behavior": "allow", "downloadPath": str(downloads)},
    )
    yield Browser(driver, downloads)
    driver.quit()


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "msd"
    options = ["space.n=5", "trainer.n_policies=2", "cover.n_repeats=2"]
    run_experiment(load_experiment("msd", options), path)
    return path


@pytest.fixture(scope="session")
def msd_table():
    space = ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 8))
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.1)
    return ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0).table


@pytest.fixture(scope="session")
def msd_page(msd_table):
    questions = [ts.Question("regret", epsilon=0.2), ts.Question("signed", epsilon=0.2)]
    return build_page(msd_table, questions, title="msd", time_limit=1.0)


@pytest.fixture(scope="session")
def named_matrix():
    """Scores with failures, and names that try to be more than text."""
    rng = np.random.default_rng(3)
    x, y = rng.uniform(0, 1, 12), rng.uniform(0, 1, 15)
    scores = 100 - 100 * np.abs(x[:, None] - y) + rng.normal(0, 2, (12, 15))
    scores[2, 3:6] = -np.inf
    table = ts.performance.table_from_matrix(scores)
    return table.assign_coords(
        source=[f"<b>p{i}</b>" for i in range(12)],
        target=[f"t{i}<script>window.hacked = 1</script>" for i in range(15)],
    )
