"""What programs that nobody recognises move to and from device memory."""

from typing import Any

import pytest

pytest.importorskip("tvm")

import foreign_programs
import numpy as np
import tvm
from tvm import te, tirx

from costmodel.kernels.metaschedule.programs._space import ProgramSpace
from costmodel.kernels.metaschedule.programs._traffic import moved_share, program_launches
from costmodel.records._candidate import KernelLaunch

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

THREAD, LANE, LOOP = (tirx.Var(name, "int32") for name in ("thread", "lane", "loop"))
ROWS, COLUMNS = 256, 512
FLOAT = 4


@pytest.mark.parametrize(
    ("index", "element_bytes", "share"),
    [
        (THREAD, 4, 1.0),
        (LOOP * 4096 + THREAD, 4, 1.0),
        (THREAD, 2, 1.0),
        (THREAD * 2, 4, 2.0),
        (THREAD * 2, 2, 2.0),
        (THREAD * 8 + LOOP, 4, 8.0),
        (THREAD * 4096, 4, 8.0),
        (THREAD * 4096, 2, 16.0),
        (LOOP, 4, 0.25),
        (THREAD // 4 * 100 + THREAD % 4, 4, 2.0),
    ],
)
def test_a_warp_moves_whole_sectors(index: Any, element_bytes: int, share: float) -> None:
    """By hand: sectors of 32 bytes over the bytes that 32 threads ask for."""
    assert moved_share(index, element_bytes, [(THREAD, 32)]) == share


def test_the_lanes_of_a_vector_are_one_access() -> None:
    assert moved_share(THREAD * 4096 + LANE, 4, [(THREAD, 32), (LANE, 8)]) == 1.0
    assert moved_share(THREAD * 4096 + LANE, 4, [(THREAD, 32), (LANE, 4)]) == 2.0


def test_a_warp_that_is_not_full_asks_for_less() -> None:
    assert moved_share(THREAD, 4, [(THREAD, 4)]) == 2.0
    assert moved_share(LOOP, 4, []) == 8.0


def test_of_a_position_that_is_read_nothing_is_known() -> None:
    positions = tirx.decl_buffer((64,), "int32")
    assert moved_share(tirx.BufferLoad(positions, [THREAD]), 4, [(THREAD, 32)]) == 1.0


def launch_of(module: Any, *, is_shared: bool) -> KernelLaunch:
    """Of a reduction's kernel: by the threads of a block together, or a result by each."""
    space = ProgramSpace(module, "cuda")
    for sketch in range(len(space.sketches)):
        for config in space.draw(sketch, 16, np.random.default_rng(0)).configs():
            (launch,) = space.candidate(config).launches
            if (launch.blocks == COLUMNS) == is_shared and launch.threads_per_block >= 32:
                return launch
    raise AssertionError("There is no such kernel.")


def test_threads_along_a_column_move_a_sector_for_each_float() -> None:
    launch = launch_of(foreign_programs.column_maxima(ROWS, COLUMNS), is_shared=True)
    assert launch.global_load_bytes == 8 * ROWS * COLUMNS * FLOAT


def test_threads_that_walk_a_row_each_move_a_sector_in_each_step() -> None:
    launch = launch_of(foreign_programs.row_sums(COLUMNS, ROWS), is_shared=False)
    assert launch.global_load_bytes == 8 * ROWS * COLUMNS * FLOAT + COLUMNS * FLOAT


def test_threads_along_a_row_move_what_they_read() -> None:
    launch = launch_of(foreign_programs.row_sums(COLUMNS, ROWS), is_shared=True)
    assert launch.global_load_bytes == ROWS * COLUMNS * FLOAT


def test_a_result_that_a_loop_accumulates_into_is_read_and_written_once() -> None:
    """The identity is written before the loop, too."""
    launch = launch_of(foreign_programs.column_maxima(ROWS, COLUMNS), is_shared=False)
    assert launch.global_load_bytes == (ROWS + 1) * COLUMNS * FLOAT
    assert launch.global_store_bytes == 2 * COLUMNS * FLOAT


@pytest.mark.parametrize(("order", "times"), [("jkq", 1), ("kjq", 8), ("kqj", 8 * 16)])
def test_a_register_keeps_a_result_in_the_loops_within_which_it_stays(order: str, times: int) -> None:
    """Loops of 8 and 16 are summed over, inside and outside of one over results."""
    x = te.placeholder((8, 16, 4, 32), name="x")
    k, q = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 16), "q")
    sums = te.compute((4, 32), lambda j, t: te.sum(x[k, q, j, t], axis=[k, q]), name="sums")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, sums]))
    block = schedule.get_sblock("sums")
    loops = dict(zip("jtkq", schedule.get_loops(block), strict=True))
    inner = [loops[name] for name in order]
    schedule.reorder(loops["t"], *inner)
    schedule.bind(loops["t"], "threadIdx.x")
    schedule.decompose_reduction(block, inner[0])
    (launch,) = program_launches(schedule.mod)
    assert launch.global_load_bytes == (8 * 16 + times) * 4 * 32 * FLOAT
    assert launch.global_store_bytes == (times + 1) * 4 * 32 * FLOAT
