"""The type of most arrays."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
