"""What should be counted: whole numbers, so exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def reference(inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[np.int32]]:
    """The counts ``(b,)`` of the values ``(n,)``, in the precision that says which bin a value is in."""
    position = (inputs["values"] + np.float32(4)) * np.float32(dims["b"] / 8)
    bins = np.clip(position.astype(np.int64), 0, dims["b"] - 1)
    return {"counts": np.bincount(bins, minlength=dims["b"]).astype(np.int32) + inputs["counts"]}
