"""The Python blocks of the page run, one after the other."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-own.md"


def test_blocks_of_the_page_run():
    for extra in ("control", "gymnasium"):
        pytest.importorskip(extra)
    scope: dict = {}
    blocks = PAGE.read_text().split("```python\n")[1:]
    assert len(blocks) >= 5
    for block in blocks:
        exec(block.split("```")[0], scope)
    assert scope["cover"].coverage == 1.0
    assert len(scope["schedule"].gains) == 20
    assert len(scope["acrobot"].axes) == 7
