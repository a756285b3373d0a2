"""How many policies does a range of tasks need, which ones, and what is proven?

The pieces in the order in which data flows through them: `spaces` (contexts),
`systems` (physics and performance), `trainers` (policies), `performance` (the
table), `criteria` (losses and tolerance sets), `cover` (fewest sources),
`certificates` (what is proven between and around the grid points).
"""

from typing import TYPE_CHECKING

from taskspace._util.lazy import lazy_names

if TYPE_CHECKING:
    from taskspace import certificates as certificates
    from taskspace import cover as cover
    from taskspace import criteria as criteria
    from taskspace import deploy as deploy
    from taskspace import performance as performance
    from taskspace import runs as runs
    from taskspace import selection as selection
    from taskspace import show as show
    from taskspace import spaces as spaces
    from taskspace import systems as systems
    from taskspace import testing as testing
    from taskspace import trainers as trainers
    from taskspace.certificates import Certificate as Certificate
    from taskspace.certificates import certified_cover as certified_cover
    from taskspace.certificates import certify as certify
    from taskspace.cover import Cover as Cover
    from taskspace.cover import complexity_profile as complexity_profile
    from taskspace.cover import coverage_curve as coverage_curve
    from taskspace.cover import greedy_cover as greedy_cover
    from taskspace.cover import local_cover as local_cover
    from taskspace.cover import lower_bounds as lower_bounds
    from taskspace.cover import minimum_cover as minimum_cover
    from taskspace.cover import random_cover as random_cover
    from taskspace.cover import read_set_cover_file as read_set_cover_file
    from taskspace.cover import uniform_cover as uniform_cover
    from taskspace.cover import verify_cover as verify_cover
    from taskspace.deploy import PolicyLibrary as PolicyLibrary
    from taskspace.deploy import hand_library as hand_library
    from taskspace.deploy import library as library
    from taskspace.direct import direct_sets as direct_sets
    from taskspace.errors import TaskspaceError as TaskspaceError
    from taskspace.performance import Study as Study
    from taskspace.performance import evaluate as evaluate
    from taskspace.performance import evaluate_policies as evaluate_policies
    from taskspace.performance import read_matrix as read_matrix
    from taskspace.performance import study_from as study_from
    from taskspace.performance import table_from as table_from
    from taskspace.performance import table_from_matrix as table_from_matrix
    from taskspace.performance import write_matrix as write_matrix
    from taskspace.questions import Question as Question
    from taskspace.questions import loss as loss
    from taskspace.questions import tolerance_sets as tolerance_sets
    from taskspace.runs.opening import open as open
    from taskspace.selection import Budget as Budget
    from taskspace.selection import SelectResult as SelectResult
    from taskspace.selection import select as select
    from taskspace.show.page import explore as explore
    from taskspace.spaces import Axis as Axis
    from taskspace.spaces import Grid as Grid
    from taskspace.spaces import Points as Points

_HOMES = {
    "taskspace.certificates": (
        "Certificate",
        "certified_cover",
        "certify",
    ),
    "taskspace.cover": (
        "Cover",
        "complexity_profile",
        "coverage_curve",
        "greedy_cover",
        "local_cover",
        "lower_bounds",
        "minimum_cover",
        "random_cover",
        "read_set_cover_file",
        "uniform_cover",
        "verify_cover",
    ),
    "taskspace.direct": ("direct_sets",),
    "taskspace.errors": ("TaskspaceError",),
    "taskspace.deploy": ("PolicyLibrary", "hand_library", "library"),
    "taskspace.performance": (
        "Study",
        "evaluate",
        "evaluate_policies",
        "read_matrix",
        "study_from",
        "table_from",
        "table_from_matrix",
        "write_matrix",
    ),
    "taskspace.questions": ("Question", "loss", "tolerance_sets"),
    "taskspace.runs.opening": ("open",),
    "taskspace.show.page": ("explore",),
    "taskspace.selection": ("Budget", "SelectResult", "select"),
    "taskspace.spaces": (
        "Axis",
        "Grid",
        "Points",
    ),
}
_ROOMS = (
    "certificates",
    "cover",
    "criteria",
    "deploy",
    "performance",
    "runs",
    "selection",
    "show",
    "spaces",
    "systems",
    "testing",
    "trainers",
)
__getattr__, __dir__ = lazy_names(
    __name__,
    {name: module for module, names in _HOMES.items() for name in names}
    | {room: f"{__name__}.{room}" for room in _ROOMS},
)

__all__ = [  # noqa: PLE0604
    *_ROOMS,
    *(name for names in _HOMES.values() for name in names),
]

__version__ = "0.1.0"
