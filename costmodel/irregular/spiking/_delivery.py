"""What the spikes of one step add to the currents of later steps, in the two ways of kernels."""

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.spiking._network import Network

Current = NDArray[np.int32]  # (longest delay + 1, neurons), a ring of slots


def deliver_by_push(network: Network, spiked: NDArray[np.bool_], current: Current, now: int) -> Current:
    """The current with the outgoing synapses of the neurons that spiked, one neuron after the other.

    Args:
        network: Outgoing synapses.
        spiked: ``(neurons,)`` whether each spiked.
        current: ``(longest delay + 1, neurons)`` slots; it stays as it is.
        now: The slot of this step; a delay of k steps adds to the k-th slot behind it.
    """
    positions = _positions(network, np.flatnonzero(spiked))
    part = Network(
        np.array([0, *np.full(network.size, len(positions))], np.int32),
        network.words[positions],
        network.longest_delay,
    )
    after = current.copy()
    np.add.at(after, ((now + part.delays) % len(current), part.neurons), part.weights)
    return after


def deliver_by_pull(incoming: Network, spiked: NDArray[np.bool_], current: Current, now: int) -> Current:
    """The same of incoming synapses (``Network.transposed``): a neuron adds up what comes in, by slots."""
    after = current.copy()
    weights = np.where(spiked[incoming.neurons], incoming.weights, 0).astype(np.int64)
    delays = incoming.delays
    for delay in range(1, incoming.longest_delay + 1):
        sums = np.concatenate([[0], np.cumsum(np.where(delays == delay, weights, 0))])
        after[(now + delay) % len(current)] += np.diff(sums[incoming.row_starts]).astype(np.int32)
    return after


def _positions(network: Network, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Positions of the synapses of some rows."""
    counts = network.degrees[rows].astype(np.int64)
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(network.row_starts[rows] - before, counts))
