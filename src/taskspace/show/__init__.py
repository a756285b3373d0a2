"""Pictures: one function per figure, `(study, answer) -> Figure`, and the page.

`map`, `coverage`, `profile`, `transfer`, `tolerance`, `boxes`, `gains`, `schedule`,
and `history` return matplotlib figures; `page` makes the HTML explorer.
"""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
