"""`taskspace explore`: one page that explains, explores and travels."""

import time
from dataclasses import dataclass
from pathlib import Path

from taskspace._util.files import inside
from taskspace.cli.options import Asking, Reading, argument, as_command, option
from taskspace.cli.output import Answer, stage_progress, writable
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


@as_command
def explore(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Make one HTML file of a run, a selection or a matrix: report and explorer in one.

    It opens from disk, needs no server and no network, and answers every tolerance.
    """
    from taskspace.certificates import certify
    from taskspace.deploy.files import MANIFEST
    from taskspace.show.page.build import explore as write_page
    from taskspace.show.page.build import page_questions

    path = options.path
    asked = [] if asking.ask is None else [asking.question(path)]
    if (path / MANIFEST).is_file():
        raise InvalidInputError(
            f"{path} is a policy library, and a page shows a run, a selection "
            "or a matrix. Explore the run that it was made from; contract.json says "
            "what it holds, and `taskspace evaluate` tries it."
        )
    file = options.out or path.with_name(f"{path.stem}.html")
    if options.out is None and path.is_dir():
        file = inside(path, path / "explore.html")
    writable(file)
    began = time.perf_counter()
    with stage_progress() as report:
        study = reading.study(path)
        questions = dict.fromkeys([*asked, *page_questions(study)])
        certified = [
            certify(study, question, progress=report)
            for question in questions
            if options.certify
        ]
        write_page(
            study,
            file,
            asked,
            certified=certified,
            time_limit=options.time_limit,
            progress=report,
        )
    seconds, size = time.perf_counter() - began, file.stat().st_size
    return Answer(
        {"file": str(file), "bytes": size, "seconds": seconds},
        f"{file}: {size / 1e6:.2f} MB, {seconds:.1f} s\n"
        "Open it in a browser; it needs no server and no network.",
    )
