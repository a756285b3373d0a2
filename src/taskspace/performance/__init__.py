"""J of every policy at every target."""

from taskspace.performance.evaluate import (
    best_known,
    evaluate,
    evaluate_block,
    kept_variables,
)
from taskspace.performance.files import read_matrix, table_from, write_matrix
from taskspace.performance.given import evaluate_policies
from taskspace.performance.table import (
    REDUCTIONS,
    family_rows,
    make_table,
    row_blocks,
    source_space,
    table_from_matrix,
    target_space,
)

__all__ = [
    "REDUCTIONS",
    "best_known",
    "evaluate",
    "evaluate_block",
    "evaluate_policies",
    "family_rows",
    "kept_variables",
    "make_table",
    "read_matrix",
    "row_blocks",
    "source_space",
    "table_from",
    "table_from_matrix",
    "target_space",
    "write_matrix",
]
