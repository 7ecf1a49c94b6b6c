"""Types of arrays that many packages share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# Positions in another array or sequence.
Positions = NDArray[np.intp]
# ``(n,)`` label of the task of each row: rows of one task have the same.
TaskIds = NDArray[Any]
