"""GeNN's rule, by numbers that NVIDIA's occupancy calculator gives for compute capability 9.0, too."""

import pytest

from costmodel.errors import CostModelError
from costmodel.irregular import occupancy_block_size
from costmodel.irregular._simulator import StreamingMultiprocessor

pytestmark = pytest.mark.white_box

MANY = 10**8  # threads: never all at once


def test_the_smallest_block_is_taken_where_all_fit_at_once() -> None:
    assert occupancy_block_size(132 * 32 * 32, registers=32, sms=132) == 32
    assert occupancy_block_size(132 * 32 * 32 + 1, registers=32, sms=132) == 64
    assert occupancy_block_size(8 * 32 * 32 + 1, registers=32, sms=8) == 64


def test_of_equal_occupancy_the_smaller_block_is_taken() -> None:
    # 32 blocks of 64 threads are 2048 threads, as are 16 of 128, 8 of 256 and so on.
    assert occupancy_block_size(MANY, registers=32, sms=132) == 64


def test_registers_and_shared_memory_limit_the_blocks() -> None:
    # 48 registers: 1536 a warp, 42 warps. 32 blocks of 32: 32 warps; 21 of 64: 42, which no size exceeds.
    assert occupancy_block_size(MANY, registers=48, sms=132) == 64
    # 57 are rounded up to 64: 2048 a warp, 32 warps, which are 32 blocks of 32.
    assert occupancy_block_size(MANY, registers=57, sms=132) == 32
    # 40 KiB a block whatever its size: at most 5 blocks, which have 60 warps with 12 each; 4 of 16 have 64.
    assert occupancy_block_size(MANY, 32, lambda _: 40 * 1024, sms=132) == 512
    # 100 bytes a thread: 72 warps have the space, so that threads limit.
    assert occupancy_block_size(MANY, 32, lambda size: 100 * size, sms=132) == 64


def test_another_sm_has_other_limits() -> None:
    sm = StreamingMultiprocessor(threads=1536, blocks=16, registers=65_536, shared_bytes=102_400)
    # 16 blocks of 96 threads are 1536.
    assert occupancy_block_size(MANY, registers=32, sms=84, sm=sm) == 96
    assert occupancy_block_size(MANY, registers=32, sms=84, sm=sm, most_threads=64) == 64


def test_a_kernel_that_fits_on_no_sm_is_refused() -> None:
    with pytest.raises(CostModelError, match="300000 bytes of shared memory does not"):
        occupancy_block_size(MANY, 32, lambda _: 300_000, sms=132)
