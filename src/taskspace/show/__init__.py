"""Pictures: small records of what to draw, and the renderers that draw them.

`map`, `coverage`, `profile`, `transfer`, `tolerance`, `boxes`, `gains`, `history` and
`price` return matplotlib figures, each from the file of that name in `figures`; `page`
makes the HTML explorer.
"""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
