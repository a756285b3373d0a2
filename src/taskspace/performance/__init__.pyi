# The names of the package; __init__.py loads them when they are first used.

from .evaluation import evaluate as evaluate
from .evaluation import evaluate_policies as evaluate_policies
from .evaluation import study_from as study_from
from .io import read_matrix as read_matrix
from .io import write_matrix as write_matrix
from .ledger import Ledger as Ledger
from .study import Study as Study
from .table import REDUCTIONS as REDUCTIONS
from .table import family_rows as family_rows
from .table import holds_score as holds_score
from .table import make_table as make_table
from .table import provenance_of as provenance_of
from .table import reduced_name as reduced_name
from .table import row_blocks as row_blocks
from .table import source_space as source_space
from .table import table_from_matrix as table_from_matrix
from .table import target_space as target_space
from .work import Task as Task
