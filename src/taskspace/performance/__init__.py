"""J of every policy at every target."""

from taskspace.performance.evaluation import (
    evaluate,
    evaluate_policies,
    study_from,
)
from taskspace.performance.io import read_matrix, table_from, write_matrix
from taskspace.performance.ledger import Ledger, best_known, kept_variables
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
from taskspace.performance.work import Task

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
