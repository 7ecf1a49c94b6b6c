"""Many steps of a network, in NumPy: what kernels must give."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.spiking._delivery import Current, deliver_by_pull, deliver_by_push
from costmodel.irregular.spiking._network import Network
from costmodel.irregular.spiking._neurons import LifNeurons, LifState, update_neurons


@dataclass(frozen=True)
class Simulation:
    """What became of a network.

    Attributes:
        spiked: ``(steps, neurons)`` whether each neuron spiked in each step.
        state: The neurons after the last step.
        current: ``(longest delay + 1, neurons)`` what is on the way; step t reads slot t modulo their number.
    """

    spiked: NDArray[np.bool_]
    state: LifState
    current: Current


def simulate(
    network: Network,
    steps: int,
    neurons: LifNeurons | None = None,
    state: LifState | None = None,
    *,
    by_pull: bool = False,
) -> Simulation:
    """Run a network: in each step neurons are updated, their slot is cleared, and their spikes are delivered.

    Args:
        network: Outgoing synapses.
        steps: Number of steps.
        neurons: How neurons behave.
        state: Where it starts; at rest if None.
        by_pull: Deliver by incoming synapses; it gives the same.

    Raises:
        CostModelError: The state is of another number of neurons.
    """
    neurons, state = neurons or LifNeurons(), state or LifState.at_rest(network.size)
    if len(state.voltage) != network.size:
        raise CostModelError(
            f"A state must have the network's {network.size} neurons, but got {len(state.voltage)}."
        )
    deliver: Callable[[Network, NDArray[np.bool_], Current, int], Current]
    synapses, deliver = (network.transposed(), deliver_by_pull) if by_pull else (network, deliver_by_push)
    current = np.zeros((network.longest_delay + 1, network.size), np.int32)
    spiked = np.zeros((steps, network.size), np.bool_)
    for step in range(steps):
        now = step % len(current)
        state, spiked[step] = update_neurons(neurons, state, current[now])
        current[now] = 0
        current = deliver(synapses, spiked[step], current, now)
    return Simulation(spiked, state, current)
