"""Certificates: what is proven about the space between and around grid points."""

import lazy_loader

from taskspace._util import cache as cache  # before kernels are compiled or loaded

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
