"""The largest amplification of disturbances: the H∞ norm of a channel."""

from typing import ClassVar

from taskspace.systems.linear.measures.base import NormMeasure


class Hinf(NormMeasure):
    r"""$\|Y (sI - F)^{-1} E\|_\infty$, from the plant's inputs to its outputs.

    The channel is a disturbance added to the plant's inputs, to the measured outputs
    y = C x. For others state a `channel` of the family and ask for `channel_norm`.
    """

    name: ClassVar[str] = "hinf"
    words: ClassVar[str] = "an H∞ norm from input disturbances to outputs"
    channel: ClassVar[tuple[str, str]] = ("E", "Y")


HINF = Hinf()
