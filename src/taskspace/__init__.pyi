# The names of the package, each once; __init__.py loads them when they are first used.

from . import certificates as certificates
from . import cover as cover
from . import criteria as criteria
from . import deploy as deploy
from . import designs as designs
from . import errors as errors
from . import export as export
from . import performance as performance
from . import policies as policies
from . import runs as runs
from . import selection as selection
from . import sets as sets
from . import show as show
from . import spaces as spaces
from . import systems as systems
from . import testing as testing
from . import trainers as trainers
from .certificates import certify as certify
from .cover import Cover as Cover
from .cover import complexity_profile as complexity_profile
from .cover import coverage_curve as coverage_curve
from .cover import greedy_cover as greedy_cover
from .cover import minimum_cover as minimum_cover
from .cover import smallest_epsilon as smallest_epsilon
from .cover import verify_cover as verify_cover
from .deploy import PolicyLibrary as PolicyLibrary
from .deploy import library as library
from .designs import design as design
from .errors import TaskspaceError as TaskspaceError
from .performance import Study as Study
from .performance import evaluate as evaluate
from .performance import evaluate_policies as evaluate_policies
from .performance import study_from as study_from
from .questions import Question as Question
from .questions import loss as loss
from .questions import tolerance_sets as tolerance_sets
from .runs.execute import run as run
from .runs.opening import open as open
from .selection import select as select
from .show.page import explore as explore
from .spaces import Axis as Axis
from .spaces import Grid as Grid
from .spaces import Points as Points
from .systems.linear.measures.own import measure as measure

__version__: str
