"""Launches estimated from decisions beside those of lowered programs, which TVM worked out in another way."""

from collections import Counter, defaultdict

import msgspec
import numpy as np
import pytest
from recorded_kernels import FIELDS, recorded_candidates

from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.kernels.metaschedule._tiles import epilogue_costs
from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import ConfigBatch, config_batches

pytestmark = pytest.mark.white_box

MERGED = "shared_bytes"  # of Tensor Core sketches: buffers that TVM merges


def sketch_of(batch: ConfigBatch) -> str:
    kinds = {name.partition(".")[0] for name in batch.decisions}
    return "tensor" if "tensor_tile" in kinds else "tiled" if "tile" in kinds else "rows"


def estimates_of(batch: ConfigBatch) -> np.ndarray:
    """``(n, l, fields)``."""
    return np.stack([estimate_launches(batch)[field] for field in FIELDS], axis=-1)


def recorded_of(candidates: list[Candidate]) -> np.ndarray:
    """``(n, l, fields)``."""
    return np.array([[msgspec.structs.astuple(launch) for launch in c.launches] for c in candidates])


@pytest.fixture(scope="module")
def shares() -> dict[tuple[str, str, str, str], float]:
    """Share of exact values for each (anchor, dtype, sketch, field) of the shipped datasets."""
    candidates = recorded_candidates()
    exact: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for rows, batch in config_batches(candidates):
        estimated, recorded = estimates_of(batch), recorded_of([candidates[i] for i in rows])
        assert estimated.shape == recorded.shape, batch.workload.name
        key = (batch.workload.operator.anchor, batch.workload.dtype, sketch_of(batch))
        exact[key]["candidates"] += batch.size
        for i, field in enumerate(FIELDS):
            exact[key][field] += int((estimated[:, :, i] == recorded[:, :, i]).all(axis=1).sum())
    return {
        (*key, field): counts[field] / counts["candidates"]
        for key, counts in exact.items()
        for field in FIELDS
    }


def test_every_anchor_is_recorded(shares) -> None:
    assert {anchor for anchor, *_ in shares} == {
        *("matmul", "batch_matmul", "conv2d", "conv2d_nhwc", "depthwise_conv2d", "depthwise_conv2d_nhwc"),
        *("softmax", "layer_norm", "rms_norm"),
    }


@pytest.mark.parametrize("field", FIELDS)
def test_every_value_is_that_of_the_lowered_program(shares, field) -> None:
    table = {
        (anchor, dtype, sketch): share
        for (anchor, dtype, sketch, each), share in shares.items()
        if each == field and (field, sketch) != (MERGED, "tensor")
    }
    assert len(table) > 10
    assert {key: share for key, share in table.items() if share < 1.0} == {}


def test_merged_shared_memory_is_exact_but_for_a_thirtieth(shares) -> None:
    tensor = {key: share for key, share in shares.items() if key[2:] == ("tensor", MERGED)}
    assert len(tensor) == 3
    assert min(tensor.values()) >= 29 / 30


# One config of each anchor, worked out by hand.
TILES = {
    "matmul-m8-n12-k10": ("i j k", ((2, 1, 2, 2, 1), (3, 2, 2, 1, 1), (5, 1, 2)), (4 * 2, 2 * 4)),
    "batch_matmul-b4-m4-n6-k9": (
        "n i j k",
        ((2, 1, 1, 1, 2), (1, 2, 2, 1, 1), (2, 1, 3, 1, 1), (3, 3, 1)),
        (2 * 4 * 3, 2 * 3 * 3),
    ),
    "conv2d-n1-c4-h8-w8-o6-k3-s2": (
        "nn ff yy xx rc ry rx",
        ((1, 1, 1, 1, 1), (2, 1, 3, 1, 1), (2, 1, 1, 2, 1), (1, 1, 4, 1, 1), (2, 1, 2), (1, 3, 1), (3, 1, 1)),
        (2 * (2 * 1 + 3) * (2 * 3 + 1), 3 * 2 * 3 * 1),
    ),
    "conv2d_nhwc-n1-c4-h8-w8-o6-k3-s1": (
        "nn yy xx ff ry rx rc",
        ((1, 1, 1, 1, 1), (2, 1, 4, 1, 1), (4, 1, 2, 1, 1), (2, 1, 1, 3, 1), (1, 1, 3), (3, 1, 1), (4, 1, 1)),
        ((4 + 2) * 2 * 1, 3 * 1 * 1 * 3),
    ),
    "depthwise_conv2d-n2-c4-h6-w6-k3-s1": (
        "b c i j di dj",
        ((2, 1, 1, 1, 1), (2, 1, 2, 1, 1), (3, 1, 2, 1, 1), (1, 1, 6, 1, 1), (1, 3, 1), (1, 1, 3)),
        (2 * (2 + 2) * (6 + 2), 2 * 3 * 3),
    ),
    "depthwise_conv2d_nhwc-n1-c4-h8-w8-k5-s2": (
        "b i j c di dj",
        ((1, 1, 1, 1, 1), (2, 1, 2, 1, 1), (4, 1, 1, 1, 1), (1, 1, 4, 1, 1), (1, 5, 1), (5, 1, 1)),
        ((2 * 1 + 5) * 1 * 4, 5 * 1 * 4),
    ),
}


@pytest.mark.parametrize("name", TILES)
def test_a_block_stages_the_box_that_each_operand_needs(name) -> None:
    loops, tiles, boxes = TILES[name]
    decisions = {f"tile.X.{loop}": tile for loop, tile in zip(loops.split(), tiles, strict=True)}
    fetches = {"cooperative_fetch.a": 1, "cooperative_fetch.b": 1}
    launch = estimate_launches(
        ConfigBatch.from_configs(Workload.parse(name), [Config({"sketch": 1, **decisions, **fetches})])
    )
    assert launch["shared_bytes"] == 4 * 3 * sum(boxes)  # a pipeline of three steps
    threads = launch["threads_per_block"].item()
    copied = sum(-(-box // threads) * threads for box in boxes)
    steps = np.prod([tile[0] for tile in tiles if len(tile) == 3])
    assert launch["global_load_bytes"] == 4 * launch["blocks"] * launch["vthreads"] * steps * copied


def test_masked_threads_and_vectors_that_do_not_fit_count_as_the_program_runs_them() -> None:
    tiles = {"tile.C.i": (1, 1, 8, 1, 1), "tile.C.j": (1, 1, 8, 1, 1), "tile.C.k": (3, 1, 1)}
    fetches = {"cooperative_fetch.A_shared": 4, "cooperative_fetch.B_shared": 3}
    config = Config({"sketch": 0, **tiles, **fetches, "unroll_explicit.root": 16})
    launch = estimate_launches(ConfigBatch.from_configs(Workload.parse("matmul-m8-n8-k3"), [config]))
    # 8 elements of A in vectors of 4 by 64 threads, of which two have work; 8 of B one by one.
    assert launch["global_load_bytes"] == 3 * 4 * (64 * 4 + 64)
    assert (launch["vector_bytes"], launch["unroll_steps"]) == (16, 16)


@pytest.mark.parametrize(
    ("epilogue", "costs"),
    [
        ("", (0, 0, 1)),
        ("_bias_relu", (2, 1, 1)),
        ("_bias_add_relu", (3, 2, 1)),
        ("_bias_relu6", (3, 1, 1)),
        ("_bias_gelu", (2 * 1 + 5, 2, 2)),  # gelu reads its value twice, and bias is added both times
        ("_silu_mul", (5, 1, 2)),
    ],
)
def test_inlined_steps_repeat_what_is_inlined_into_them(epilogue, costs) -> None:
    assert epilogue_costs(Workload.parse(f"matmul{epilogue}-m4-n4-k4")) == costs


@pytest.mark.parametrize(
    ("name", "decisions"),
    [
        ("matmul-m8-n8-k8", {"tile.C.i": (2, 2, 2, 1), "tile.C.j": (8, 1, 1, 1), "tile.C.k": (4, 2)}),
        ("matmul-m8-n8-k8", {"tile.C.i": (2, 2, 2, 1, 1)}),
        ("softmax-m128-n64", {"sketch": 3, "unroll_explicit.root": 64}),
        ("softmax-m128-n64", {"split.T_softmax_norm": 64}),
    ],
)
def test_decisions_that_tell_no_launches_give_nan(name, decisions) -> None:
    launches = estimate_launches(ConfigBatch.from_configs(Workload.parse(name), [Config(decisions)]))
    assert set(launches) == set(FIELDS)
    assert all(np.isnan(values).all() and values.shape == (1, 1) for values in launches.values())
