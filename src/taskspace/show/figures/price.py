"""Policies kept against environment steps: several selections, and the best of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from taskspace.cover.methods import find_cover
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs.folder import RunFolder
from taskspace.runs.opening import is_selection
from taskspace.selection import SelectResult
from taskspace.show.style import PALETTE, literal, panel


@dataclass(frozen=True)
class PricePoint:
    """What one selection spent and kept.

    Args:
        name: the selector, with its price per policy if it has one.
        environment_steps: simulated steps of all trainings.
        policies: sources of the smallest cover of what it trained.
        covers_all: whether they serve all targets.
    """

    name: str
    environment_steps: int
    policies: int
    covers_all: bool


def price(selections: Sequence[SelectResult] | str | Path) -> Figure:
    """Return policies kept against environment steps, one mark per selection.

    Those that no other one beats in both are joined; selections that left targets
    uncovered are hollow, and beat nothing.

    Args:
        selections: results of `taskspace.select`, or a folder with directories of
            selections, e.g. of several values of `select.price`.
    """
    if isinstance(selections, str | Path):
        folders = [p for p in sorted(Path(selections).glob("*")) if is_selection(p)]
        points = [_stored_point(folder) for folder in folders]
    else:
        points = [
            PricePoint(
                result.selector,
                result.environment_steps,
                result.cover.size,
                result.coverage == 1.0,
            )
            for result in selections
        ]
    if not points:
        raise InvalidInputError(
            f"A price figure needs selections, but {selections} has none. Make some "
            "with: taskspace select FILE.toml --set select.price=100000 --out FOLDER/1"
        )
    return draw_prices(points)


def _stored_point(folder: Path) -> PricePoint:
    """Return what the selection in a directory spent and kept."""
    run = RunFolder.open(folder)
    assert run.log is not None
    asked = run.info.data
    question, select = Question.from_dict(asked["question"]), asked["select"]
    cover = find_cover(question.sets(run.table()), method="minimum", time_limit=10.0)
    name = select["selector"]
    if select.get("price"):
        name = f"{name}, {select['price']:,.0f} steps per policy"
    last = run.log.steps[-1]
    return PricePoint(name, last.environment_steps, cover.size, last.coverage == 1.0)


def unbeaten(points: Sequence[PricePoint]) -> list[PricePoint]:
    """Return the points that no other one beats in steps and policies, by steps.

    Args:
        points: what selections spent and kept; those that left targets out are none.
    """
    best: list[PricePoint] = []
    whole = [point for point in points if point.covers_all]
    for point in sorted(whole, key=lambda p: (p.environment_steps, p.policies)):
        if not best or point.policies < best[-1].policies:
            best.append(point)
    return best


def draw_prices(points: Sequence[PricePoint]) -> Figure:
    """Draw policies kept against environment steps.

    Args:
        points: what selections spent and kept.
    """
    front = unbeaten(points)
    with panel(6.0, 4.0) as (figure, axes):
        axes.step(
            [point.environment_steps for point in front],
            [point.policies for point in front],
            where="post",
            color="grey",
            linewidth=1.2,
            label="not beaten",
        )
        for number, name in enumerate(dict.fromkeys(point.name for point in points)):
            own = [point for point in points if point.name == name]
            shade = PALETTE[number % len(PALETTE)]
            axes.scatter(
                [point.environment_steps for point in own],
                [point.policies for point in own],
                facecolors=[shade if p.covers_all else "none" for p in own],
                edgecolors=shade,
                zorder=3,
                label=literal(name),
            )
        axes.set(xlabel="environment steps", ylabel="policies kept", ylim=(0, None))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8)
    return figure
