"""Loss against the number of gains: of candidates, designed, and of any design."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from taskspace.designs import DesignCurve, design_curve
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.show.style import METHOD_COLOURS, PALETTE, panel, save


def gains(
    study: Study,
    question: Question,
    *,
    most: int = 5,
    time_limit: float = 60.0,
    seed: int = 0,
) -> Figure:
    """Draw what 1, 2, … gains lose: candidates, designed, and no design less.

    Args:
        study: of a linear family.
        question: criterion; its tolerance does not matter.
        most: the largest number of gains.
        time_limit: seconds for all numbers together.
        seed: of the searches.
    """
    return draw_curve(
        design_curve(
            study, question=question, most=most, time_limit=time_limit, seed=seed
        )
    )


def draw_curve(curve: DesignCurve) -> Figure:
    """Draw the worst loss of candidates and designed gains, and the bound below both.

    Args:
        curve: the numbers.
    """
    numbers = [point.k for point in curve.points]
    best = f"best of {curve.n_candidates:,} candidates"
    with panel(5.4, 4.0) as (figure, axes):
        for name, label, colour, line in (
            ("candidates", best, METHOD_COLOURS["greedy"], "-"),
            ("designed", "designed gains", METHOD_COLOURS["minimum"], "-"),
            ("lower", "no gains of any design lose less", "black", ":"),
        ):
            losses = [getattr(point, name) for point in curve.points]
            axes.plot(
                numbers, losses, line, marker="o", ms=4, color=colour, label=label
            )
        axes.fill_between(
            numbers,
            [point.lower for point in curve.points],
            [point.designed for point in curve.points],
            color=PALETTE[4],
            alpha=0.2,
            lw=0,
        )
        if curve.question.rule.is_relative:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if not curve.question.rule.allows_negative_epsilon:
            axes.set_ylim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(
            xlabel="gains", ylabel=f"{curve.question.criterion} at the worst target"
        )
        axes.legend()
    return figure


def save_curve(curve: DesignCurve, path: Path) -> Path:
    """Draw a curve into PNG and PDF, with its numbers as JSON beside them.

    Args:
        curve: the numbers.
        path: the files, without suffix.

    Returns:
        The PNG file.
    """
    return save(draw_curve(curve), path, curve.to_dict())[0]
