"""One look for every figure: readable in print, safe for colour-blind readers."""

import colorsys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from taskspace._util.decimals import round_to_side
from taskspace._util.files import replacing
from taskspace.cover import METHODS
from taskspace.questions import Question

# Okabe & Ito (2008) without black, then lighter and darker ones of the same hues.
# The page has the same list, in web/colours.js.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00",
    "#F0E442", "#999999", "#66AAD1", "#F0C566", "#66C5AB", "#E0AFCA",
    "#9AD2F2", "#E69E66", "#F6EF8E", "#C2C2C2", "#00446B", "#8A5F00",
    "#005F45", "#7A4964", "#346C8C", "#803800", "#908829", "#5C5C5C",
)  # fmt: skip
PLAIN = 8
MAX_NUMERALS = 99
PALETTE = COLOURS[:PLAIN]
METHOD_COLOURS = {name: method.colour for name, method in METHODS.items()}
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def literal(text: str) -> str:
    """Return text as it is, for matplotlib: a dollar sign would start mathematics.

    Args:
        text: what a user may have written.
    """
    return text.replace("$", r"\$")


@contextmanager
def panels(
    width: float,
    height: float,
    rows: int,
    columns: int,
    *,
    grid: bool = True,
    **settings: Any,
) -> Iterator[tuple[Figure, NDArray[Any]]]:
    """Yield a figure in our style and its axes to draw on; no window is ever opened.

    Args:
        width: in inches.
        height: in inches.
        rows: rows of panels.
        columns: columns of panels.
        grid: whether to draw grid lines.
        **settings: see `Figure.subplots`.
    """
    with mpl.rc_context(STYLE | {"axes.grid": grid}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **settings)


@contextmanager
def panel(
    width: float, height: float, *, grid: bool = True
) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure in our style with one panel.

    Args:
        width: in inches.
        height: in inches.
        grid: whether to draw grid lines.
    """
    with panels(width, height, 1, 1, grid=grid) as (figure, axes):
        yield figure, axes[0, 0]


def colour(number: int) -> str:
    """Return colour with this number; there is no last one.

    Args:
        number: counts from 0; safe for colour-blind readers up to eight.
    """
    if number < len(COLOURS):
        return COLOURS[number]
    hue = (number * 137.508 % 360) / 360
    light = 0.35 + 0.3 * (number * 0.618 % 1)
    red, green, blue = colorsys.hls_to_rgb(hue, light, 0.55)
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))


def ink(background: str) -> str:
    """Return black or white, whichever can be read on a colour (WCAG contrast).

    Args:
        background: as `#rrggbb`.
    """
    parts = np.array([int(background[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "#ffffff"


def touching_sources(region: NDArray[np.integer], n_sources: int) -> list[set[int]]:
    """Return sources whose regions touch, along an axis or at a corner of a plane.

    Args:
        region: place of each target's source, −1 for none; any number of axes.
        n_sources: number of sources.
    """
    near: list[set[int]] = [set() for _ in range(n_sources)]
    pairs = [
        (np.moveaxis(region, axis, 0)[1:], np.moveaxis(region, axis, 0)[:-1])
        for axis in range(region.ndim)
    ]
    if region.ndim == 2:
        pairs.append((region[1:, 1:], region[:-1, :-1]))
        pairs.append((region[1:, :-1], region[:-1, 1:]))
    for a, b in pairs:
        differs = (a != b) & (a >= 0) & (b >= 0)
        for i, j in np.unique(np.stack([a[differs], b[differs]], 1), axis=0).tolist():
            near[i].add(j)
            near[j].add(i)
    return near


def colour_numbers(near: list[set[int]]) -> list[int]:
    """Return a colour number for each source, different from those of its neighbours.

    The sources with most neighbours choose first: of the eight plain colours that
    no neighbour has the one used least, then a lighter or darker one.

    Args:
        near: neighbours of each source.
    """
    chosen = [-1] * len(near)
    used = [0] * PLAIN
    for i in sorted(range(len(near)), key=lambda i: (-len(near[i]), i)):
        near_colours = {chosen[j] for j in near[i]}
        free = [c for c in range(len(used)) if c not in near_colours]
        if free:
            best = min(free, key=lambda c: (c // PLAIN, used[c], c))
        else:
            best = len(used)
            used.append(0)
        used[best] += 1
        chosen[i] = best
    return chosen


def draw_sources(
    axes: Axes, places: Any, numbers: Sequence[int], shades: Sequence[str]
) -> None:
    """Draw where sources lie, with their numbers unless they are too many.

    Args:
        axes: where to draw.
        places: of the sources, `(source, 2)`.
        numbers: place of each in the order, from 0.
        shades: colour of each source of the order.
    """
    many = len(shades) > MAX_NUMERALS
    for (x, y), number in zip(places, numbers, strict=True):
        shade = shades[number]
        axes.plot(
            x,
            y,
            "o",
            color=shade,
            markersize=4 if many else 11,
            markeredgecolor="black",
            clip_on=False,
            zorder=5,
        )
        if not many:
            axes.annotate(
                str(number + 1),
                (x, y),
                ha="center",
                va="center",
                fontsize=6.5,
                color=ink(shade),
                zorder=6,
                annotation_clip=False,
            )


def few_ticks(axis: Axis, low: float, high: float) -> None:
    """Give a logarithmic axis plain numbers that do not overlap.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`, whose scale is logarithmic.
        low: smallest value shown, `> 0`.
        high: largest value shown.
    """
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 200 * low else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def set_axis(
    axis: Axis, label: str, scale: str, low: float, high: float, pad: float = 0.0
) -> None:
    """Give an axis of contexts its label, scale, ticks and limits.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`.
        label: name and unit.
        scale: `"linear"` or `"log"`.
        low: smallest value.
        high: largest value.
        pad: how far it goes beyond its values, as a share of their range.
    """
    name = "x" if axis is axis.axes.xaxis else "y"
    extra = pad * (high - low) if high > low else 0.5
    limits = low - extra, high + extra
    if scale == "log":
        extra = (high / low) ** pad if high > low else 1.5
        limits = low / extra, high * extra
    axis.axes.set(**{f"{name}label": literal(label), f"{name}scale": scale})
    if scale == "log":
        few_ticks(axis, *limits)
    axis.axes.set(**{f"{name}lim": limits})


def legend_below(figure: Figure, handles: Sequence[Any] = ()) -> None:
    """Put one legend of all panels below them, where it hides nothing.

    Args:
        figure: whose artists have labels.
        handles: artists to name; if left out each label of a panel once.
    """
    named = {handle.get_label(): handle for handle in handles}
    if not handles:
        for axes in figure.axes:
            parts = axes.get_legend_handles_labels()
            named |= {label: handle for handle, label in zip(*parts, strict=True)}
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=2,
        fontsize=8,
    )


def title_of(question: Question) -> str:
    """Return a question as a title, its tolerance with at most six digits.

    A longer one, such as the least tolerance of a budget, is rounded up: what is
    served within the true one is served within the one that is written.

    Args:
        question: what is asked.
    """
    epsilon = question.epsilon
    if epsilon is not None and float(f"{epsilon:.6g}") != epsilon:
        question = question.at(float(round_to_side(epsilon, up=True, digits=6)))
    return question.label


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF; the same picture gives the same bytes.

    Args:
        figure: what to write.
        path: without a suffix; its folder is made if it is not there.

    Returns:
        The files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not `with_suffix`: a name may hold a tolerance such as 0.2.
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "pdf")]
    notes = {"Software": None}, {"CreationDate": None, "Creator": None}
    with mpl.rc_context(STYLE):
        for file, metadata in zip(files, notes, strict=True):
            with replacing(file) as temporary:
                kind = file.suffix.removeprefix(".")
                figure.savefig(temporary, metadata=metadata, format=kind)
    return files
