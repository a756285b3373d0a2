"""Designed gains, and where they lie among the optimal gains of the targets."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from taskspace.designs import Design
from taskspace.errors import InvalidInputError
from taskspace.show.style import (
    colour,
    literal,
    panel,
    save,
)
from taskspace.systems.linear import LinearSystem


@dataclass(frozen=True)
class DesignPlot:
    """What the picture of a design shows.

    Args:
        title: what is served, and how many gains any design needs.
        labels: names of the two entries.
        designed: the designed gains, one `[x, y]` each.
        optimal: the optimal gain of each target.
        served_by: for each target the designed gain that does best there.
    """

    title: str
    labels: tuple[str, str]
    designed: list[list[float]]
    optimal: list[list[float]]
    served_by: list[int]


def design_plot(made: Design) -> DesignPlot:
    """Return the data of the picture, for gains of two free entries.

    Args:
        made: a design.
    """
    system, targets = made.study.system, made.study.targets
    if made.gains[0].size != 2 or not isinstance(system, LinearSystem):
        raise InvalidInputError(
            "The picture of a design needs gains of two entries, but these have "
            f"{made.gains[0].size}."
        )
    assert targets is not None
    optimal, _ = system.optimal_gain(system.contexts(targets))
    losses = made.study.loss(made.question).values[: made.size]
    names = [f"{i} on {x}" for i in system.inputs for x in system.states]
    least = made.lower_bound_all
    proven = "the least of any" if least == made.size else f"at least {least} of any"
    return DesignPlot(
        f"{made.size} designed gains, {proven}: "
        f"{made.question.rule.short(made.epsilon)}",
        (names[0], names[1]),
        made.gains.reshape(made.size, 2).tolist(),
        optimal.reshape(-1, 2).tolist(),
        losses.argmin(0).tolist(),
    )


def draw_design(plot: DesignPlot) -> Figure:
    """Draw the optimal gains of the targets, by who serves them, and the designed ones.

    Args:
        plot: the data.
    """
    optimal, who = np.array(plot.optimal), np.array(plot.served_by)
    with panel(5.4, 4.4) as (figure, axes):
        for i, (x, y) in enumerate(plot.designed):
            own = optimal[who == i]
            axes.scatter(own[:, 0], own[:, 1], s=4, color=colour(i), lw=0)
            axes.plot(
                x, y, "*", ms=14, color=colour(i), mec="black",
                label="designed gain" if i == 0 else None,
            )  # fmt: skip
        axes.plot([], [], "o", ms=3, color="grey", label="optimal gain of a target")
        x, y = map(literal, plot.labels)
        axes.set(xlabel=x, ylabel=y, title=plot.title)
        axes.legend()
    return figure


def save_design(made: Design, path: Path) -> Path:
    """Draw a design into PNG and PDF, with its numbers as JSON beside them.

    Args:
        made: a design with gains of two entries.
        path: the files, without suffix.

    Returns:
        The PNG file.
    """
    plot = design_plot(made)
    return save(draw_design(plot), path, plot)[0]
