from . import page as page
from .figures.boxes import boxes as boxes
from .figures.coverage import coverage as coverage
from .figures.history import history as history
from .figures.map import map as map
from .figures.price import price as price
from .figures.profile import profile as profile
from .figures.tolerance import tolerance as tolerance
from .figures.transfer import transfer as transfer

KINDS: tuple[str, ...]
