"""How many policies does a range of tasks need, which ones, and what is proven?

The pieces in the order in which data flows through them: `spaces` (contexts),
`systems` (physics and performance), `trainers` (policies), `performance` (studies),
`criteria` (losses and tolerance sets), `cover` (fewest sources), `certificates` (what
is proven between and around the grid points), `deploy` (the policy library).

All names are in `__init__.pyi`; each is imported when it is first used.
"""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

__version__ = "0.3.0"
