"""Leaky integrate-and-fire neurons in whole numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError


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
        """All at 0, and none waits."""
        return cls(np.zeros(neurons, np.int32), np.zeros(neurons, np.uint8))


def update_neurons(
    neurons: LifNeurons, state: LifState, current: NDArray[np.int32]
) -> tuple[LifState, NDArray[np.bool_]]:
    """The state after a step, and ``(neurons,)`` whether each spikes.

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
    """``(ceil(neurons / 32),)`` words with a bit a neuron, the first neuron's the lowest."""
    padded = np.zeros(-(-len(spiked) // 32) * 32, np.bool_)
    padded[: len(spiked)] = spiked
    return np.packbits(padded, bitorder="little").view("<u4").astype(np.uint32)
