"""The policy library: from a cover to what runs on the target.

The module is also the function `library`: `ts.library(run, cover)`.
"""

import sys
from types import ModuleType
from typing import Any

from taskspace import _cache as _cache  # before kernels are compiled or loaded
from taskspace._lazy import callable_package
from taskspace.library.assign import ASSIGN_RULES as ASSIGN_RULES
from taskspace.library.assign import count_regions as count_regions
from taskspace.library.base import PolicyLibrary as PolicyLibrary
from taskspace.library.files import contract as contract
from taskspace.library.files import load_library as load_library
from taskspace.library.files import save_library as save_library
from taskspace.library.make import hand_library as hand_library
from taskspace.library.make import library as library
from taskspace.library.networks import conditioned_networks as conditioned_networks
from taskspace.library.records import Entry as Entry
from taskspace.library.records import Guarantee as Guarantee
from taskspace.library.records import OutsideError as OutsideError
from taskspace.library.records import Selection as Selection
from taskspace.library.records import Status as Status
from taskspace.library.regions import BoxRegions as BoxRegions
from taskspace.library.regions import regions_of as regions_of
from taskspace.library.tracker import Tracker as Tracker
from taskspace.library.trial import Trial as Trial
from taskspace.library.trial import try_library as try_library


class _Callable(ModuleType):
    """A module that is called as its function of the same name."""

    def __call__(self, *arguments: Any, **named: Any) -> PolicyLibrary:
        return library(*arguments, **named)


sys.modules[__name__].__class__ = _Callable

callable_package(__name__, "library")
