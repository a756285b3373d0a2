"""The page in a real Chromium: size, time to open, time from ε to a redrawn map.

    python benchmarks/bench_page.py [cartpole] [msd] [million]

Needs Chromium and its driver (`make browser`) and selenium. Beside times on the clock,
which other work on the machine stretches, it prints processor time: of Python while it
makes the page, and of the page's own thread from ε to the redrawn map.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver

import taskspace as ts
from taskspace.runs import load_experiment, run_experiment
from taskspace.show.page import build_page

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--window-size=1280,900",
)  # fmt: skip
MOVE = """
const done = arguments[arguments.length - 1];
(async () => {
  const slider = document.querySelector('.epsilon');
  const panel = taskspace.panels[0];
  const times = [];
  for (let i = 0; i < 20; i += 1) {
    const turn = panel.turn;
    const began = performance.now();
    slider.value = String((Number(slider.value) + 3) % (Number(slider.max) + 1));
    slider.dispatchEvent(new Event('input'));
    while (panel.turn === turn || panel.drawn !== panel.turn)
      await new Promise(r => setTimeout(r, 0));
    times.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  done(times);
})();
"""


def chromium(folder: Path):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(120)
    return driver


def busy(driver) -> float:
    """Seconds that the thread of the page has worked."""
    found = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(m["value"] for m in found if m["name"] == "TaskDuration")


def measure(name: str, html: str, made: str, limits: tuple[float, float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(html, encoding="utf-8")
        driver = chromium(Path(folder) / "profile")
        try:
            driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            driver.get(file.as_uri())
            end = time.monotonic() + 300
            while time.monotonic() < end:
                if driver.execute_script(
                    "return document.documentElement.dataset.ready"
                ):
                    break
                time.sleep(0.01)
            opened = driver.execute_script(
                "return performance.getEntriesByName('ready')[0].startTime"
            )
            before = busy(driver)
            times = driver.execute_async_script(MOVE)
            worked = 1000 * (busy(driver) - before) / len(times)
        finally:
            driver.quit()
    size, redraw = file_size(html), statistics.median(times)
    print(
        f"{name}: made in {made}; {size:.2f} MB (limit {limits[0]:g}); usable "
        f"after {opened / 1000:.2f} s; ε to redrawn map {redraw:.0f} ms, "
        f"worst {max(times):.0f} ms, {worked:.0f} ms of the processor (limit "
        f"{limits[1]:g})",
        flush=True,
    )


def file_size(html: str) -> float:
    return len(html.encode()) / 1e6


class Stopwatch:
    """Time on the clock and of the processor."""

    def __init__(self):
        self.began = time.perf_counter(), time.process_time()

    def __str__(self) -> str:
        clock = time.perf_counter() - self.began[0]
        worked = time.process_time() - self.began[1]
        return f"{clock:.1f} s ({worked:.1f} s of the processor)"


def from_path(path: Path) -> tuple[str, str]:
    watch = Stopwatch()
    html = build_page(ts.open(path), time_limit=4.0)
    return html, str(watch)


def cartpole() -> None:
    file = Path(__file__).parents[1] / "examples" / "data" / "cartpole.npz"
    measure("CartPole, 400 x 400", *from_path(file), (5, 50))


def msd() -> None:
    run = Path("runs/msd")
    with tempfile.TemporaryDirectory() as folder:
        if not run.is_dir():
            run = Path(folder) / "msd"
            run_experiment(load_experiment("msd"), run)
        html, made = from_path(run)
    measure("mass-spring-damper, 10,000 x 10,000", html, made, (20, 100))


def million() -> None:
    rng = np.random.default_rng(0)
    targets = ts.Grid(x=(0.0, 1.0, 1000), y=(0.0, 1.0, 1000))
    sources = ts.Points(["x", "y"], rng.uniform(0, 1, (64, 2)))
    scores = np.empty((64, targets.size))
    for row, point in zip(scores, sources.points, strict=True):
        row[:] = -((targets.points - point) ** 2).sum(1)
    table = ts.performance.table_from_matrix(scores, sources=sources, targets=targets)
    watch = Stopwatch()
    question = ts.Question("floor", epsilon=0.02)
    html = build_page(table, [question], n_steps=20, time_limit=1.0)
    made = str(watch)
    measure("synthetic, 64 x 1,000,000", html, made, (1000, 300))


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ["cartpole", "msd", "million"]:
        {"cartpole": cartpole, "msd": msd, "million": million}[chosen]()
