"""Colours of sources: regions that touch never share one."""

import colorsys

import numpy as np
from numpy.typing import NDArray

__all__ = ["colour", "colour_numbers", "ink", "neighbours"]

# Okabe & Ito (2008) without black, then lighter and darker ones of the same hues.
# The page has the same list, in web/colours.js.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00",
    "#F0E442", "#999999", "#66AAD1", "#F0C566", "#66C5AB", "#E0AFCA",
    "#9AD2F2", "#E69E66", "#F6EF8E", "#C2C2C2", "#00446B", "#8A5F00",
    "#005F45", "#7A4964", "#346C8C", "#803800", "#908829", "#5C5C5C",
)  # fmt: skip
PLAIN = 8


def colour(number: int) -> str:
    """Colour with this number; there is no last one.

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
    """Black or white, whichever can be read on a colour (WCAG contrast).

    Args:
        background: as `#rrggbb`.
    """
    parts = np.array([int(background[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "#ffffff"


def neighbours(region: NDArray[np.integer], n_sources: int) -> list[set[int]]:
    """Sources whose regions touch, along an axis or at a corner of a plane.

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
    """A colour number for each source, different from those of its neighbours.

    The sources with most neighbours choose first: of the eight plain colours that
    no neighbour has the one used least, then a lighter or darker one.

    Args:
        near: neighbours of each source.
    """
    chosen = [-1] * len(near)
    used = [0] * PLAIN
    for i in sorted(range(len(near)), key=lambda i: (-len(near[i]), i)):
        taken = {chosen[j] for j in near[i]}
        free = [c for c in range(len(used)) if c not in taken]
        if free:
            best = min(free, key=lambda c: (c // PLAIN, used[c], c))
        else:
            best = len(used)
            used.append(0)
        used[best] += 1
        chosen[i] = best
    return chosen
