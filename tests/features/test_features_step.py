"""Columns of a step: both operands apart, and the sides of what a block and a thread multiply."""

import math

import numpy as np
import pytest
from recorded_kernels import recorded_candidates

from costmodel.features import extract
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.kernels.metaschedule._tiled_launch import step_of
from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import ConfigBatch, config_batches
from costmodel.testing import landscape_platform

pytestmark = pytest.mark.white_box

NAMES = (
    *("log2_first_staged_bytes", "log2_second_staged_bytes"),
    *("first_vector_width", "second_vector_width", "result_vector_width"),
    *("staged_copies", "on_tensor_cores", "second_by_columns"),
    *("log2_block_rows", "log2_block_columns", "log2_block_depth"),
    *("log2_inner_rows", "log2_inner_columns", "log2_inner_depth"),
)


def step_columns(workload: str, **decisions: object) -> dict[str, float]:
    named = {name.replace("__", "."): value for name, value in decisions.items()}
    candidate = Candidate(Workload.parse(workload), "test", Config(named))
    table = extract([candidate], [landscape_platform(132)])
    row = dict(zip([column.name for column in table.columns], table.values[0].tolist(), strict=True))
    return {name: 2.0 ** row[name] if name.startswith("log2_") else row[name] for name in NAMES}


def test_columns_of_a_tiled_step_tell_both_operands_apart() -> None:
    row = step_columns(
        "matmul-m64-n96-k128",
        sketch=1,
        tile__C__i=(2, 2, 4, 2, 2),
        tile__C__j=(2, 1, 8, 2, 3),
        tile__C__k=(16, 4, 2),
        cooperative_fetch__A=4,
        cooperative_fetch__B=1,
        unroll_explicit__C=16,
    )
    # A block has 32 rows and 48 columns, in steps of 8; a thread 4 x 6 of them, virtual threads left out.
    assert (row["log2_first_staged_bytes"], row["log2_second_staged_bytes"]) == pytest.approx((1024, 1536))
    assert [row[f"{name}_vector_width"] for name in ("first", "second", "result")] == [4, 1, 1]
    assert (row["staged_copies"], row["on_tensor_cores"], row["second_by_columns"]) == (3, 0, 0)
    assert [row[f"log2_block_{side}"] for side in ("rows", "columns", "depth")] == pytest.approx([32, 48, 8])
    assert [row[f"log2_inner_{side}"] for side in ("rows", "columns", "depth")] == pytest.approx([4, 6, 2])


@pytest.mark.parametrize(("sketch", "by_columns"), [(3, 1.0), (4, 0.0)])
def test_columns_of_a_step_on_tensor_cores(sketch, by_columns) -> None:
    row = step_columns(
        "matmul-m256-n512-k128-float16",
        sketch=sketch,
        tensor_tile__C__m=(2, 2, 2, 1, 2),
        tensor_tile__C__n=(4, 2, 1, 4, 1),
        tensor_tile__C__k=(2, 2, 2),
        cooperative_fetch__C_reindex=2,
        cooperative_fetch__A_reindex=8,
        cooperative_fetch__B_reindex=4,
        unroll_explicit__root=0,
    )
    assert (row["log2_first_staged_bytes"], row["log2_second_staged_bytes"]) == (2 * 64 * 64, 2 * 64 * 64)
    assert [row[f"{name}_vector_width"] for name in ("first", "second", "result")] == [8, 4, 2]
    assert (row["staged_copies"], row["on_tensor_cores"], row["second_by_columns"]) == (1, 1, by_columns)
    assert [row[f"log2_block_{side}"] for side in ("rows", "columns", "depth")] == [64, 64, 64]
    assert [row[f"log2_inner_{side}"] for side in ("rows", "columns", "depth")] == [32, 64, 32]


def test_a_loop_of_both_operands_is_neither_rows_nor_columns() -> None:
    row = step_columns(
        "depthwise_conv2d-n1-c8-h8-w8-k3-s1",
        sketch=0,
        tile__X__b=(1, 1, 1, 1, 1),
        tile__X__c=(2, 1, 2, 2, 1),
        tile__X__i=(2, 1, 4, 1, 1),
        tile__X__j=(4, 1, 1, 2, 1),
        tile__X__di=(1, 3, 1),
        tile__X__dj=(1, 1, 3),
        cooperative_fetch__a=4,
        cooperative_fetch__b=4,
        unroll_explicit__root=0,
    )
    # Channels index input and filter; the input's box has a halo of two.
    assert [row[f"log2_block_{side}"] for side in ("rows", "columns", "depth")] == pytest.approx([8, 1, 9])
    assert row["log2_first_staged_bytes"] == pytest.approx(4 * 4 * (4 + 2) * (2 + 2))
    assert row["log2_second_staged_bytes"] == pytest.approx(4 * 4 * 9)
    # Vectors of four fit 96 elements of the input, and 36 of the filter.
    assert (row["first_vector_width"], row["second_vector_width"]) == (4, 4)


def test_vectors_that_do_not_divide_a_box_are_given_up() -> None:
    tiles = {"tile.C.i": (1, 1, 8, 1, 1), "tile.C.j": (1, 1, 8, 1, 1), "tile.C.k": (3, 1, 1)}
    fetches = {"cooperative_fetch.A_shared": 4, "cooperative_fetch.B_shared": 3}
    config = Config({"sketch": 0, **tiles, **fetches, "unroll_explicit.root": 16})
    step = step_of(ConfigBatch.from_configs(Workload.parse("matmul-m8-n8-k3"), [config]))
    assert step is not None
    assert [lanes.item() for lanes in step.lanes] == [4, 1, 1]


def test_a_row_reduction_has_no_step() -> None:
    row = step_columns("softmax-m128-n64", sketch=3, split__T_softmax_norm=64, unroll_explicit__root=64)
    assert all(math.isnan(value) for value in row.values())


def test_a_step_agrees_with_its_launch() -> None:
    """Both are counted from the same decisions, by code of their own."""
    checked = 0
    for _, batch in config_batches(recorded_candidates()[::97]):
        step, launch = step_of(batch), estimate_launches(batch)
        if step is None:
            continue
        checked += batch.size
        size = 2.0 if batch.workload.dtype == "float16" else 4.0
        widest = np.maximum.reduce(step.lanes) * size
        np.testing.assert_array_equal(widest, launch["vector_bytes"][:, 0])
        if not step.on_tensor_cores.any():
            staged = step.copies * sum(step.staged_bytes)
            np.testing.assert_array_equal(staged, launch["shared_bytes"][:, 0])
    assert checked > 50
