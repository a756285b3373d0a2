"""Tolerance sets: which targets each source serves, packed."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.sets.encodings import LossRow, PackedSets, RunSets, TargetSets
from taskspace.sets.packing import ENCODINGS, Encoding, pack

__all__ = [
    "ENCODINGS",
    "Encoding",
    "LossRow",
    "PackedSets",
    "RunSets",
    "TargetSets",
    "pack",
]
