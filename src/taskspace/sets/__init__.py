"""Tolerance sets: which targets each source serves."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.sets.target_sets import LossRow, TargetSets, pack

__all__ = ["LossRow", "TargetSets", "pack"]
