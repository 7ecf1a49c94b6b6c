"""Delivery, neurons and whole simulations against loops over single synapses and neurons."""

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular import LifNeurons, Network, draw_network, shard, simulate
from costmodel.irregular._simulator import deliver_by_pull, deliver_by_push
from costmodel.irregular.spiking import LifState, expected_deliveries, mask_of, spikes_of_step, update_neurons

pytestmark = pytest.mark.white_box


def random_state(neurons: LifNeurons, size: int, rng: np.random.Generator) -> LifState:
    voltage = rng.integers(-neurons.threshold, neurons.threshold, size=size, dtype=np.int32)
    return LifState(voltage, rng.integers(neurons.period + 1, size=size, dtype=np.uint8))


def delivered_one_by_one(
    network: Network, spiked: NDArray[np.bool_], current: list[list[int]], now: int
) -> None:
    """Add each synapse of each neuron that spiked to the rows of ``current``."""
    columns = (network.owners, network.neurons, network.weights, network.delays)
    for source, target, weight, delay in zip(*(column.tolist() for column in columns), strict=True):
        if spiked[source]:
            current[(now + delay) % len(current)][target] += weight


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("longest_delay", [1, 4, 16])
def test_push_and_pull_give_what_single_synapses_do(rate: float, longest_delay: int) -> None:
    rng = np.random.default_rng(3)
    network = draw_network(50, 6, longest_delay, rng)
    spiked = rng.random(50) < rate
    before = rng.integers(-9, 9, size=(longest_delay + 1, 50), dtype=np.int32)
    for now in (0, longest_delay):
        expected = before.tolist()
        delivered_one_by_one(network, spiked, expected, now)
        assert deliver_by_push(network, spiked, before, now).tolist() == expected
        assert deliver_by_pull(network.transposed(), spiked, before, now).tolist() == expected


def test_neurons_without_synapses_get_and_give_nothing() -> None:
    network = Network.of_rows([0, 0, 2, 2], [2, 2], [100, 27], [1, 1], 1)
    before = np.zeros((2, 3), np.int32)
    for deliver, synapses in ((deliver_by_push, network), (deliver_by_pull, network.transposed())):
        assert deliver(synapses, np.ones(3, bool), before, 1).tolist() == [[0, 0, 127], [0, 0, 0]]
    empty = Network.of_rows([0, 0, 0, 0], [], [], [], 1)
    for deliver in (deliver_by_push, deliver_by_pull):
        assert not deliver(empty, np.ones(3, bool), before, 0).any()


def updated_one_by_one(neurons: LifNeurons, voltage: int, wait: int, current: int) -> tuple[int, int, bool]:
    if wait:
        return 0, wait - 1, False
    after = voltage - voltage // 2**neurons.leak_shift + current + neurons.drive
    return (0, neurons.period, True) if after >= neurons.threshold else (after, 0, False)


@pytest.mark.parametrize(
    "neurons", [LifNeurons(), LifNeurons(threshold=90, drive=-5, leak_shift=2, period=0)]
)
def test_neurons_do_what_single_ones_do(neurons: LifNeurons) -> None:
    rng = np.random.default_rng(0)
    state = random_state(neurons, 500, rng)
    current = rng.integers(-2 * neurons.threshold, 2 * neurons.threshold, size=500, dtype=np.int32)
    current[0] = neurons.threshold - neurons.drive
    state.voltage[0] = state.refractory[0] = 0  # which is just enough
    after, spiked = update_neurons(neurons, state, current)
    expected = [
        updated_one_by_one(neurons, *each)
        for each in zip(state.voltage.tolist(), state.refractory.tolist(), current.tolist(), strict=True)
    ]
    found = zip(after.voltage.tolist(), after.refractory.tolist(), spiked.tolist(), strict=True)
    assert list(found) == expected
    assert spiked[0]
    assert 20 < spiked.sum() < 400


def test_masks_have_a_bit_a_neuron() -> None:
    assert mask_of(np.array([1, 0, 1] + [0] * 28 + [1, 1], bool)).tolist() == [0b101 | 1 << 31, 1]


@pytest.mark.parametrize("by_pull", [False, True])
def test_a_simulation_is_its_steps_one_by_one(by_pull: bool) -> None:
    neurons = LifNeurons(threshold=100, drive=20)
    rng = np.random.default_rng(1)
    network, start = draw_network(40, 8, 3, rng), random_state(neurons, 40, rng)
    done = simulate(network, 12, neurons, start, by_pull=by_pull)
    states = list(zip(start.voltage.tolist(), start.refractory.tolist(), strict=True))
    current = [[0] * 40 for _ in range(4)]
    for step in range(12):
        now = step % 4
        updated = [
            updated_one_by_one(neurons, *each)
            for each in zip(*zip(*states, strict=True), current[now], strict=True)
        ]
        states = [each[:2] for each in updated]
        spiked = np.array([each[2] for each in updated])
        current[now] = [0] * 40
        delivered_one_by_one(network, spiked, current, now)
        assert done.spiked[step].tolist() == spiked.tolist()
    assert list(zip(done.state.voltage.tolist(), done.state.refractory.tolist(), strict=True)) == states
    assert done.current.tolist() == current
    assert done.spiked[2:].any(axis=1).sum() > 5


def test_neurons_at_rest_spike_by_their_drive() -> None:
    done = simulate(draw_network(100, 5, 2, np.random.default_rng(0)), 100)
    assert 0.005 < done.spiked.mean() < 0.1


def test_shards_together_deliver_what_the_network_does() -> None:
    rng = np.random.default_rng(2)
    network = draw_network(90, 12, 4, rng)
    spiked = rng.random(90) < 0.3
    before = rng.integers(-9, 9, size=(5, 90), dtype=np.int32)
    whole = deliver_by_push(network, spiked, before, 2)
    for part in shard(network, 4, 0.3):
        own = slice(part.neurons.start, part.neurons.stop)
        after = deliver_by_push(network.onto(part.neurons), spiked, before, 2)
        assert np.array_equal(after[:, own], whole[:, own])
        assert np.array_equal(np.delete(after, own, axis=1), np.delete(before, own, axis=1))


def test_expected_deliveries_are_those_of_drawn_networks() -> None:
    rng = np.random.default_rng(4)
    network = draw_network(3000, 20, 3, rng)
    spikes = spikes_of_step(3000, 20_000)
    assert spikes == 600
    spiked = np.zeros(3000, bool)
    spiked[rng.permutation(3000)[:spikes]] = True
    reached = spiked[network.owners]
    places = np.unique((network.delays[reached] - 1) * 3000 + network.neurons[reached])
    expected = expected_deliveries(3000, 20, 3, spikes)
    assert expected.synapses == pytest.approx(reached.sum(), rel=0.02)
    assert expected.addresses == pytest.approx(len(places), rel=0.02)
    assert expected.sectors == pytest.approx(len(np.unique(places // 8)), rel=0.02)


def test_numbers_of_spikes_are_rounded_and_no_more_than_neurons() -> None:
    assert [spikes_of_step(64, rate) for rate in (1, 700, 800, 100_000, 200_000)] == [0, 0, 1, 64, 64]


def test_a_state_of_other_neurons_is_refused() -> None:
    with pytest.raises(CostModelError, match="network's 10 neurons, but got 9"):
        simulate(draw_network(10, 2, 1, np.random.default_rng(0)), 1, state=LifState.at_rest(9))


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"leak_shift": 0}, {"leak_shift": 32}, {"period": 256}])
def test_neurons_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CostModelError, match="A threshold must be positive"):
        LifNeurons(**wrong)
