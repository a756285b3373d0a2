# The names of the package; __init__.py loads them when they are first used.

from .base import Candidates as Candidates
from .base import Known as Known
from .base import Selector as Selector
from .loop import Options as Options
from .loop import SelectionLoop as SelectionLoop
from .result import SelectResult as SelectResult
from .selecting import SELECTORS as SELECTORS
from .selecting import select as select
from .selecting import selector as selector
