"""What to expect of one step's delivery, without drawing a network."""

import math
from dataclasses import dataclass

from costmodel.irregular.spiking._network import check_sizes

_IN_A_SECTOR = 8  # whole numbers of 4 bytes: device memory moves 32 bytes


@dataclass(frozen=True)
class Deliveries:
    """Expected numbers of one step.

    Attributes:
        synapses: Synapses of the neurons that spiked, each an addition.
        addresses: Distinct sums of neurons and slots that they reach.
        sectors: Distinct sectors of 32 bytes that these are in.
    """

    synapses: float
    addresses: float
    sectors: float


def spikes_of_step(neurons: int, rate: int) -> int:
    """Neurons that spike, exactly.

    Args:
        neurons: Number of neurons.
        rate: Spikes of a step per 100,000 neurons.
    """
    return min(neurons, (neurons * rate + 50_000) // 100_000)


def expected_deliveries(neurons: int, mean_degree: int, longest_delay: int, spikes: int) -> Deliveries:
    """What so many spikes of a network of ``draw_network`` should reach.

    Each of K additions meets one of M sums, all equally likely: ``M (1 - (1 - 1/M)^K)`` are met.

    Raises:
        CostModelError: There is no such network.
    """
    check_sizes(neurons, neurons * mean_degree, longest_delay)
    synapses = float(spikes * mean_degree)
    addresses = longest_delay * neurons
    return Deliveries(synapses, _met(addresses, synapses), _met(addresses / _IN_A_SECTOR, synapses))


def _met(places: float, additions: float) -> float:
    """Distinct places that random additions meet."""
    if places <= 1:
        return min(places, additions)
    return -places * math.expm1(additions * math.log1p(-1 / places))
