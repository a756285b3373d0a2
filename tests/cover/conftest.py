"""The public set-cover files, which are in the repository."""

import gzip
import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "assets" / "setcover"


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory) -> Path:
    """A folder with all of them, unpacked."""
    folder = tmp_path_factory.mktemp("setcover")
    for path in DATA.glob("*.txt"):
        shutil.copy(path, folder)
    for path in DATA.glob("*.txt.gz"):
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    return folder
