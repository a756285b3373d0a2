"""Transfer matrices in files and other people's objects: one file per rule.

| file | rule |
|---|---|
| `files` | which reader a file's name asks for; Parquet |
| `text` | encodings, separators and decimal commas of CSV and TSV |
| `cells` | what a cell is: a number, a name, nothing |
| `columns` | the meaning of columns: names, targets, notes |
| `wide`, `long` | one row per policy; one row per cell or run |
| `arrays` | npz, NetCDF, Zarr and xarray |
| `parts` | what a matrix said (contexts, costs or scores), and the table it makes |
| `limits` | what is refused: too large for the memory, pickled, damaged |
| `write` | a table back into a file |
"""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
