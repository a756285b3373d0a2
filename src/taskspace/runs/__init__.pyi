# The names of the package; __init__.py loads them when they are first used.

from .execute import RunResult as RunResult
from .execute import SelectionRun as SelectionRun
from .execute import run_experiment as run_experiment
from .execute import run_selection as run_selection
from .experiment import Experiment as Experiment
from .experiment import builtin_experiments as builtin_experiments
from .experiment import load_experiment as load_experiment
from .folder import RunFolder as RunFolder
from .opening import open_study as open_study
