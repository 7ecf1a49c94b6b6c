"""Networks of spiking neurons: synapses, a word of 32 bits each; neurons; and what a step should deliver."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.former import answer_inside

MOST_NEURONS = 1 << 20
MOST_DELAY = 16  # steps
_MOST_SYNAPSES = 2_000_000_000  # their positions are int32
_WEIGHTS = np.iinfo(np.int8)

Words = NDArray[np.uint32]
_IN_A_SECTOR = 8  # whole numbers of 4 bytes: device memory moves 32 bytes


@dataclass(frozen=True)
class Network:
    """Synapses by rows (CSR): row i has those of neuron i, outgoing or, of ``transposed``, incoming.

    A synapse is a word: its delay less one in the upper 4 bits, the neuron at its other end in 20 bits, its
    weight with a sign in 8 bits. Packed so, delivering it reads 4 bytes; SpiNNaker packs as much (Rhodes et
    al. 2018, "sPyNNaker").

    Attributes:
        row_starts: ``(neurons + 1,)`` int32: row i has the words ``row_starts[i]`` to ``row_starts[i + 1]``.
        words: ``(synapses,)`` uint32.
        longest_delay: In steps, d; delays are 1 to d.

    Raises:
        CostModelError: It has too many neurons, or row starts that do not rise from 0 to the number of
            synapses, or a synapse with a neuron or delay that there is not.

    Example:
        >>> network = Network.of_rows([0, 2, 2], [0, 1], weights=[3, -4], delays=[1, 2], longest_delay=2)
        >>> network.transposed().neurons.tolist()
        [0, 0]
    """

    row_starts: NDArray[np.int32]
    words: Words
    longest_delay: int = 1

    def __post_init__(self) -> None:
        check_sizes(self.size, len(self.words), self.longest_delay)
        steps = np.diff(self.row_starts)
        if self.row_starts[0] != 0 or self.row_starts[-1] != len(self.words) or (steps < 0).any():
            raise CostModelError(
                f"Row starts must rise from 0 to the number of synapses, {len(self.words)}, but got "
                f"{self.row_starts[0]} to {self.row_starts[-1]} with the smallest step {steps.min()}."
            )
        for what, most, got in (
            ("Neurons", self.size - 1, self.neurons),
            ("Delays", self.longest_delay, self.delays),
        ):
            if len(got) and got.max() > most:
                raise CostModelError(
                    f"{what} of synapses must be at most {most}, but got {got.max()} at synapse "
                    f"{got.argmax()}."
                )

    @classmethod
    def of_rows(cls, row_starts: Any, targets: Any, weights: Any, delays: Any, longest_delay: int) -> Self:
        """Return a network of separate arrays, ``(synapses,)`` whole numbers each.

        Raises:
            CostModelError: As the class; or a weight is not from -128 to 127, or the lengths differ.
        """
        columns = [np.asarray(each, np.int64).reshape(-1) for each in (targets, weights, delays)]
        if len({len(column) for column in columns}) > 1:
            raise CostModelError(
                "Targets, weights and delays must have one value a synapse, but got "
                f"{', '.join(str(len(column)) for column in columns)}."
            )
        bounds = ((0, MOST_NEURONS - 1), (_WEIGHTS.min, _WEIGHTS.max), (1, MOST_DELAY))
        for what, column, (least, most) in zip(
            ("Targets", "Weights", "Delays"), columns, bounds, strict=True
        ):
            _check_range(what, column, least, most)
        return cls(np.asarray(row_starts, np.int32), packed(*columns), longest_delay)

    @property
    def size(self) -> int:
        """Number of neurons."""
        return len(self.row_starts) - 1

    @property
    def degrees(self) -> NDArray[np.int32]:
        """``(neurons,)`` synapses of each row."""
        return np.diff(self.row_starts)

    @property
    def owners(self) -> NDArray[np.int32]:
        """``(synapses,)`` the neuron whose row a synapse is in."""
        return np.repeat(np.arange(self.size, dtype=np.int32), self.degrees)

    @property
    def neurons(self) -> NDArray[np.int32]:
        """``(synapses,)`` the neuron at the other end."""
        return (self.words >> np.uint32(8) & np.uint32(MOST_NEURONS - 1)).astype(np.int32)

    @property
    def weights(self) -> NDArray[np.int8]:
        """``(synapses,)`` weights."""
        return self.words.astype(np.uint8).view(np.int8)

    @property
    def delays(self) -> NDArray[np.int32]:
        """``(synapses,)`` delays in steps, 1 to ``longest_delay``."""
        return (self.words >> np.uint32(28)).astype(np.int32) + 1

    def sorted(self) -> "Network":
        """The same with the synapses of each row by delay, then neuron, then the bits of the weight."""
        words = _in_order(self.owners, self.words)
        return Network(self.row_starts, words, self.longest_delay)

    def transposed(self) -> "Network":
        """The same by the neurons at the other ends, sorted: incoming synapses of outgoing ones, or back."""
        rows = self.neurons
        starts = _starts(np.bincount(rows, minlength=self.size))
        others = self.words & np.uint32(0xF00000FF) | self.owners.astype(np.uint32) << np.uint32(8)
        return Network(starts, _in_order(rows, others), self.longest_delay)

    def onto(self, neurons: range) -> "Network":
        """Return the synapses onto some neurons alone; neurons keep their numbers.

        Args:
            neurons: Of consecutive numbers.
        """
        targets = self.neurons
        kept = (targets >= neurons.start) & (targets < neurons.stop)
        counts = np.bincount(self.owners[kept], minlength=self.size)
        return Network(_starts(counts), self.words[kept], self.longest_delay)


def packed(neurons: Any, weights: Any, delays: Any) -> Words:
    """Return ``(synapses,)`` words of whole numbers that are in their ranges."""
    word = (np.asarray(delays) - 1) << 28 | np.asarray(neurons) << 8 | np.asarray(weights) & 0xFF
    return np.asarray(word, np.uint32)


def draw_network(neurons: int, mean_degree: int, longest_delay: int, rng: np.random.Generator) -> Network:
    """Return exactly neurons x mean degree synapses, each between two random neurons, in the order drawn.

    Degrees vary as binomial ones do, two neurons may have several synapses ("fixed total number", with
    replacement, in GeNN and NEST), and all weights and delays are equally likely.

    Args:
        neurons: Number of neurons, at most 2^20.
        mean_degree: Outgoing (and incoming) synapses of a neuron on average.
        longest_delay: In steps, at most 16.
        rng: What is drawn from.

    Raises:
        CostModelError: It would be too large.
    """
    synapses = neurons * mean_degree
    check_sizes(neurons, synapses, longest_delay)
    degrees = rng.multinomial(synapses, np.full(neurons, 1 / neurons))
    words = rng.integers(neurons, size=synapses, dtype=np.uint32)
    words <<= np.uint32(8)
    words |= rng.integers(longest_delay, size=synapses, dtype=np.uint8).astype(np.uint32) << np.uint32(28)
    words |= rng.integers(256, size=synapses, dtype=np.uint8)
    return Network(_starts(degrees), words, longest_delay)


def _starts(counts: NDArray[Any]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _in_order(rows: NDArray[np.int32], words: Words) -> Words:
    """Return the words by rows, and in a row by their bits: by delay, then neuron."""
    keys = rows.astype(np.uint64) << np.uint64(32)
    keys |= words
    keys.sort()
    return keys.astype(np.uint32)


def check_sizes(neurons: int, synapses: int, longest_delay: int) -> None:
    """Check that a network can be.

    Raises:
        CostModelError: It is too large, or the delays are too long.
    """
    if not 1 <= neurons <= MOST_NEURONS or synapses > _MOST_SYNAPSES:
        raise CostModelError(
            f"A network must have 1 to {MOST_NEURONS} neurons and at most {_MOST_SYNAPSES} synapses, but got "
            f"{neurons} and {synapses}. Divide it with costmodel.irregular.shard."
        )
    if not 1 <= longest_delay <= MOST_DELAY:
        raise CostModelError(f"The longest delay must be 1 to {MOST_DELAY} steps, but got {longest_delay}.")


def _check_range(what: str, column: NDArray[np.int64], least: int, most: int) -> None:
    wrong = np.flatnonzero((column < least) | (column > most))
    if len(wrong):
        raise CostModelError(
            f"{what} of synapses must be from {least} to {most}, but got {column[wrong[0]]} at synapse "
            f"{wrong[0]}."
        )


@dataclass(frozen=True)
class LifNeurons:
    """How neurons behave: v becomes ``v - (v >> leak_shift) + current + drive``, and from ``threshold`` on 0.

    Whole numbers of any unit, so that all is exact, as on neuromorphic chips (Davies et al. 2018, "Loihi"):
    the time constant is 2^leak_shift steps, and a shift rounds down, negative voltages too.

    Attributes:
        threshold: A neuron spikes from this voltage on.
        drive: Constant current into each neuron.
        leak_shift: The voltage loses 1 / 2^leak_shift of itself in a step.
        period: Steps that a neuron waits after a spike, while what comes in is lost; at most 255.

    Raises:
        CostModelError: One is out of its range.
    """

    threshold: int = 4096
    drive: int = 272
    leak_shift: int = 4
    period: int = 3

    def __post_init__(self) -> None:
        if self.threshold < 1 or not 1 <= self.leak_shift <= 31 or not 0 <= self.period <= 255:
            raise CostModelError(
                "A threshold must be positive, a leak's shift 1 to 31 and a period 0 to 255 steps, but got "
                f"{self.threshold}, {self.leak_shift} and {self.period}."
            )


@dataclass(frozen=True)
class LifState:
    """The neurons between two steps.

    Attributes:
        voltage: ``(neurons,)`` int32.
        refractory: ``(neurons,)`` uint8 steps that a neuron still waits.
    """

    voltage: NDArray[np.int32]
    refractory: NDArray[np.uint8]

    @classmethod
    def at_rest(cls, neurons: int) -> "LifState":
        """Return all at 0, and none waits."""
        return cls(np.zeros(neurons, np.int32), np.zeros(neurons, np.uint8))


def update_neurons(
    neurons: LifNeurons, state: LifState, current: NDArray[np.int32]
) -> tuple[LifState, NDArray[np.bool_]]:
    """Return the state after a step, and ``(neurons,)`` whether each spikes.

    Args:
        neurons: How they behave.
        state: Before the step.
        current: ``(neurons,)`` what comes in.
    """
    after = state.voltage - (state.voltage >> neurons.leak_shift) + current + np.int32(neurons.drive)
    waits = state.refractory > 0
    spiked = ~waits & (after >= neurons.threshold)
    voltage = np.where(waits | spiked, 0, after).astype(np.int32)
    refractory = np.where(spiked, neurons.period, np.where(waits, state.refractory - np.uint8(1), 0))
    return LifState(voltage, refractory.astype(np.uint8)), spiked


def mask_of(spiked: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return ``(ceil(neurons / 32),)`` words with a bit a neuron, the first neuron's the lowest."""
    padded = np.zeros(-(-len(spiked) // 32) * 32, np.bool_)
    padded[: len(spiked)] = spiked
    return np.packbits(padded, bitorder="little").view("<u4").astype(np.uint32)


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
    """Return neurons that spike, exactly.

    Args:
        neurons: Number of neurons.
        rate: Spikes of a step per 100,000 neurons.
    """
    return min(neurons, (neurons * rate + 50_000) // 100_000)


def expected_deliveries(neurons: int, mean_degree: int, longest_delay: int, spikes: int) -> Deliveries:
    """Tell what so many spikes of a network of ``draw_network`` should reach.

    Each of K additions meets one of M sums, all equally likely: ``M (1 - (1 - 1/M)^K)`` are met.

    Raises:
        CostModelError: There is no such network.
    """
    check_sizes(neurons, neurons * mean_degree, longest_delay)
    synapses = float(spikes * mean_degree)
    addresses = longest_delay * neurons
    return Deliveries(synapses, _met(addresses, synapses), _met(addresses / _IN_A_SECTOR, synapses))


def _met(places: float, additions: float) -> float:
    """Return distinct places that random additions meet."""
    if places <= 1:
        return min(places, additions)
    return -places * math.expm1(additions * math.log1p(-1 / places))


__getattr__ = answer_inside(__name__)
