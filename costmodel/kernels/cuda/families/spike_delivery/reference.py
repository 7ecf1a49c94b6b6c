"""What the currents should be after the delivery: whole numbers, so exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def reference(inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[np.int32]]:
    """The ring ``(d + 1, n)`` of currents, by the outgoing synapses of each neuron on the list."""
    slots, now = dims["d"] + 1, int(inputs["now"])
    listed = inputs["spikes"][: int(inputs["count"][0])]
    starts = inputs["row_starts"]
    rows = [inputs["outgoing"][starts[neuron] : starts[neuron + 1]] for neuron in listed]
    words = np.concatenate([*rows, np.zeros(0, np.uint32)]).astype(np.int64)
    slot = (now + 1 + (words >> 28)) % slots
    target = words >> 8 & 0xFFFFF
    weight = (words & 0xFF ^ 0x80) - 0x80
    sums = np.bincount(slot * dims["n"] + target, weight, minlength=slots * dims["n"])
    return {"current": inputs["current"].ravel() + sums.astype(np.int32)}
