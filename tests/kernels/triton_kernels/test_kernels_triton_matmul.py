"""The families of matrix products: configs that agree with the reference, and facts of launches."""

from pathlib import Path

import numpy as np
import pytest
from shipped_family import SOURCE, assert_right, drawn, shared_bytes

from costmodel.records import Config, Workload
from costmodel.records._candidate import KernelLaunch

pytestmark = pytest.mark.white_box

PLAIN = {
    **{"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 1, "PROGRAMS": 0, "SPLIT_K": 1},
    **{"num_warps": 2, "num_stages": 2},
}
SPLIT = {**PLAIN, "SPLIT_K": 4}
GROUPED = {**PLAIN, "BLOCK_M": 16, "BLOCK_N": 64, "GROUP_M": 8}
PERSISTENT = {**GROUPED, "PROGRAMS": 8}


@pytest.mark.triton
@pytest.mark.parametrize("name", ["m96-n64-k128-float16", "m83-n75-k133-float16", "m83-n75-k133"])
def test_tiles_of_any_size_agree_with_the_reference(name: str) -> None:
    assert_right(f"matmul-{name}", PLAIN, GROUPED, {**SPLIT, "SPLIT_K": 2})


@pytest.mark.triton
def test_a_tile_may_have_more_rows_than_there_are() -> None:
    assert_right(
        "matmul-m5-n33-k97-float16", {**GROUPED, "GROUP_M": 1}, {**GROUPED, "GROUP_M": 1, "SPLIT_K": 4}
    )


@pytest.mark.triton
@pytest.mark.parametrize(
    "kind", ["matmul_bias_add_relu", "matmul_silu_mul", "matmul_bias_gelu", "matmul_bias_relu6", "matmul_mul"]
)
def test_each_step_of_an_epilogue_follows_the_whole_sum(kind: str) -> None:
    assert_right(f"{kind}-m40-n51-k128-float16", PLAIN, SPLIT)


@pytest.mark.triton
def test_each_matrix_of_a_batch_is_multiplied() -> None:
    assert_right("batch_matmul_bias_add-b3-m70-n51-k128", PLAIN, SPLIT, GROUPED)


@pytest.mark.triton
@pytest.mark.parametrize("name", ["matmul-m83-n75-k133-float16", "batch_matmul_bias_gelu-b3-m70-n51-k128"])
def test_programs_that_walk_over_tiles_leave_none_out(name: str) -> None:
    assert_right(name, PERSISTENT, {**PERSISTENT, "BLOCK_K": 64})


@pytest.mark.triton
@pytest.mark.parametrize(
    "name",
    [
        "matmul-m1024-n1024-k1024-float16",
        "matmul-m1024-n1024-k1024",
        "batch_matmul-b12-m128-n128-k64-float16",
    ],
)
def test_shared_memory_is_known_before_a_build(name: str, tmp_path: Path) -> None:
    candidates = drawn(name, 6)
    stated = np.array([candidate.launches[0].shared_bytes for candidate in candidates])
    found = np.array([shared_bytes(candidate, tmp_path) for candidate in candidates])
    np.testing.assert_allclose(stated, found, rtol=0.6)
    assert np.median(np.abs(stated / found - 1)) == 0


def test_float16_goes_through_tensor_cores_and_float32_does_not() -> None:
    half, single = (drawn(f"matmul-m1024-n1024-k1024-{dtype}", 1)[0] for dtype in ("float16", "float32"))
    assert half.launches[0].tensor_flops == half.launches[0].flops == 2 * 1024**3
    assert (single.launches[0].tensor_flops, single.launches[0].flops) == (0, 2 * 1024**3)


def test_a_launch_says_what_it_moves() -> None:
    def launch(**changed: int) -> KernelLaunch:
        space = SOURCE.space(Workload.parse("matmul-m64-n96-k256-float16"), "cuda")
        return space.candidate(Config({**PLAIN, **changed})).launches[0]

    loads, stores = 2 * 256 * (64 * 3 + 96 * 2), 2 * 64 * 96
    plain, split = launch(), launch(SPLIT_K=4)
    assert (plain.blocks, plain.threads_per_block) == (2 * 3, 64)
    assert (plain.global_load_bytes, plain.global_store_bytes) == (loads, stores)
    assert plain.shared_store_bytes == loads  # all sizes are multiples of tiles
    partial = 4 * 4 * 64 * 96
    assert split.blocks == 4 * plain.blocks
    assert (split.global_load_bytes, split.global_store_bytes) == (loads + partial, stores + partial)


@pytest.mark.parametrize(
    ("rows", "warps", "row_reads", "column_reads"),
    [
        (64, 4, 1, 1),  # one group has all rows
        (128, 4, 1, 2),  # and multiplies twice for 128
        (64, 8, 2, 1),  # two groups share the columns
        (128, 8, 1, 2),  # two groups share the rows
        (16, 4, 4, 1),  # warps on their own share columns
        (32, 2, 2, 1),
        (64, 2, 1, 2),  # too few for a group: each has 32 rows
    ],
)
def test_operands_are_read_from_shared_memory_as_often_as_warps_need_them(
    rows: int, warps: int, row_reads: int, column_reads: int
) -> None:
    space = SOURCE.space(Workload.parse("matmul-m256-n128-k512-float16"), "cuda")
    config = {**PLAIN, "BLOCK_M": rows, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": warps}
    launch = space.candidate(Config(config)).launches[0]
    each_step = 2 * 64 * (rows * row_reads + 64 * column_reads)
    assert launch.shared_load_bytes == (256 // rows * 128 // 64) * (512 // 64) * each_step
    assert launch.unroll_steps == 512 // 64


def test_a_persistent_launch_says_how_many_tiles_a_program_has() -> None:
    space = SOURCE.space(Workload.parse("matmul-m256-n128-k512-float16"), "cuda")
    config = {**PLAIN, "BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 2}
    tiles = {
        programs: space.candidate(Config({**config, "PROGRAMS": programs})).launches[0].vthreads
        for programs in (0, 8, 16)
    }
    assert tiles == {0: 1, 8: 4, 16: 2}
