"""The policy library: from a cover to what runs on the target."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
