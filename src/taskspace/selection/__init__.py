"""What to train next: selectors, and the loop that asks them until all is covered."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
