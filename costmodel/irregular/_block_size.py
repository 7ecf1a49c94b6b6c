"""GeNN's choice of a block size, by occupancy alone: a baseline."""

from collections.abc import Callable
from dataclasses import dataclass

from costmodel.errors import CostModelError

_WARP = 32
_REGISTERS_AT_ONCE = 256  # what a warp's registers are rounded up to


@dataclass(frozen=True)
class StreamingMultiprocessor:
    """What an SM has; the defaults are those of an H100 and H200.

    Attributes:
        threads: Most threads at once.
        blocks: Most blocks at once.
        registers: Of 32 bits.
        shared_bytes: Shared memory.
    """

    threads: int = 2048
    blocks: int = 32
    registers: int = 65_536
    shared_bytes: int = 233_472


def occupancy_block_size(  # noqa: PLR0913 (one argument a fact)
    threads: int,
    registers: int,
    shared_bytes: Callable[[int], int] = lambda _: 0,
    *,
    sms: int,
    sm: StreamingMultiprocessor | None = None,
    most_threads: int = 1024,
) -> int:
    """Threads of a block: the smallest with which all blocks run at once, or else of the most occupancy.

    Sizes are tried from one warp up, warp by warp, and of equal occupancy the smaller is taken.

    Args:
        threads: Threads that the kernel needs in all.
        registers: Of a thread.
        shared_bytes: Shared memory of a block of this many threads.
        sms: SMs that the kernel has.
        sm: What each has; an H100's if None.
        most_threads: Of a block.

    Raises:
        CostModelError: No block fits on an SM.

    Reference:
        Knight and Nowotny 2018, "GPUs Outperform Current HPC and Neuromorphic Solutions in Terms of Speed
        and Energy When Simulating a Highly-Connected Cortical Model", and what GeNN does since; written anew.
        Registers are counted as GPUs since 2010 do, a warp's at once, which GeNN leaves out there.

    Example:
        >>> occupancy_block_size(10_000_000, registers=32, sms=132)
        64
    """
    sm = sm or StreamingMultiprocessor()
    best, most_warps = 0, 0
    for size in range(_WARP, most_threads + 1, _WARP):
        blocks = _blocks_per_sm(size, registers, shared_bytes(size), sm)
        if -(-threads // size) <= blocks * sms:
            return size
        if blocks * size // _WARP > most_warps:
            best, most_warps = size, blocks * size // _WARP
    if not best:
        raise CostModelError(
            f"A block of {_WARP} threads must fit on an SM, but one with {registers} registers a thread and "
            f"{shared_bytes(_WARP)} bytes of shared memory does not."
        )
    return best


def _blocks_per_sm(size: int, registers: int, shared_bytes: int, sm: StreamingMultiprocessor) -> int:
    """Return blocks that run at once on an SM."""
    warps = size // _WARP
    of_warp = -(-registers * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    limits = [sm.threads // size, sm.blocks]
    if of_warp:
        limits.append(sm.registers // of_warp // warps)
    if shared_bytes:
        limits.append(sm.shared_bytes // shared_bytes)
    return min(limits)
