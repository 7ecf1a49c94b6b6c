"""Steps of a spiking network in NumPy, which kernels must give as well, and baselines.

These are parts of a network of equal cost, and GeNN's choice of a block size, by occupancy alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.spiking import LifNeurons, LifState, Network, update_neurons

Current = NDArray[np.int32]  # (longest delay + 1, neurons), a ring of slots


def deliver_by_push(network: Network, spiked: NDArray[np.bool_], current: Current, now: int) -> Current:
    """Return the current with the outgoing synapses of the neurons that spiked, one neuron after the other.

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
    """Return the positions of the synapses of some rows."""
    counts = network.degrees[rows].astype(np.int64)
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(network.row_starts[rows] - before, counts))


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
    """Return consecutive ranges of neurons of equal cost: incoming synapses x rate + 1 for each neuron.

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
    """Return the positions of the values nearest to those wanted; of two as near the first."""
    above = np.clip(np.searchsorted(rising, wanted), 1, len(rising) - 1)
    is_below = wanted - rising[above - 1] <= rising[above] - wanted
    found: list[int] = (above - is_below).tolist()
    return found


_WARP = 32
_REGISTERS_AT_ONCE = 256  # what a warp's registers are rounded up to


@dataclass(frozen=True)
class StreamingMultiprocessor:
    """What an SM has; the defaults are those of an H100 and H200.

    Attributes:
        threads: Most threads at once.
        blocks: Most blocks at once.
        registers: Of 32 bits.
        shared_bytes: Shared memory.
    """

    threads: int = 2048
    blocks: int = 32
    registers: int = 65_536
    shared_bytes: int = 233_472


def occupancy_block_size(  # noqa: PLR0913 (one argument a fact)
    threads: int,
    registers: int,
    shared_bytes: Callable[[int], int] = lambda _: 0,
    *,
    sms: int,
    sm: StreamingMultiprocessor | None = None,
    most_threads: int = 1024,
) -> int:
    """Threads of a block: the smallest with which all blocks run at once, or else of the most occupancy.

    Sizes are tried from one warp up, warp by warp, and of equal occupancy the smaller is taken.

    Args:
        threads: Threads that the kernel needs in all.
        registers: Of a thread.
        shared_bytes: Shared memory of a block of this many threads.
        sms: SMs that the kernel has.
        sm: What each has; an H100's if None.
        most_threads: Of a block.

    Raises:
        CostModelError: No block fits on an SM.

    Reference:
        Knight and Nowotny 2018, "GPUs Outperform Current HPC and Neuromorphic Solutions in Terms of Speed
        and Energy When Simulating a Highly-Connected Cortical Model", and what GeNN does since; written anew.
        Registers are counted as GPUs since 2010 do, a warp's at once, which GeNN leaves out there.

    Example:
        >>> occupancy_block_size(10_000_000, registers=32, sms=132)
        64
    """
    sm = sm or StreamingMultiprocessor()
    best, most_warps = 0, 0
    for size in range(_WARP, most_threads + 1, _WARP):
        blocks = _blocks_per_sm(size, registers, shared_bytes(size), sm)
        if -(-threads // size) <= blocks * sms:
            return size
        if blocks * size // _WARP > most_warps:
            best, most_warps = size, blocks * size // _WARP
    if not best:
        raise CostModelError(
            f"A block of {_WARP} threads must fit on an SM, but one with {registers} registers a thread and "
            f"{shared_bytes(_WARP)} bytes of shared memory does not."
        )
    return best


def _blocks_per_sm(size: int, registers: int, shared_bytes: int, sm: StreamingMultiprocessor) -> int:
    """Return blocks that run at once on an SM."""
    warps = size // _WARP
    of_warp = -(-registers * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    limits = [sm.threads // size, sm.blocks]
    if of_warp:
        limits.append(sm.registers // of_warp // warps)
    if shared_bytes:
        limits.append(sm.shared_bytes // shared_bytes)
    return min(limits)
