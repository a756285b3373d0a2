"""Linear plants with a quadratic cost: families, controllers, kernels, tracing.

`base.py` has the interface; a family is one file beside it. `kernels/` computes costs
and best gains of many loops at once, `tracing/` finds how matrices depend on the
context.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
