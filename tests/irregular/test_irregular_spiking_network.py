"""Networks against SciPy's sparse matrices, and what is said of those that cannot be."""

import re
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from costmodel.errors import CostModelError
from costmodel.irregular import Network, draw_network

TWO = {"row_starts": [0, 2, 2], "targets": [0, 1], "weights": [3, -128], "delays": [1, 2], "longest_delay": 2}


def drawn(neurons: int = 60, mean_degree: int = 9, longest_delay: int = 5, seed: int = 0) -> Network:
    return draw_network(neurons, mean_degree, longest_delay, np.random.default_rng(seed))


def matrix(network: Network, delay: int) -> Any:
    """Weights from row to neuron of the synapses of one delay, as a dense matrix."""
    chosen = network.delays == delay
    places = (network.owners[chosen], network.neurons[chosen])
    weights = network.weights[chosen].astype(np.int64)
    return csr_array((weights, places), shape=(network.size, network.size)).toarray()


def synapses(network: Network) -> list[tuple[int, ...]]:
    columns = (network.owners, network.delays, network.neurons, network.weights)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_rows_come_back_as_they_went_in() -> None:
    network = Network.of_rows(**TWO)
    assert synapses(network) == [(0, 1, 0, 3), (0, 2, 1, -128)]
    assert network.degrees.tolist() == [2, 0]
    widest = Network.of_rows(np.append(np.zeros(1 << 20, int), 2), [(1 << 20) - 1, 0], [127, -1], [16, 1], 16)
    assert synapses(widest) == [((1 << 20) - 1, 16, (1 << 20) - 1, 127), ((1 << 20) - 1, 1, 0, -1)]


def test_a_drawn_network_has_exactly_the_synapses_asked_for_and_degrees_that_vary() -> None:
    network = drawn(2000, 50, 16)
    assert len(network.words) == 2000 * 50
    for degrees in (network.degrees, network.transposed().degrees):
        assert degrees.mean() == 50
        assert degrees.std() == pytest.approx(50**0.5, rel=0.1)  # binomial of a small probability
    assert np.bincount(network.delays)[1:] == pytest.approx(np.full(16, 6250), rel=0.1)
    assert np.bincount(network.weights.view(np.uint8)) == pytest.approx(np.full(256, 390), rel=0.3)
    assert synapses(network) == synapses(drawn(2000, 50, 16))
    assert synapses(network) != synapses(drawn(2000, 50, 16, seed=1))


def test_sorting_keeps_the_synapses_and_brings_them_by_delay_then_neuron() -> None:
    network = drawn()
    assert synapses(network.sorted()) == sorted(
        synapses(network), key=lambda each: (*each[:3], each[3] & 0xFF)
    )
    assert synapses(network) != synapses(network.sorted())


def test_incoming_synapses_are_those_of_the_transposed_matrix() -> None:
    network = drawn()
    incoming = network.transposed()
    for delay in range(1, 6):
        assert np.array_equal(matrix(incoming, delay), matrix(network, delay).T)
    assert synapses(incoming.transposed()) == synapses(network.sorted())


def test_synapses_onto_a_range_are_the_columns_of_the_matrix() -> None:
    network = drawn()
    part = network.onto(range(10, 25))
    for delay in range(1, 6):
        expected = matrix(network, delay)
        expected[:, :10] = expected[:, 25:] = 0
        assert np.array_equal(matrix(part, delay), expected)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"row_starts": [0, 2, 1]}, "rise from 0 to the number of synapses, 2"),
        ({"row_starts": [0, 3, 2]}, "smallest step -1"),
        ({"row_starts": [1, 2, 2]}, "got 1 to 2"),
        ({"targets": [0, 2]}, "Neurons of synapses must be at most 1, but got 2 at synapse 1"),
        ({"targets": [-1, 0]}, "must be from 0 to 1048575, but got -1 at synapse 0"),
        ({"targets": [0]}, "one value a synapse, but got 1, 2, 2"),
        ({"weights": [3, 128]}, "must be from -128 to 127, but got 128 at synapse 1"),
        ({"delays": [0, 1]}, "must be from 1 to 16, but got 0 at synapse 0"),
        ({"delays": [1, 3]}, "Delays of synapses must be at most 2, but got 3 at synapse 1"),
        ({"longest_delay": 17}, "The longest delay must be 1 to 16 steps, but got 17"),
        ({"row_starts": [0]}, "must have 1 to 1048576 neurons"),
    ],
)
def test_a_network_that_cannot_be_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(CostModelError, match=re.escape(says)):
        Network.of_rows(**{**TWO, **change})


@pytest.mark.parametrize(("neurons", "mean_degree"), [((1 << 20) + 1, 1), (1_000_000, 2001)])
def test_a_network_that_is_too_large_is_refused_before_it_is_drawn(neurons: int, mean_degree: int) -> None:
    with pytest.raises(CostModelError, match="Divide it with"):
        drawn(neurons, mean_degree)
