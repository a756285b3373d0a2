"""Whole experiments: from a TOML file to a run directory that can be resumed."""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
