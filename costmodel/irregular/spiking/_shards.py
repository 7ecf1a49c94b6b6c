"""Parts of a network of equal cost, for parts of a GPU."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.spiking._network import Network


@dataclass(frozen=True)
class Shard:
    """A part of a network.

    Attributes:
        neurons: Whose updates and incoming synapses it has.
        cost: Expected work of a step: its neurons, and the spikes that reach them.
    """

    neurons: range
    cost: float


def shard(network: Network, parts: int, rate: float) -> list[Shard]:
    """Consecutive ranges of neurons of equal cost: incoming synapses x rate + 1 for each neuron.

    A range ends where the costs up to there are nearest to its share of all, so that its cost is within that
    of one neuron of the ideal. It is empty only where one neuron costs more than a share.
    ``network.onto(shard.neurons)`` are its synapses.

    Args:
        network: Outgoing synapses.
        parts: How many ranges.
        rate: Spikes of a neuron in a step, 0 to 1.

    Raises:
        CostModelError: There are not 1 to as many parts as neurons, or the rate is no share.
    """
    if not 1 <= parts <= network.size:
        raise CostModelError(f"Parts must be 1 to the {network.size} neurons, but got {parts}.")
    if not 0 <= rate <= 1:
        raise CostModelError(f"A rate must be 0 to 1 spikes of a neuron in a step, but got {rate}.")
    incoming = np.bincount(network.neurons, minlength=network.size)
    sums = np.concatenate([[0.0], np.cumsum(incoming * rate + 1.0)])
    ends = _nearest(sums, sums[-1] * np.arange(parts + 1) / parts)
    return [Shard(range(start, end), float(sums[end] - sums[start])) for start, end in pairwise(ends)]


def _nearest(rising: NDArray[np.float64], wanted: NDArray[np.float64]) -> list[int]:
    """Positions of the values nearest to those wanted; of two as near the first."""
    above = np.clip(np.searchsorted(rising, wanted), 1, len(rising) - 1)
    is_below = wanted - rising[above - 1] <= rising[above] - wanted
    found: list[int] = (above - is_below).tolist()
    return found
