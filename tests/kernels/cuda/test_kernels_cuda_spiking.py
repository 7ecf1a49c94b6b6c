"""Kernels of spiking networks, run exactly on the CPU: every variant, and many steps of a network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator import EmulationError, Emulator, Launch
from numpy.typing import NDArray
from test_kernels_cuda_families import FAMILIES, error_of, launch_of

from costmodel.errors import CostModelError
from costmodel.irregular import LifNeurons, Network, draw_network, simulate
from costmodel.irregular.spiking import LifState, mask_of
from costmodel.kernels import CudaFamily
from costmodel.kernels.library._source import LibrarySource
from costmodel.records import Config, Workload
from costmodel.records._candidate import ConfigBatch

pytestmark = pytest.mark.white_box

DELIVERY, UPDATE = FAMILIES["spike_delivery"], FAMILIES["lif_update"]
PUSH = {"variant": "push", "shared_sums": 0}
PULL = {"variant": "pull", "shared_sums": 0, "shared_mask": 0}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "push": PUSH,
    "push, added up in shared memory": {**PUSH, "shared_sums": 1},
    "push in the order drawn": {**PUSH, "sorted": 0},
    "push of groups beyond a warp": {**PUSH, "group_size": 64},
    "scan": {**PUSH, "variant": "scan"},
    "scan, added up in shared memory": {**PUSH, "variant": "scan", "shared_sums": 1},
    "pull": PULL,
    "pull, added up in shared memory": {**PULL, "shared_sums": 1},
    "pull with the bitmask in shared memory": {**PULL, "shared_mask": 1},
    "pull by single threads": {**PULL, "group_size": 1},
}
ODD = {"n": 333, "c": 40, "r": 9000, "d": 5}  # no multiple of 32, of a block, or of a vector


def drawn(family: CudaFamily, workload: Workload, settings: Mapping[str, Any], count: int) -> list[Config]:
    """Random configs with some parameters as given."""
    space = family.space(workload)
    batch = space.draw(0, space.count or 0, np.random.default_rng(0))
    fits = np.logical_and.reduce([batch.decisions[name] == value for name, value in settings.items()])
    columns = {name: column[fits][:count] for name, column in batch.decisions.items()}
    assert fits.sum() >= count
    return ConfigBatch(workload, count, columns).configs()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_delivery_gives_the_reference(kind: str, emulator: Emulator) -> None:
    workload = DELIVERY.workload(**ODD)
    for config in drawn(DELIVERY, workload, KINDS[kind], 2):
        assert error_of(emulator, DELIVERY.source, DELIVERY, workload, config) == 0, config.decisions


@pytest.mark.parametrize("rate", [1, 100_000])
@pytest.mark.parametrize("kind", ["push", "scan", "pull"])
def test_no_spike_and_a_spike_of_every_neuron_are_delivered(kind: str, rate: int, emulator: Emulator) -> None:
    workload = DELIVERY.workload(n=70, c=3, r=rate, d=1)
    (config,) = drawn(DELIVERY, workload, KINDS[kind], 1)
    assert error_of(emulator, DELIVERY.source, DELIVERY, workload, config) == 0, config.decisions


@pytest.mark.parametrize("aggregation", ["thread", "warp", "block"])
def test_spikes_are_listed_once_each_behind_those_that_are_there(
    aggregation: str, emulator: Emulator
) -> None:
    workload = UPDATE.workload(n=1504, r=9000)
    for config in drawn(UPDATE, workload, {"aggregation": aggregation}, 2):
        arguments = dict(zip(UPDATE.argument_names, UPDATE.own_arguments(workload), strict=True))
        arguments["count"][:] = 1450  # so that the list goes round its end
        left = emulator.run(UPDATE.source, launch_of(UPDATE, workload, config), list(arguments.values()))
        after = dict(zip(arguments, left, strict=True))
        bits = np.unpackbits(after["spiking"].view(np.uint8), bitorder="little")
        places = np.arange(1450, int(after["count"][0])) % 1504
        assert len(places) == 135
        assert sorted(after["spikes"][places]) == np.flatnonzero(bits).tolist(), config.decisions
        assert (np.delete(after["spikes"], places) == 85).all()  # as it was


def test_the_neurons_of_the_family_are_those_of_the_simulator() -> None:
    arguments = dict(zip(UPDATE.argument_names, UPDATE.own_arguments(UPDATE.workload(n=64)), strict=True))
    said = {name: int(arguments[name]) for name in ("threshold", "drive", "leak_shift", "period")}
    assert LifNeurons(**said) == LifNeurons()


def launch(family: CudaFamily, workload: Workload, settings: Mapping[str, Any]) -> Launch:
    (config,) = drawn(family, workload, settings, 1)
    return launch_of(family, workload, config)


class Kernels:
    """Steps of a network by both kernels, as a program that calls them does it."""

    def __init__(self, emulator: Emulator, network: Network, delivery: Mapping[str, Any]) -> None:
        self._emulator = emulator
        size, delays = network.size, network.longest_delay
        mean_degree = len(network.words) // size
        self._update = launch(UPDATE, UPDATE.workload(n=size, r=3000), {"aggregation": "warp"})
        self._deliver = launch(DELIVERY, DELIVERY.workload(n=size, c=mean_degree, r=3000, d=delays), delivery)
        outgoing, incoming = network.sorted(), network.transposed()
        self.arrays: dict[str, NDArray[Any]] = {
            "current": np.zeros((delays + 1, size), np.int32),
            "spikes": np.zeros(size, np.int32),
            "row_starts": network.row_starts,
            "outgoing": outgoing.words,
            "outgoing_drawn": network.words,
            "column_starts": incoming.row_starts,
            "incoming": incoming.words,
            "spiking": np.zeros(-(-size // 32), np.uint32),
        }

    def step(self, state: LifState, step: int) -> LifState:
        slots = self.arrays["current"].copy()
        now = step % len(slots)
        neurons = LifNeurons()
        given = {
            "voltage": state.voltage,
            "refractory": state.refractory,
            "current": slots[now],
            "cleared": slots[now - 1],
            "count": np.zeros(1, np.uint32),
            "spikes": self.arrays["spikes"],
            "spiking": self.arrays["spiking"],
            "next_voltage": np.zeros_like(state.voltage),
            "next_refractory": np.zeros_like(state.refractory),
            **{
                name: np.int32(getattr(neurons, name))
                for name in ("threshold", "drive", "leak_shift", "period")
            },
        }
        updated = self._run(UPDATE, self._update, given)
        slots[now - 1] = updated["cleared"]
        self.arrays |= {"current": slots, "spikes": updated["spikes"], "spiking": updated["spiking"]}
        counted = {"count": updated["count"].view(np.int32), "now": np.array(now, np.int32)}
        delivered = self._run(DELIVERY, self._deliver, {**self.arrays, **counted})
        self.arrays["current"] = delivered["current"]
        return LifState(updated["next_voltage"], updated["next_refractory"])

    def _run(self, family: CudaFamily, launch: Launch, given: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        names = family.argument_names
        left = self._emulator.run(family.source, launch, [np.asarray(given[name]) for name in names])
        return dict(zip(names, left, strict=True))


@pytest.mark.parametrize("kind", ["push", "scan", "pull"])
def test_kernels_end_where_the_simulator_does(kind: str, emulator: Emulator) -> None:
    rng = np.random.default_rng(5)
    network = draw_network(96, 12, 2, rng)
    voltage = rng.integers(3000, 4096, size=96, dtype=np.int32)
    start = state = LifState(voltage, np.zeros(96, np.uint8))
    kernels = Kernels(emulator, network, KINDS[kind])
    steps = 7  # more than twice around the ring
    expected = simulate(network, steps, state=start)
    for step in range(steps):
        state = kernels.step(state, step)
        assert np.array_equal(kernels.arrays["spiking"], mask_of(expected.spiked[step]))
    assert np.array_equal(state.voltage, expected.state.voltage)
    assert np.array_equal(state.refractory, expected.state.refractory)
    # The slot that the last step read is cleared by the next one.
    others = [slot for slot in range(3) if slot != (steps - 1) % 3]
    assert np.array_equal(kernels.arrays["current"][others], expected.current[others])
    assert expected.spiked.any(axis=1).sum() >= 4
    assert expected.current.any()


BREAKS = [
    pytest.param("push", "position >= begin && ", "", id="a vector's synapses of the neuron before"),
    pytest.param("push", "slot < SLOTS ? slot", "slot <= SLOTS ? slot", id="a slot behind the ring"),
    pytest.param("push", "static_cast<signed char>", "", id="weights without a sign"),
    pytest.param("push", "i += step", "i += step + 1", id="spikes left out"),
    pytest.param("push, added up in shared memory", "shared[i] = 0;", "", id="sums that start anywhere"),
    pytest.param("scan", "bits &= bits - 1", "bits = 0", id="the first spike of a word only"),
    pytest.param("pull", "source % 32 & 1", "source % 31 & 1", id="another neuron's spike"),
    pytest.param(
        "pull", "inside ? column_starts[neuron + 1] : 0", "column_starts[neuron + 1]", id="behind the last"
    ),
    pytest.param("pull", "distance = group_size / 2", "distance = group_size / 4", id="half a group added"),
    pytest.param(
        "pull with the bitmask in shared memory",
        "__syncthreads();\n    }\n    const unsigned int* const bits",
        "}\n    const unsigned int* const bits",
        id="reads bits that others have yet to copy",
    ),
]


@pytest.mark.parametrize(("kind", "old", "new"), BREAKS)
def test_a_broken_delivery_is_noticed(kind: str, old: str, new: str, emulator: Emulator) -> None:
    workload = DELIVERY.workload(**ODD)
    assert DELIVERY.source.count(old) == 1
    settings = {**KINDS[kind], "load_width": 2, "block_size": 64, "items": 8, "group_size": 8}
    (config,) = drawn(DELIVERY, workload, settings, 1)
    assert_noticed(emulator, DELIVERY, DELIVERY.source.replace(old, new), workload, config)


@pytest.mark.parametrize(
    ("aggregation", "old", "new"),
    [
        pytest.param("warp", "before >> leak_shift", "before / (1 << leak_shift)", id="rounds towards zero"),
        pytest.param("warp", "wait || spikes_now ? 0", "spikes_now ? 0", id="integrates while it waits"),
        pytest.param(
            "warp", "bits <<= threadIdx.x % LANES_PER_WORD * load_width;", "", id="bits of another neuron"
        ),
        pytest.param("block", "if (threadIdx.x == 0) of_block = 0;", "", id="a count that starts anywhere"),
        pytest.param("thread", "atomicAdd(count, 1u)", "(*count)", id="not counted"),
    ],
)
def test_a_broken_update_is_noticed(aggregation: str, old: str, new: str, emulator: Emulator) -> None:
    workload = UPDATE.workload(n=1504, r=9000)
    assert UPDATE.source.count(old) == 1
    settings = {"aggregation": aggregation, "load_width": 2, "block_size": 64, "items": 2}
    (config,) = drawn(UPDATE, workload, settings, 1)
    assert_noticed(emulator, UPDATE, UPDATE.source.replace(old, new), workload, config)


RIGHT: list[Config] = []  # what was seen to be right as it is


def assert_noticed(
    emulator: Emulator, family: CudaFamily, broken: str, workload: Workload, config: Config
) -> None:
    if config not in RIGHT:
        assert error_of(emulator, family.source, family, workload, config) == 0
        RIGHT.append(config)
    try:
        assert error_of(emulator, broken, family, workload, config) > 0
    except EmulationError:
        return


@pytest.mark.parametrize("dims", [ODD, {"n": 5000, "c": 30, "r": 20_000, "d": 2}])
def test_facts_are_those_of_the_data(dims: dict[str, int]) -> None:
    given = dict(zip(DELIVERY.argument_names, DELIVERY.own_arguments(DELIVERY.workload(**dims)), strict=True))
    facts = DELIVERY.fixed(dims)
    spikes = given["spikes"][: int(given["count"][0])]
    bits = np.unpackbits(given["spiking"].view(np.uint8), bitorder="little")
    assert len(spikes) == facts["spikes"]
    assert sorted(spikes) == np.flatnonzero(bits).tolist()
    degrees = np.diff(given["row_starts"])
    assert facts["additions"] == pytest.approx(degrees[spikes].sum(), rel=0.03)
    delivered = np.concatenate(
        [given["outgoing"][given["row_starts"][i] : given["row_starts"][i + 1]] for i in spikes]
    )
    sums = np.unique((delivered >> 28).astype(int) * dims["n"] + (delivered >> 8 & 0xFFFFF))
    assert facts["addresses"] == pytest.approx(len(sums), rel=0.03)
    assert facts["sectors"] == pytest.approx(len(np.unique(sums // 8)), rel=0.03)


def imbalance(family: CudaFamily, workload: Workload, **settings: Any) -> NDArray[np.float64]:
    """Bytes of the busiest block over those of a mean one."""
    configs = drawn(family, workload, settings, 200)
    said = family.space(workload).launches(ConfigBatch.from_configs(workload, configs))
    moved = said["global_load_bytes"] + said["global_store_bytes"]
    return (said["busiest_block_bytes"] * said["blocks"] / moved).ravel()


@pytest.mark.parametrize(
    ("settings", "loads"),
    [
        # A list of 1,000 spikes for 1,000 groups: the spike, where its synapses begin, four rounds of 8 x 4.
        ({"variant": "push", "group_size": 8, "items": 1, "load_width": 4, "loads": 1}, 1 + 1 + 1 + 4),
        ({"variant": "push", "group_size": 8, "items": 1, "load_width": 4, "loads": 4}, 1 + 1 + 1 + 1),
        # As many groups as neurons: where the synapses begin, and 13 rounds with a look at the mask each.
        (
            {"variant": "pull", "group_size": 8, "items": 1, "load_width": 1, "loads": 1, "shared_mask": 0},
            1 + 2 * 13,
        ),
    ],
)
def test_a_chain_is_the_rounds_of_a_group(settings: dict[str, Any], loads: int) -> None:
    workload = DELIVERY.workload(n=100_000, c=100, r=1000, d=4)
    (config,) = drawn(DELIVERY, workload, {**settings, "shared_sums": 0}, 1)
    said = DELIVERY.space(workload).launches(ConfigBatch.from_configs(workload, [config]))
    assert said["longest_chain"].item() == loads


def test_blocks_that_find_spikes_themselves_are_the_least_balanced() -> None:
    workload = DELIVERY.workload(n=100_000, c=100, r=1000, d=4)
    found = {kind: imbalance(DELIVERY, workload, variant=kind) for kind in ("push", "scan", "pull")}
    assert min(each.min() for each in found.values()) > 0.99
    assert all(np.median(found[kind]) < 1.1 for kind in ("push", "pull"))
    assert np.median(found["scan"]) > 1.3
    assert imbalance(UPDATE, UPDATE.workload(), aggregation="warp") == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("dims", [{"n": 2_000_000, "c": 10}, {"n": 1_000_000, "c": 2500}, {"d": 17}])
def test_a_network_too_large_for_the_kernels_is_refused_with_the_reason(dims: dict[str, int]) -> None:
    with pytest.raises(CostModelError, match=r"A network must have|The longest delay must be"):
        DELIVERY.space(DELIVERY.workload(**dims))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state:UserWarning")
@pytest.mark.parametrize("dims", [ODD, {"n": 64, "c": 5, "r": 1, "d": 1}])
def test_what_pytorch_calls_gives_the_reference(dims: dict[str, int], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from costmodel.kernels.library._source import load_call

    source, workload = LibrarySource(), DELIVERY.workload(**dims)
    space = source.space(workload, "cuda")
    assert [config.decisions["call"] for config in space.starts] == ["spmv", "index_add"]
    (wanted,) = source.reference(workload) or []
    for config in space.starts:
        built = source.build(space.candidate(config), "cuda", "sm_90", tmp_path)
        assert built.library, built.error
        call = load_call(built.library)
        tensors = [torch.from_numpy(np.array(array)) for array in source.arguments(workload)]
        for _ in range(2):  # what is prepared is used again
            assert np.array_equal(call(tensors).numpy(), wanted)
