"""Kernels of embedding bags, run exactly on the CPU in every way to share the work; facts of their data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator import EmulationError, Emulator
from numpy.typing import NDArray
from test_kernels_cuda_families import FAMILIES, error_of, launch_of

from costmodel.irregular import Bags, Histogram
from costmodel.kernels import CudaFamily
from costmodel.kernels._reference import agrees
from costmodel.kernels.library._source import LibrarySource
from costmodel.records import Config, Workload
from costmodel.records._candidate import ConfigBatch

pytestmark = pytest.mark.white_box

FORWARD, BACKWARD = FAMILIES["embedding_bag"], FAMILIES["embedding_bag_backward"]
SKEWED = {"h": 96, "w": 96, "x": 96, "y": 300, "z": 600}
ODD = {"r": 400, "d": 18, "b": 41, "l": 9, "v": 3, **SKEWED}  # with empty bags
MANY = {"r": 400, "d": 36, "b": 700, "l": 2, "v": 4, **SKEWED}  # for blocks that take turns
ONE_ROW = {"r": 1, "d": 3, "b": 1, "l": 1, "v": 1, "h": 1001, "w": 1001, "x": 1001, "y": 1001, "z": 1001}

Settings = Mapping[str, Any]
FORWARD_KINDS: Mapping[str, tuple[Settings, dict[str, int]]] = {
    "one group a bag": ({"row_groups": 1, "staged_lookups": 0}, ODD),
    "groups in a warp": ({"threads_per_row": 8, "row_groups": 4, "staged_lookups": 0}, ODD),
    "groups beyond a warp": ({"threads_per_row": 8, "row_groups": 8, "staged_lookups": 0}, ODD),
    "staged": ({"row_groups": 1, "staged_lookups": 128, "bags_per_block": 32}, ODD),
    "staged for groups beyond a warp": ({"row_groups": 16, "staged_lookups": 128}, ODD),
    "in turns": ({"grid_blocks": 264, "row_groups": 1, "staged_lookups": 0}, MANY),
    "in turns, staged": ({"grid_blocks": 264, "staged_lookups": 128}, MANY),
    "in turns beyond a warp": ({"grid_blocks": 264, "row_groups": 2, "threads_per_row": 32}, MANY),
    "one row": ({}, ONE_ROW),
}
BACKWARD_KINDS: Mapping[str, tuple[Settings, dict[str, int]]] = {
    "by lookup": ({"variant": "by_lookup"}, ODD),
    "by run": ({"variant": "by_run"}, ODD),
    "by long run": ({"variant": "by_run", "lookups_per_group": 64}, ODD),
    "by segment": ({"variant": "by_segment"}, ODD),
    "by segment of others": ({"variant": "by_segment", "lookups_per_group": 1, "in_flight": 8}, ODD),
    "in turns": ({"grid_blocks": 264}, MANY),
    "one row": ({"variant": "by_segment"}, ONE_ROW),
}
KINDS = [
    pytest.param(family, *case, id=f"{family.name}: {kind}")
    for family, kinds in ((FORWARD, FORWARD_KINDS), (BACKWARD, BACKWARD_KINDS))
    for kind, case in kinds.items()
]


def drawn(family: CudaFamily, workload: Workload, settings: Settings, count: int) -> list[Config]:
    """Random configs with some parameters as given."""
    space = family.space(workload)
    batch = space.draw(0, space.count or 0, np.random.default_rng(0))
    fits = np.full(batch.size, True)
    for name, value in settings.items():
        fits &= batch.decisions[name] == value
    assert fits.sum() >= count
    columns = {name: column[fits][:count] for name, column in batch.decisions.items()}
    return ConfigBatch(workload, count, columns).configs()


@pytest.mark.parametrize(("family", "settings", "dims"), KINDS)
def test_every_way_to_share_the_work_gives_the_reference(
    family: CudaFamily, settings: Settings, dims: dict[str, int], emulator: Emulator
) -> None:
    workload = family.workload(**dims)
    (config,) = drawn(family, workload, settings, 1)
    assert error_of(emulator, family.source, family, workload, config) <= 1, config.decisions


def inputs(family: CudaFamily, dims: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    arguments = family.own_arguments(family.workload(**dims))
    return dict(zip(family.argument_names, arguments, strict=True))


def test_a_bag_without_lookups_gives_zeros_and_a_row_without_any_keeps_its_gradient(
    emulator: Emulator,
) -> None:
    offsets = inputs(FORWARD, ODD)["offsets"]
    (reference,) = FORWARD.own_reference(FORWARD.workload(**ODD)) or []
    empty = np.flatnonzero(np.diff(offsets) == 0)
    assert empty.size
    assert not reference.reshape(41, 18)[empty].any()
    arguments, workload = inputs(BACKWARD, ODD), BACKWARD.workload(**ODD)
    arguments["gradient"][:] = 7
    untouched = np.setdiff1d(np.arange(400), arguments["indices"])
    assert untouched.size
    for variant in BACKWARD.choices["variant"]:
        (config,) = drawn(BACKWARD, workload, {"variant": variant}, 1)
        launch = launch_of(BACKWARD, workload, config)
        gradient, *_ = emulator.run(BACKWARD.source, launch, list(arguments.values()))
        assert (gradient.reshape(400, 18)[untouched] == 7).all()


BREAKS = [
    pytest.param(FORWARD, "staged", "(begin - first, 0)", "(0, 0)", id="what others' bags have staged"),
    pytest.param(FORWARD, "staged", "end - first, count", "count, count", id="beyond the end of a bag"),
    pytest.param(FORWARD, "groups in a warp", "if (WARP_GROUPS > 1)", "if (0)", id="groups not added up"),
    pytest.param(
        FORWARD,
        "groups beyond a warp",
        "            __syncthreads();\n            for (int column",
        "            for (int column",
        id="sums of groups that are not there yet",
    ),
    pytest.param(
        FORWARD,
        "in turns beyond a warp",
        "if (grid_blocks > 0) __syncthreads();",
        "",
        id="sums overwritten in the next turn",
    ),
    pytest.param(
        FORWARD, "one group a bag", "lookup < end ? indices", "true ? indices", id="lookups of the next bag"
    ),
    pytest.param(FORWARD, "one group a bag", "bag < DIM_b;", "true;", id="bags behind the last"),
    pytest.param(FORWARD, "in turns", "tile += gridDim.x", "tile += TILES", id="one turn"),
    pytest.param(BACKWARD, "by run", "own_rows[i] != row", "false", id="a run of several rows"),
    pytest.param(
        BACKWARD, "by segment", "if (first == last) continue;", "", id="a segment that begins elsewhere"
    ),
    pytest.param(
        BACKWARD,
        "by segment of others",
        "(variant == by_segment ? LOOKUPS : last)",
        "last",
        id="a segment cut off",
    ),
    pytest.param(BACKWARD, "by lookup", "atomicAdd(to + j, vec", "*(to + j) = (vec", id="written, not added"),
    pytest.param(BACKWARD, "in turns", "gridDim.x * GROUPS)", "CHUNKS)", id="one turn"),
    pytest.param(BACKWARD, "by lookup", "sums[step] = Vector{};", "", id="sums that go on"),
]


@pytest.mark.parametrize(("family", "kind", "old", "new"), BREAKS)
def test_a_broken_kernel_is_noticed(
    family: CudaFamily, kind: str, old: str, new: str, emulator: Emulator
) -> None:
    assert old in family.source
    settings, dims = (FORWARD_KINDS if family is FORWARD else BACKWARD_KINDS)[kind]
    workload = family.workload(**dims)
    errors = []
    for config in drawn(family, workload, settings, 2):
        try:
            errors.append(error_of(emulator, family.source.replace(old, new), family, workload, config))
        except EmulationError:
            return
    assert not max(errors) <= 1


SAID = {"r": 200_000, "d": 16, "b": 4096, "l": 20, "v": 3, **Histogram.zipf(0.9, 200_000).dims}


def test_what_a_description_says_of_data_is_what_the_data_have() -> None:
    offsets, indices = (inputs(FORWARD, SAID)[name] for name in ("offsets", "indices"))
    facts = FORWARD.data.facts(SAID)
    assert facts["longest_bag"] == np.diff(offsets).max()
    distinct = len(np.unique(indices))
    assert facts["distinct_rows"] == pytest.approx(distinct, rel=0.02)
    assert facts["missed_rows"] == facts["distinct_rows"]  # 13 MB stay in the cache
    of_backward = BACKWARD.data.facts(SAID)
    most = np.bincount(inputs(BACKWARD, SAID)["indices"]).max()
    assert of_backward["most_lookups"] == pytest.approx(most, rel=0.05)
    assert of_backward["distinct_rows"] == facts["distinct_rows"]


@pytest.mark.parametrize("spread", [1, 2, 3, 4])
@pytest.mark.parametrize("bags_per_block", [1, 4, 32])
def test_the_busiest_block_moves_about_what_is_said(bags_per_block: int, spread: int) -> None:
    dims = {**SAID, "v": spread}
    workload = FORWARD.workload(**dims)
    (config,) = drawn(FORWARD, workload, {"bags_per_block": bags_per_block, "grid_blocks": 0}, 1)
    said = FORWARD.space(workload).launches(ConfigBatch.from_configs(workload, [config]))
    lengths, rng = Bags.of_dims(dims).lengths, np.random.default_rng(0)
    busiest = np.mean([rng.permutation(lengths).reshape(-1, bags_per_block).sum(1).max() for _ in range(20)])
    moved = busiest * (4 * 16 + 8) + bags_per_block * 4 * 16
    assert said["busiest_block_bytes"].item() == pytest.approx(moved, rel=0.25)


def test_the_longest_chain_is_that_of_the_group_with_most_lookups() -> None:
    dims = {**SAID, "v": 4}
    longest = int(Bags.of_dims(dims).lengths.max())
    assert longest > 20 * dims["l"]
    settings = {"row_groups": 1, "staged_lookups": 0, "grid_blocks": 0, "bags_per_block": 8}
    for in_flight in (1, 4):
        said = chain(FORWARD, dims, {**settings, "in_flight": in_flight})
        assert said == 1 + 2 * -(-longest // in_flight)  # its offset; an index, then a row
    rows = inputs(BACKWARD, SAID)["indices"]
    settings = {"grid_blocks": 0, "lookups_per_group": 8, "in_flight": 1}
    assert chain(BACKWARD, SAID, {**settings, "variant": "by_lookup"}) == 1 + 3 * 8
    hottest = chain(BACKWARD, SAID, {**settings, "variant": "by_segment"})
    assert hottest == pytest.approx(3 * np.bincount(rows).max(), rel=0.05)


def chain(family: CudaFamily, dims: Mapping[str, int], settings: Settings) -> int:
    """Loads that the slowest thread waits for in turn, as the family says."""
    workload = family.workload(**dims)
    (config,) = drawn(family, workload, settings, 1)
    said = family.space(workload).launches(ConfigBatch.from_configs(workload, [config]))
    return int(said["longest_chain"].item())


@pytest.mark.parametrize("variant", ["by_lookup", "by_run", "by_segment"])
def test_atomic_operations_are_those_of_the_threads(variant: str) -> None:
    workload = BACKWARD.workload(**SAID)
    (config,) = drawn(BACKWARD, workload, {"variant": variant, "threads_per_row": 4}, 1)
    said = BACKWARD.space(workload).launches(ConfigBatch.from_configs(workload, [config]))
    rows = inputs(BACKWARD, SAID)["sorted_indices"]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    chunks = np.arange(0, len(rows), config.decisions["lookups_per_group"])
    added = {"by_lookup": len(rows), "by_run": len(np.union1d(starts, chunks)), "by_segment": 0}[variant]
    per_row = 16 / config.decisions["atomic_width"]
    assert said["atomics"].item() == pytest.approx(added * per_row, rel=0.02)
    # As many as would be met as often as the busiest row is: once a lookup, or once a chunk that it is in.
    busiest = np.bincount(rows).max() if variant == "by_lookup" else _most_chunks(rows, chunks)
    addresses = added * per_row / busiest if added else 0
    assert said["atomic_addresses"].item() == pytest.approx(addresses, rel=0.2)


def _most_chunks(rows: NDArray[np.int32], chunks: NDArray[np.int64]) -> int:
    """Chunks of sorted rows that the row in most of them is in."""
    return int(np.bincount(np.concatenate([np.unique(part) for part in np.split(rows, chunks[1:])])).max())


def test_the_workload_without_dims_of_its_own_is_a_zipf_distribution() -> None:
    for family in (FORWARD, BACKWARD):
        dims = family.workload().dims
        assert Histogram.of_dims(dims) == Histogram.zipf(1.05, 1_000_000)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("family", [FORWARD, BACKWARD], ids=lambda family: family.name)
def test_what_pytorch_has_gives_the_reference(family: CudaFamily, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from costmodel.kernels.library._source import load_call

    source, workload = LibrarySource(), family.workload(**ODD)
    space = source.space(workload, "cuda")
    assert len(space.starts) == 2
    for config in space.starts:
        built = source.build(space.candidate(config), "cuda", "sm_90", tmp_path)
        assert built.library, built.error
        tensors = [torch.from_numpy(array.copy()) for array in source.arguments(workload)]
        found = load_call(built.library)(tensors).numpy().ravel()
        (reference,) = source.reference(workload) or []
        assert agrees(found, reference.ravel(), 1e-6), config.decisions
