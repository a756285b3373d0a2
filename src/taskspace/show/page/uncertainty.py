"""How sure a sampled loss is."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.questions import Question

__all__ = ["judged_standard_error"]


def judged_standard_error(
    table: xr.Dataset, question: Question, rows: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Standard error of the loss of each source, as far as J at the target has one.

    That of the policy that counts: the worst or the best of the family. The reference
    (the best known J) is taken as it is. None for a table without standard errors and
    for losses against the score at home, whose error is not that of one mean.

    Args:
        table: a performance table.
        question: criterion and judge.
        rows: the sources.
    """
    rule = question.rule
    if question.measure != "performance":
        return None
    if "standard_error" not in table or rule.reference == "home":
        return None
    scores = table["performance"][rows].values
    errors = table["standard_error"][rows].values
    judged = scores.argmin(1) if question.judge == "worst" else scores.argmax(1)
    error = np.take_along_axis(errors, judged[:, None, :], axis=1)[:, 0]
    if rule.is_relative:
        error = error / np.abs(table["best_known"].values)
    return error
