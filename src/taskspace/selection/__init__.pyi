# The names of the package; __init__.py loads them when they are first used.

from .loop import Options as Options
from .loop import SelectionLoop as SelectionLoop
from .result import SelectResult as SelectResult
from .selecting import select as select
from .selectors.base import SELECTORS as SELECTORS
from .selectors.base import Candidates as Candidates
from .selectors.base import Known as Known
from .selectors.base import Selector as Selector
from .selectors.base import selector as selector
