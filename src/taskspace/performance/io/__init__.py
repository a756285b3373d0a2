"""Transfer matrices in files and other people's objects.

| file | rule |
|---|---|
| `read` | from a file or an object to a performance table |
| `text` | CSV and TSV, read by pandas |
| `cells` | what a cell is, what names rows and columns |
| `frame` | one row per policy; one row per cell |
| `arrays` | npz, npy and xarray |
"""

from taskspace.performance.io.arrays import write_matrix
from taskspace.performance.io.read import MATRIX_SUFFIXES, read_matrix

__all__ = ["MATRIX_SUFFIXES", "read_matrix", "write_matrix"]
