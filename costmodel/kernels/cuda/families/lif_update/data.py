"""Neurons of which a known number spikes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.spiking import LifNeurons, spikes_of_step

_NEURONS = LifNeurons()
_WAITING = 0.05  # share of neurons that spiked in the last steps


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """The arguments of a workload: n neurons, r spikes per 100,000 of them."""
    count, threshold = dims["n"], _NEURONS.threshold
    spikes = spikes_of_step(count, dims["r"])
    order = rng.permutation(count)
    voltage = rng.integers(-threshold, threshold, size=count, dtype=np.int32)
    refractory = np.zeros(count, np.uint8)
    waiting = order[spikes : spikes + int(_WAITING * count)]
    refractory[waiting] = rng.integers(1, _NEURONS.period + 1, size=len(waiting))
    # The current that takes a neuron to where it should be, above the threshold or below.
    wanted = rng.integers(-threshold, threshold, size=count, dtype=np.int32)
    wanted[order[:spikes]] = rng.integers(threshold, 2 * threshold, size=spikes)
    current = wanted - (voltage - (voltage >> _NEURONS.leak_shift)) - np.int32(_NEURONS.drive)
    return {"voltage": voltage, "refractory": refractory, "current": current}


def facts(dims: Mapping[str, int]) -> dict[str, float]:
    """Spikes, exactly."""
    return {"spikes": spikes_of_step(dims["n"], dims["r"])}
