"""Options that several commands share, each with one wording."""

from pathlib import Path
from typing import Annotated

import typer

from taskspace.criteria import CRITERIA

__all__ = [
    "ContextsOption",
    "CriterionOption",
    "FamilyOption",
    "LowerIsBetterOption",
    "SeedOption",
]

CriterionOption = Annotated[
    str, typer.Option(help=f"What loss means: {', '.join(CRITERIA)}.")
]
FamilyOption = Annotated[
    str, typer.Option(help="Worst (all) or best (any) policy of each family.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of random choices.")]
LowerIsBetterOption = Annotated[
    bool, typer.Option("--lower-is-better", help="The matrix holds costs.")
]
ContextsOption = Annotated[
    Path | None,
    typer.Option(
        help="A CSV or Parquet file with the contexts of a matrix, one a target.",
        show_default=False,
    ),
]
