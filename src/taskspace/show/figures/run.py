"""The figures of a run, drawn once for its results."""

from pathlib import Path

from taskspace._util.files import checksum, read_sealed, write_sealed
from taskspace.errors import DamagedFileError
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results
from taskspace.show.figures.coverage import save_figures

__all__ = ["draw_run"]

RECORD = "drawn.json"
"""What was drawn, and from which results."""


def draw_run(path: Path, results: Results) -> list[Path]:
    """Draw the figures of a run, unless they are there as they were drawn.

    Args:
        path: the run directory.
        results: what it found.

    Returns:
        The pictures.
    """
    folder = path / "figures"
    drawn = _drawn(path)
    if drawn is not None:
        return [file for file in drawn if file.suffix == ".png"]
    (folder / RECORD).unlink(missing_ok=True)
    figures = save_figures(open_study(path), results, folder)
    files = {file for figure in figures for file in folder.glob(f"{figure.stem}.*")}
    record = {
        "results": _checksum(path / "results.json"),
        "files": {file.name: _checksum(file) for file in sorted(files)},
    }
    write_sealed(folder / RECORD, record)
    return figures


def _drawn(path: Path) -> list[Path] | None:
    """The files of figures of these results, None if one is missing or damaged."""
    folder = path / "figures"
    try:
        record = read_sealed(folder / RECORD)
        files = {folder / Path(name).name: c for name, c in record["files"].items()}
        if record["results"] != _checksum(path / "results.json"):
            return None
        return list(files) if all(_checksum(f) == c for f, c in files.items()) else None
    except (DamagedFileError, OSError, AttributeError, KeyError, TypeError):
        return None


def _checksum(file: Path) -> str:
    return checksum(file.read_bytes())
