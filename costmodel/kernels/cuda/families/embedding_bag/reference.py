"""What the sums should be, in double precision."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.lookups import Lookups, bag_sums


def reference(inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """The sums ``(b, d)`` of rows of the table ``(r, d)`` by bags."""
    lookups = Lookups(dims["r"], inputs["indices"], inputs["offsets"])
    return {"y": bag_sums(lookups, inputs["table"].reshape(dims["r"], dims["d"]), inputs["weights"])}
