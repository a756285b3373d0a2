"""What to train next: selectors, and the loop that asks them until all is covered."""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
