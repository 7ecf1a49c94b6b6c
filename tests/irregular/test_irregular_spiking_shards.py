"""Shards against every way to divide a small network."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.irregular import Network, draw_network, shard


def skewed(seed: int) -> Network:
    """A network in which some neurons have many more incoming synapses than others."""
    rng = np.random.default_rng(seed)
    targets = np.minimum(rng.zipf(1.5, size=60) - 1, 9)
    starts = np.linspace(0, 60, 11).astype(int)
    return Network.of_rows(starts, targets, np.ones(60), np.ones(60), 1)


def costs(network: Network, rate: float) -> list[float]:
    return [1 + rate * int((network.neurons == neuron).sum()) for neuron in range(network.size)]


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("seed", range(4))
def test_shards_are_within_one_neuron_of_the_ideal_and_of_the_best(parts: int, seed: int) -> None:
    network = skewed(seed)
    each = costs(network, 0.5)
    found = shard(network, parts, 0.5)
    assert [neuron for part in found for neuron in part.neurons] == list(range(10))
    assert len(found) == parts
    assert [part.cost for part in found] == pytest.approx(
        [sum(each[part.neurons.start : part.neurons.stop]) for part in found]
    )
    largest = max(part.cost for part in found)
    assert all(abs(part.cost - sum(each) / parts) <= max(each) for part in found)
    ways = ((0, *cut, 10) for cut in combinations(range(1, 10), parts - 1))
    best = min(max(sum(each[start:end]) for start, end in pairwise(way)) for way in ways)
    assert best <= largest + 1e-9 <= best + max(each)


def test_shards_of_equal_neurons_are_equal() -> None:
    ring = Network.of_rows(range(13), range(12), [1] * 12, [1] * 12, 1)
    assert [part.neurons for part in shard(ring, 3, 1.0)] == [range(4), range(4, 8), range(8, 12)]
    assert {part.cost for part in shard(ring, 3, 1.0)} == {8.0}


def test_neurons_that_nothing_reaches_are_in_a_shard() -> None:
    network = Network.of_rows(range(7), [0] * 6, [1] * 6, [1] * 6, 1)
    assert [part.neurons for part in shard(network, 2, 0.5)] == [range(1), range(1, 6)]


@pytest.mark.parametrize(
    ("parts", "rate", "says"),
    [
        (0, 0.1, "1 to the 20 neurons"),
        (21, 0.1, "got 21"),
        (2, 1.5, "0 to 1 spikes"),
        (2, float("nan"), "nan"),
    ],
)
def test_what_cannot_be_is_refused(parts: int, rate: float, says: str) -> None:
    with pytest.raises(CostModelError, match=says):
        shard(draw_network(20, 2, 1, np.random.default_rng(0)), parts, rate)
