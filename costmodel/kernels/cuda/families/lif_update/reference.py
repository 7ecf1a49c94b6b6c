"""What the neurons should be after a step: whole numbers, so exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.spiking import LifNeurons, LifState, mask_of, update_neurons


def reference(inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The state of the ``n`` neurons, the bitmask and the number of those that spiked, and a cleared slot."""
    neurons = LifNeurons(*(int(inputs[name]) for name in ("threshold", "drive", "leak_shift", "period")))
    before = LifState(inputs["voltage"], inputs["refractory"])
    after, spiked = update_neurons(neurons, before, inputs["current"])
    return {
        "next_voltage": after.voltage,
        "next_refractory": after.refractory,
        "spiking": mask_of(spiked),
        "count": inputs["count"] + np.uint32(spiked.sum()),
        "cleared": np.zeros(dims["n"], np.int32),
    }
