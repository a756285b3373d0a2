# The names of the package; __init__.py loads them when they are first used.

from .layout import Missing as Missing
from .read import MATRIX_SUFFIXES as MATRIX_SUFFIXES
from .read import matrix_suffix as matrix_suffix
from .read import read_matrix as read_matrix
from .read import table_from as table_from
from .write import write_matrix as write_matrix
