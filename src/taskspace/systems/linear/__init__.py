"""Linear plants with a quadratic cost: families, controllers, kernels, tracing.

`base.py` has the interface; a family is one file beside it. `kernels/` computes costs
and best gains of many loops at once, `tracing/` finds how matrices depend on the
context.
"""

from taskspace._util.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
