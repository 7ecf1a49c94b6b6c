"""How many blocks of a kernel an SM holds at once: what of it is scarcest."""

from math import ceil, prod
from typing import Any, NamedTuple

from costmodel.planner.graphs.kineto._events import Args, DeviceProperties
from costmodel.planner.graphs.kineto._tracks import whole

# Shared memory that CUDA keeps for itself in each block, and units of registers: CUDA C++ Programming Guide,
# compute capability 8 and 9; blocks of an SM at most, which Kineto does not write.
_RESERVED_SHARED_BYTES, _REGISTER_UNIT, _MOST_BLOCKS = 1024, 8, 32


class Launch(NamedTuple):
    """Blocks of a grid, warps of a block, blocks that an SM holds at once; 0 for what nobody knows."""

    blocks: int
    block_warps: int
    sm_blocks: int


def launch_of(args: Args, device: DeviceProperties) -> Launch:
    """What a trace says of a kernel's launch on a device."""
    warps = ceil(_size(args.block) / device.warp_size)
    if not warps or not device.sm_threads:
        return Launch(_size(args.grid), warps, 0)
    registers = ceil((whole(args.registers) or 0) / _REGISTER_UNIT) * _REGISTER_UNIT
    threads = warps * device.warp_size
    limits = [_MOST_BLOCKS, device.sm_threads // threads]
    if registers and device.sm_registers:
        limits.append(device.sm_registers // (registers * threads))
    if device.sm_shared_bytes:
        wanted = (whole(args.shared_bytes) or 0) + _RESERVED_SHARED_BYTES
        limits.append(device.sm_shared_bytes // wanted)
    return Launch(_size(args.grid), warps, max(min(limits), 1))


def _size(sizes: Any) -> int:
    """Blocks of a grid, or threads of a block; 0 for what is none."""
    found = [whole(each) or 0 for each in sizes] if isinstance(sizes, list) else [0]
    return max(prod(found), 0)
