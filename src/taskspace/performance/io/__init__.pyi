# The names of the package; __init__.py loads them when they are first used.

from .columns import Missing as Missing
from .files import MATRIX_SUFFIXES as MATRIX_SUFFIXES
from .files import matrix_suffix as matrix_suffix
from .files import read_matrix as read_matrix
from .files import table_from as table_from
from .write import write_matrix as write_matrix
