"""One compact file for a finished run: its table and its experiment.

An npz file that needs no taskspace to be read: `performance` with dims (source,
policy, target), `home`, `best_known`, `environment_steps`, and the experiment as
TOML text, from which the contexts follow.
"""

import zipfile
from pathlib import Path

import numpy as np
import xarray as xr

from taskspace.errors import InvalidInputError
from taskspace.performance import make_table
from taskspace.runs.experiment import Experiment
from taskspace.runs.store import RunStore, replacing

__all__ = ["is_archive", "read_archive", "write_archive"]

VARIABLES = ("performance", "home_performance", "best_known", "environment_steps")


def write_archive(run: RunStore, path: str | Path) -> Path:
    """Write the table of a run into one compressed file, without loss.

    Args:
        run: a finished run that holds J itself (not only its reductions).
        path: the file, ending in `.npz`.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InvalidInputError(f"An archive must end in .npz, but got {path.name}.")
    table = run.table()
    if "performance" not in table:
        raise InvalidInputError(
            f"{run.path} holds only reductions of J, too many numbers for one file."
        )
    arrays = {name: table[name].values for name in VARIABLES}
    # Means of a power of two of whole returns fit into half the bytes.
    short = arrays["performance"].astype(np.float32)
    if (short == arrays["performance"]).all():
        arrays["performance"] = short
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            allow_pickle=False,
            experiment=np.array(run.experiment.to_toml()),
            best_known_kind=np.array(table.attrs["best_known_kind"]),
            **arrays,
        )
    return path


def is_archive(path: str | Path) -> bool:
    """Whether a file is such an archive."""
    path = Path(path)
    return (
        path.suffix == ".npz"
        and zipfile.is_zipfile(path)
        and "experiment.npy" in zipfile.ZipFile(path).namelist()
    )


def read_archive(path: str | Path) -> tuple[xr.Dataset, Experiment]:
    """The table and the experiment of an archive."""
    path = Path(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in VARIABLES}
            text, kind = str(data["experiment"]), str(data["best_known_kind"])
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            f"{path} is not a whole archive of a run: {error}."
        ) from error
    experiment = Experiment.from_toml(text, origin=f"the experiment in {path}")
    arrays["performance"] = arrays["performance"].astype(np.float64)
    table = make_table(
        arrays,
        experiment.sources,
        experiment.target_space,
        {
            "system": experiment.built_system.id,
            "trainer": experiment.built_trainer.id,
            "seed": experiment.seed,
            "best_known_kind": kind,
        },
    )
    return table, experiment
