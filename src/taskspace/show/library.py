"""The map of a policy library: which policy where, and what is known there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.library import PolicyLibrary, Status
from taskspace.library.regions import NamedRegions
from taskspace.show.colours import colour, colour_numbers, neighbours
from taskspace.show.style import literal, new_figure

__all__ = ["LibraryMap", "draw_library", "library_map"]

PIXELS = 240


@dataclass(frozen=True, eq=False)
class LibraryMap:
    """What is drawn: a raster of selections over two axes, or over one.

    Args:
        names: names and units of the axes that are drawn.
        values: the coordinates of the raster on each.
        policy: number of the policy at each place, −1 for none; one dim an axis.
        known: whether the policy is known to serve each region (its node or box).
        word: how that is known: `"guaranteed"` or `"estimated"`.
        homes: context of each policy in these axes, NaN where it has none.
        title: the guarantee.
        fixed: value of every axis that is not drawn.
    """

    names: tuple[str, ...]
    values: tuple[NDArray[np.float64], ...]
    policy: NDArray[np.int64]
    known: NDArray[np.bool_]
    word: str
    homes: NDArray[np.float64]
    title: str
    fixed: dict[str, float]


def library_map(
    library: PolicyLibrary, axes: tuple[str, ...] | None = None
) -> LibraryMap:
    """The record behind the picture.

    Args:
        library: a library whose contexts have coordinates.
        axes: one or two names; the first two if left out. The others stay in their
            middle.
    """
    if isinstance(library.regions, NamedRegions):
        raise InvalidInputError(
            "A map needs contexts with coordinates, but the targets of this library "
            "have names only."
        )
    chosen = tuple(library.names[:2] if axes is None else axes)
    if not 1 <= len(chosen) <= 2 or any(n not in library.names for n in chosen):
        raise InvalidInputError(
            f"A map has one or two of the axes {', '.join(library.names)}, but got "
            f"{chosen}."
        )
    low, high = library.low, library.high
    places = [library.names.index(name) for name in chosen]
    values = tuple(np.linspace(low[i], high[i], PIXELS) for i in places)
    mesh = np.meshgrid(*values, indexing="ij")
    rows = np.tile(low / 2 + high / 2, (*mesh[0].shape, 1))
    for place, column in zip(places, mesh, strict=True):
        rows[..., place] = column
    found = library.select(rows)
    region = np.asarray(found.region)
    served = library.regions.served & library.guarantee.speaks
    homes = np.array(
        [[e.context.get(name, np.nan) for name in chosen] for e in library.entries]
    )
    units = dict(zip(library.names, library.units, strict=True))
    return LibraryMap(
        tuple(f"{n} [{units[n]}]" if units[n] else n for n in chosen),
        values,
        np.asarray(found.policy),
        served[region] & (np.asarray(found.status) != Status.REFUSED),
        "estimated" if library.guarantee.status == Status.ESTIMATED else "guaranteed",
        homes,
        library.guarantee.statement,
        {
            n: float(low[i] / 2 + high[i] / 2)
            for i, n in enumerate(library.names)
            if n not in chosen
        },
    )


def draw_library(record: LibraryMap) -> Figure:
    """The map: a colour a policy, hatched where nothing is guaranteed or estimated.

    Args:
        record: what to draw.
    """
    figure: Any = new_figure(5.2, 4.4 if len(record.names) == 2 else 2.0)
    axes = figure.subplots()
    n = len(record.homes)
    region = record.policy if record.policy.ndim == 2 else record.policy[:, None]
    shades = [colour(i) for i in colour_numbers(neighbours(region, n))]
    colours = ListedColormap(shades)
    policy = np.where(record.policy < 0, np.nan, record.policy)
    bare = ~record.known
    first = record.values[0]
    second = record.values[1] if len(record.names) == 2 else np.array([0.0, 1.0])
    if len(record.names) == 1:
        policy, bare = np.stack([policy] * 2, 1), np.stack([bare] * 2, 1)
    limits = {"vmin": -0.5, "vmax": n - 0.5}
    axes.pcolormesh(first, second, policy.T, cmap=colours, rasterized=True, **limits)
    if bare.any() and not bare.all():
        axes.contourf(
            first, second, bare.T, levels=[0.5, 1.5], colors="none", hatches=["///"]
        )
    for i, home in enumerate(record.homes):
        if np.isfinite(home).all():
            spot = (home[0], home[1] if len(home) == 2 else 0.5)
            axes.plot(*spot, "o", color="black", markersize=4, clip_on=False)
            axes.annotate(str(i), spot, (4, 4), textcoords="offset points", fontsize=8)
    axes.set_xlabel(literal(record.names[0]))
    if len(record.names) == 2:
        axes.set_ylabel(literal(record.names[1]))
    else:
        axes.set_yticks([])
    axes.grid(visible=False)
    rest = ", ".join(f"{k} = {v:g}" for k, v in record.fixed.items())
    words = f"{n} policies" + (f"; {rest}" if rest else "")
    if bare.any():
        words += f"; nothing {record.word}" + ("" if bare.all() else " where hatched")
    axes.set_title(literal(words), fontsize=9)
    return figure
