"""`taskspace explore`: one page that explains, explores and travels."""

import time
from dataclasses import dataclass
from pathlib import Path

from taskspace._util.files import inside, write_atomically
from taskspace.cli.options import (
    Asking,
    Reading,
    argument,
    as_command,
    option,
)
from taskspace.cli.output import Answer, console, shown, stage_progress, writable
from taskspace.errors import InvalidInputError

EXAMPLES = (
    "taskspace explore runs/msd-lqr",
    "taskspace explore scores.csv --out scores.html",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace explore` may be told beside the question and the reading."""

    path: Path = argument("A run, a selection or a matrix file.")
    out: Path | None = option(
        "The HTML file; by default explore.html in a folder, NAME.html beside a file."
    )
    time_limit: float = option("Processor seconds for searches beyond greedy.", 4.0)
    certify: bool = option(
        "Show what is certified between the contexts, for each question.", False
    )

    @property
    def file(self) -> Path:
        """The page: as named, in a folder, or beside a file."""
        if self.out is not None:
            return self.out
        if self.path.is_dir():
            return inside(self.path, self.path / "explore.html")
        return self.path.with_name(f"{self.path.stem}.html")


@as_command
def explore(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Make one HTML file of a run, a selection or a matrix: report and explorer in one.

    It opens from disk, needs no server and no network, and answers every tolerance.
    """
    from taskspace.certificates import certify
    from taskspace.deploy.files import MANIFEST
    from taskspace.show.page import build_page
    from taskspace.show.page.build import page_questions

    asked = [] if asking.ask is None else [asking.question(options.path)]
    if (options.path / MANIFEST).is_file():
        raise InvalidInputError(
            f"{options.path} is a policy library, and a page shows a run, a selection "
            "or a matrix. Explore the run that it was made from; contract.json "
            "says what it holds, and `taskspace evaluate` tries it."
        )
    file = options.file
    writable(file)
    began = time.perf_counter()
    with stage_progress() as report:
        study = reading.study(options.path)
        certified = []
        if options.certify:
            certified = [
                certify(study, q, progress=report)
                for q in dict.fromkeys([*asked, *page_questions(study)])
            ]
        html = build_page(
            study,
            asked,
            certified=certified,
            time_limit=options.time_limit,
            progress=report,
        )
        report("write", 0, 1)
        write_atomically(file, html)
        report("write", 1, 1)
    seconds, size = time.perf_counter() - began, file.stat().st_size

    def show() -> None:
        console.print(f"{shown(file)}: {size / 1e6:.2f} MB, {seconds:.1f} s")
        console.print("Open it in a browser; it needs no server and no network.")

    return Answer(lambda: {"file": str(file), "bytes": size, "seconds": seconds}, show)
