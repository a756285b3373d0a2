"""Transfer matrices in files and other people's objects: one file per rule.

| file | rule |
|---|---|
| `read` | which reader a file's name asks for; from what it says to a table |
| `text` | CSV and TSV, read by pandas |
| `frame` | what a cell is, what names rows and columns |
| `layout` | one row per policy; one row per cell or run |
| `arrays` | npz, NetCDF, Zarr and xarray |
| `limits` | what is refused: too large for the memory, pickled, damaged |
| `write` | a table into an npz file |
"""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
