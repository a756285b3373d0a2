"""What `taskspace cover` may be told."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from taskspace.cli.options import MemoryOption, SeedOption, option
from taskspace.cli.reading import is_set_cover, source_places
from taskspace.cover import METHODS
from taskspace.cover.ask import CoverProblem
from taskspace.errors import InvalidInputError, UnknownNameError

__all__ = ["CoverOptions"]


@dataclass(frozen=True)
class CoverOptions:
    """What `taskspace cover` may be told beside the question and the reading."""

    path: Annotated[
        Path,
        typer.Argument(
            help="A run or a matrix file (with --epsilon or --budget), or a "
            "set-cover file."
        ),
    ]
    epsilon: Annotated[float | None, option("Tolerance; not for set-cover files.")] = (
        None
    )
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}.")] = "greedy"
    time_limit: Annotated[
        float, typer.Option(help="Seconds until a search ends, loading included.")
    ] = 60.0
    seed: SeedOption = 0
    memory: MemoryOption = None
    unicost: Annotated[
        bool, typer.Option("--unicost", help="Ignore the costs of a set-cover file.")
    ] = False
    budget: Annotated[
        int | None,
        option(
            "Sources at most: as many targets as they serve within --epsilon, or "
            "without it the smallest ε within which they serve all."
        ),
    ] = None
    objective: Annotated[
        str,
        typer.Option(
            help="What a budget makes small: worst, or mean (then --epsilon, if "
            "given, caps the worst)."
        ),
    ] = "worst"
    unservable: Annotated[
        str,
        typer.Option(
            help="Targets of no finite loss, of a budget without --epsilon or of a "
            "mean: error, leave-out."
        ),
    ] = "error"
    include: Annotated[
        str | None, option("Sources that must be in, by name or number: a,b,3.")
    ] = None
    exclude: Annotated[str | None, option("Sources that must not be in, likewise.")] = (
        None
    )
    share: Annotated[
        float | None,
        option(
            "Share of the targets that is enough, for greedy and minimum; exit code 3 "
            "where it cannot be reached."
        ),
    ] = None
    weights: Annotated[
        Path | None,
        option("A file with the weight of each target, for greedy and minimum."),
    ] = None
    costs: Annotated[
        Path | None,
        option("A file with the cost of each source, for greedy, local, minimum."),
    ] = None
    plot: Annotated[
        Path | None, option("Draw who serves whom here: .png, .pdf or .svg.")
    ] = None
    save: Annotated[
        Path | None, typer.Option(help="Write the cover here, for `taskspace verify`.")
    ] = None
    assignment: Annotated[
        Path | None, typer.Option(help="Write who serves whom here, as CSV.")
    ] = None
    values: Annotated[
        bool,
        typer.Option(
            "--values",
            help="Also what each source adds: the best answer without it, or with it.",
        ),
    ] = False
    largest_error: Annotated[
        bool,
        typer.Option(
            "--largest-error",
            help="Find the largest multiple of --error that the sources of --include, "
            "or any --budget of them, stand.",
        ),
    ] = False
    resample: Annotated[
        int | None,
        option(
            "Draw the runs (policies) of each source so often anew, and say how much "
            "of a cover of their joined scores is chance."
        ),
    ] = None
    aggregate: Annotated[
        str, typer.Option(help="How --resample joins runs: mean, iqm.")
    ] = "mean"
    score_bounds: Annotated[
        str | None,
        option(
            "Between which all scores of runs lie, e.g. 0,100: --resample then has "
            "intervals that hold for few runs too."
        ),
    ] = None
    rules: Annotated[
        bool,
        typer.Option(
            "--rules",
            help="Judge rules that name a source for a new target by its context "
            "(--contexts).",
        ),
    ] = False
    run_share: Annotated[
        float,
        typer.Option(
            help="For --rules: share of the runs of a source that must serve a target."
        ),
    ] = 0.5
    save_rule: Annotated[
        Path | None, option("Write the rule of the largest bound here, as JSON.")
    ] = None
    require_full: Annotated[
        bool,
        typer.Option(
            "--require-full", help="Exit with code 3 unless every target is served."
        ),
    ] = False

    @property
    def is_mean(self) -> bool:
        """Whether the least mean loss of a budget is asked for."""
        return self.objective == "mean"

    @property
    def measure(self) -> str:
        """What the best selection has least of."""
        if self.budget is None:
            return "cost"
        if self.is_mean:
            return "mean loss"
        return "smallest ε" if self.seeks_epsilon else "share unserved"

    @cached_property
    def seeks_epsilon(self) -> bool:
        """Whether the smallest tolerance of a budget is asked for."""
        bounded = self.budget is not None and self.epsilon is None
        bounded &= not self.largest_error
        return bounded and not self.is_mean and not is_set_cover(self.path)

    def check(self) -> None:
        """Refuse words that are none of an option's, and what does not go together."""
        for name, words in (
            ("objective", ["worst", "mean"]),
            ("unservable", ["error", "leave-out"]),
        ):
            if getattr(self, name) not in words:
                raise UnknownNameError(
                    f"value of --{name}:", getattr(self, name), words
                )
        if not self.is_mean:
            return
        if self.budget is None or is_set_cover(self.path):
            raise InvalidInputError(
                "--objective mean asks which sources of a budget have the least mean "
                "loss: it needs --budget, e.g. --budget 5, and a run or a matrix."
            )
        if self.share is not None or self.costs is not None:
            raise InvalidInputError("--objective mean knows no --share and no --costs.")

    def limits(self, problem: CoverProblem) -> dict[str, Any]:
        """Return the sources that must be in or out, by number."""
        names, n = problem.source_names, problem.n_sources
        return {
            "include": source_places(self.include, names, n),
            "exclude": source_places(self.exclude, names, n),
        }
