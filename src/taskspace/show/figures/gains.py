"""Designed gains, and where they lie among the optimal gains of the targets."""

from matplotlib.figure import Figure

from taskspace.designs import Design
from taskspace.errors import InvalidInputError
from taskspace.show.style import colour, legend_below, literal, panel, title_of
from taskspace.systems.linear import LinearSystem


def gains(design: Design) -> Figure:
    """Draw the optimal gains of the targets, by who serves them, and the designed ones.

    Args:
        design: what `taskspace.design` returned, with gains of two entries.
    """
    system, targets = design.study.system, design.study.targets
    if design.gains[0].size != 2 or not isinstance(system, LinearSystem):
        raise InvalidInputError(
            "The picture of a design needs gains of two entries, but these have "
            f"{design.gains[0].size}."
        )
    assert targets is not None
    optimal = system.optimal_gain(system.contexts(targets))[0].reshape(-1, 2)
    who = design.question.losses(design.study).values[: design.size].argmin(0)
    names = [f"{i} on {x}" for i in system.inputs for x in system.states]
    least = design.lower_bound_all
    proven = "the least of any" if least == design.size else f"at least {least} of any"
    asked = title_of(design.question.at(design.epsilon))
    with panel(5.4, 4.6) as (figure, axes):
        axes.plot([], [], "o", ms=3, color="grey", label="optimal gain of a target")
        for i, gain in enumerate(design.gains.reshape(design.size, 2)):
            own = optimal[who == i]
            axes.scatter(own[:, 0], own[:, 1], s=6, color=colour(i), lw=0)
            label = "designed gain" if i == 0 else None
            axes.plot(*gain, "*", ms=14, color=colour(i), mec="black", label=label)
        x, y = map(literal, names[:2])
        title = f"{design.size} designed gains, {proven}: {asked}"
        axes.set(xlabel=x, ylabel=y)
        axes.set_title(literal(title), fontsize=10)
        legend_below(figure)
    return figure
