"""`ts.explore`: the page of a study, written to a file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import xarray as xr

from taskspace._util.files import write_atomically
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.page.html import render
from taskspace.show.page.subject import Subject

__all__ = ["explore"]


def explore(
    study: Study | xr.Dataset,
    path: str | Path,
    questions: Iterable[Question] = (),
    **options: Any,
) -> Path:
    """Write one HTML file that explains and explores a study.

    It opens from disk, needs no server and no network, and answers every tolerance.

    Args:
        study: what is known, or a performance table.
        path: the file.
        questions: what is asked, beside what the experiment of a run asks; the first
            one is shown first.
        options: see `taskspace.show.page.collect`.

    Returns:
        The file.
    """
    page = Subject.of(as_study(study)).collect(list(questions), **options)
    write_atomically(Path(path), render(page))
    return Path(path)
