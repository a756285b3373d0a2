r"""Peaks of the sensitivities at the plant's inputs, $S = (I + L)^{-1}$, $T = I - S$.

The Nyquist curve of L of a loop with one input stays $1 / \|S\|_\infty$ away from −1.
"""

from typing import ClassVar

from taskspace.systems.linear.measures.base import NormMeasure


class Sensitivity(NormMeasure):
    r"""$\|S\|_\infty$ at the plant's inputs."""

    name: ClassVar[str] = "sensitivity"
    words: ClassVar[str] = "a peak of the sensitivity at the inputs"
    channel: ClassVar[tuple[str, str]] = ("E", "U")
    direct: ClassVar[float] = 1.0


class Complementary(NormMeasure):
    r"""$\|T\|_\infty$ at the plant's inputs."""

    name: ClassVar[str] = "complementary_sensitivity"
    words: ClassVar[str] = "a peak of the complementary sensitivity at the inputs"
    channel: ClassVar[tuple[str, str]] = ("E", "U")


SENSITIVITY = Sensitivity()
COMPLEMENTARY = Complementary()
