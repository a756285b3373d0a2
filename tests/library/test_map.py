"""The map of a library shows what it selects."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.show.library import draw_library, library_map

from .helpers import MAKERS, gains, grid_library


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("axes", [None, ("x",), ("y", "x")])
def test_the_raster_is_the_selection(kind, axes, tmp_path):
    library = MAKERS[kind]()
    record = library_map(library, axes)
    names = list(axes or library.names[:2])
    rng = np.random.default_rng(0)
    for _ in range(50):
        place = tuple(rng.integers(0, n) for n in record.policy.shape)
        row = library.low / 2 + library.high / 2
        for name, i, values in zip(names, place, record.values, strict=True):
            row[library.names.index(name)] = values[i]
        found = library.select(row)
        assert record.policy[place] == found.policy
        served = library.regions.served[found.region]
        assert record.known[place] == served
    draw_library(record).savefig(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 2000


def test_one_axis_and_mistakes():
    library = ts.hand_library(gains(2), ts.Points(["k"], [1.0, 3.0]))
    record = library_map(library)
    assert not record.known.any()
    assert draw_library(record)
    with pytest.raises(InvalidInputError, match="one or two of the axes x, y"):
        library_map(grid_library(), ("z",))
    table = ts.table_from_matrix([[1.0, 0.0], [0.0, 1.0]])
    named = ts.library(table, [0], ts.Question("regret", epsilon=0.5))
    with pytest.raises(InvalidInputError, match="names only"):
        library_map(named)
