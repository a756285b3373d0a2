"""Whole experiments: from a TOML file to a run directory that can be resumed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
