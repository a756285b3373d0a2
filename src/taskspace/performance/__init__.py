"""J of every policy at every target."""

from taskspace.performance.evaluation import evaluate, new_ledger
from taskspace.performance.from_data import study_from
from taskspace.performance.given import evaluate_policies
from taskspace.performance.io import read_matrix, table_from, write_matrix
from taskspace.performance.ledger import Ledger, Task, best_known, kept_variables
from taskspace.performance.study import Study
from taskspace.performance.table import (
    REDUCTIONS,
    family_rows,
    holds_score,
    make_table,
    provenance_of,
    reduced_name,
    row_blocks,
    source_space,
    table_from_matrix,
    target_space,
)

__all__ = [
    "REDUCTIONS",
    "Ledger",
    "Study",
    "Task",
    "best_known",
    "evaluate",
    "evaluate_policies",
    "family_rows",
    "holds_score",
    "kept_variables",
    "make_table",
    "new_ledger",
    "provenance_of",
    "read_matrix",
    "reduced_name",
    "row_blocks",
    "source_space",
    "study_from",
    "table_from",
    "table_from_matrix",
    "target_space",
    "write_matrix",
]
