"""Where the public set-cover files are."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data" / "setcover"


@pytest.fixture
def data_folder() -> Path:
    if not DATA.is_dir():
        pytest.skip(f"the public set-cover files are not at {DATA}")
    return DATA
