"""J of every policy at every target."""

from taskspace.performance.evaluation import evaluate, new_ledger
from taskspace.performance.given import evaluate_policies
from taskspace.performance.io import read_matrix, table_from, write_matrix
from taskspace.performance.ledger import Ledger, Task, best_known, kept_variables
from taskspace.performance.table import (
    REDUCTIONS,
    family_rows,
    make_table,
    provenance_of,
    row_blocks,
    source_space,
    table_from_matrix,
    target_space,
)

__all__ = [
    "REDUCTIONS",
    "Ledger",
    "Task",
    "best_known",
    "evaluate",
    "evaluate_policies",
    "family_rows",
    "kept_variables",
    "make_table",
    "new_ledger",
    "provenance_of",
    "read_matrix",
    "row_blocks",
    "source_space",
    "table_from",
    "table_from_matrix",
    "target_space",
    "write_matrix",
]
