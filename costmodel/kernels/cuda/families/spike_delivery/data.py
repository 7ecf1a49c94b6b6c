"""A random network, and the neurons of it that spike."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.spiking import draw_network, expected_deliveries, mask_of, spikes_of_step

_VECTOR = 4  # words are read by as many at most


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """The arguments of a workload: n neurons, c synapses each, r spikes per 100,000 neurons, d delays."""
    neurons, spikes = dims["n"], spikes_of_step(dims["n"], dims["r"])
    drawn = draw_network(neurons, dims["c"], dims["d"], rng)
    outgoing, incoming = drawn.sorted(), drawn.transposed()
    listed = np.zeros(neurons, np.int32)
    listed[:spikes] = rng.permutation(neurons)[:spikes]
    spiked = np.zeros(neurons, np.bool_)
    spiked[listed[:spikes]] = True
    return {
        "current": rng.integers(-100, 100, size=(dims["d"] + 1) * neurons, dtype=np.int32),
        "spikes": listed,
        "count": np.array([spikes], np.int32),
        "spiking": mask_of(spiked),
        "row_starts": drawn.row_starts,
        "outgoing": _padded(outgoing.words),
        "outgoing_drawn": _padded(drawn.words),
        "column_starts": incoming.row_starts,
        "incoming": _padded(incoming.words),
    }


def facts(dims: Mapping[str, int]) -> dict[str, float]:
    """Spikes exactly, and what to expect of their delivery."""
    spikes = spikes_of_step(dims["n"], dims["r"])
    expected = expected_deliveries(dims["n"], dims["c"], dims["d"], spikes)
    return {
        "spikes": spikes,
        "additions": expected.synapses,
        "addresses": expected.addresses,
        "sectors": expected.sectors,
    }


def _padded(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return np.pad(words, (0, -len(words) % _VECTOR))
