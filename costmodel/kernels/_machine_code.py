"""What the compiler made of a kernel, counted in its machine code.

NVIDIA documents the names of instructions (CUDA Binary Utilities, "Instruction Set Reference") and not their
encoding. From Volta on an instruction has 128 bits, of which the lowest nine tell the operation; the numbers
below are those that ``nvdisasm`` gives the names of, on ``sm_90``.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.kernels._artifact import code_of_kernels, embedded_cubin, resources_by_kernel

_OPERATIONS: Mapping[str, tuple[int, ...]] = {
    "tensor": (0x03C, 0x037, 0x03F, 0x1F0),  # HMMA, IMMA, DMMA, HGMMA
    "multiply_add": (0x023, 0x031, 0x035, 0x02B),  # FFMA, HFMA2, HFMA2.MMA, DFMA
    "floating": (
        0x020,
        0x021,
        0x008,
        0x009,
        0x00A,
        0x00B,
        0x030,
        0x032,
        0x034,
        0x040,
    ),  # FMUL, FADD, FSEL, ...
    "special": (0x108,),  # MUFU
    "convert": (0x03E, 0x104, 0x105, 0x106, 0x107, 0x045),  # F2FP, F2F, F2I, I2F, FRND, I2FP
    "load": (0x181,),  # LDG
    "copy": (0x1AE,),  # LDGSTS
    "store": (0x186,),  # STG
    "shared_load": (0x184, 0x03B),  # LDS, LDSM
    "shared_store": (0x188,),  # STS
    "local": (0x183, 0x187),  # LDL, STL
    "barrier": (0x11D,),  # BAR
    "shuffle": (0x189,),  # SHFL
}
_BRANCH, _NOTHING, _LOAD_MATRICES = 0x147, 0x118, 0x03B  # BRA, NOP, LDSM
_KINDS = (*_OPERATIONS, "other")
_KIND_OF = np.full(512, len(_OPERATIONS), dtype=np.intp)
for _kind, _codes in enumerate(_OPERATIONS.values()):
    _KIND_OF[list(_codes)] = _kind
# Bytes of an access by what its instruction says of the width: U8, S8, U16, S16, 32, 64, 128 bits.
_WIDTHS = np.array([1, 1, 2, 2, 4, 8, 16, 16], dtype=np.float64)
_ACCESSES = ("load", "copy", "store", "shared_load", "shared_store", "local")
_INSTRUCTION_BYTES = 16


class MachineCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the compiler made of one candidate's kernels, together: registers the most, the rest their sum.

    Counts are of instructions as they stand, without trips of loops. Those named ``hot_...`` are of one turn
    of the hot loops: of each kernel the innermost loop with most products on Tensor Cores, of equal ones with
    most multiplications, then most other instructions; where it has no loop, all of it.

    Attributes:
        registers: 32-bit registers of a thread.
        stack_bytes: Local memory of a thread.
        loops: Loops.
        instructions: Instructions.
        tensor: Products on Tensor Cores, of a warp.
        multiply_add: Multiplications with an addition.
        floating: Other arithmetic, comparisons and choices of floating-point numbers.
        special: Exponentials, reciprocals, roots.
        convert: Conversions between types.
        load: Loads from device memory into registers.
        load_bytes: Bytes that a thread reads by these.
        copy: Copies from device memory to shared memory.
        copy_bytes: Bytes of these.
        store: Stores to device memory.
        store_bytes: Bytes of these.
        shared_load: Loads from shared memory.
        shared_load_bytes: Bytes of these.
        shared_store: Stores to shared memory.
        shared_store_bytes: Bytes of these.
        local: Loads and stores of local memory.
        local_bytes: Bytes of these.
        barrier: Barriers of a block.
        shuffle: Exchanges within a warp.
        other: The rest: whole numbers, addresses, moves, branches.
    """

    registers: float
    stack_bytes: float
    loops: float
    instructions: float
    tensor: float
    multiply_add: float
    floating: float
    special: float
    convert: float
    load: float
    load_bytes: float
    copy: float
    copy_bytes: float
    store: float
    store_bytes: float
    shared_load: float
    shared_load_bytes: float
    shared_store: float
    shared_store_bytes: float
    local: float
    local_bytes: float
    barrier: float
    shuffle: float
    other: float
    hot_instructions: float
    hot_tensor: float
    hot_multiply_add: float
    hot_floating: float
    hot_special: float
    hot_convert: float
    hot_load: float
    hot_load_bytes: float
    hot_copy: float
    hot_copy_bytes: float
    hot_store: float
    hot_store_bytes: float
    hot_shared_load: float
    hot_shared_load_bytes: float
    hot_shared_store: float
    hot_shared_store_bytes: float
    hot_local: float
    hot_local_bytes: float
    hot_barrier: float
    hot_shuffle: float
    hot_other: float


MACHINE_CODE_FACTS = MachineCode.__struct_fields__


def machine_code(artifact: bytes) -> MachineCode | None:
    """Count what is in the kernels of a cubin, or of a shared library that embeds one; None without any."""
    cubin = embedded_cubin(artifact)
    return _count_kernels(cubin) if cubin else None


def _count_kernels(cubin: bytes) -> MachineCode:
    resources = resources_by_kernel(cubin)
    found = [_counted(code) for code in code_of_kernels(cubin).values()]
    counts = {name: sum(each[name] for each in found) for name in found[0]}
    return MachineCode(
        registers=max(each.registers_per_thread for each in resources.values()),
        stack_bytes=sum(each.stack_bytes for each in resources.values()),
        **counts,
    )


class _Loop(NamedTuple):
    """Positions of a loop's first instruction and of the branch back to it."""

    first: int
    last: int


def _counted(code: bytes) -> dict[str, float]:
    """Count the instructions of one kernel."""
    words = np.frombuffer(code, dtype="<u8").reshape(-1, 2)
    operation = (words[:, 0] & np.uint64(0x1FF)).astype(np.intp)
    loops = _loops(words, operation)
    counted = operation != _NOTHING
    hot = _hot_loop(loops, operation)
    in_hot = counted if hot is None else counted & _within(hot, len(words))
    bytes_ = _access_bytes(words, operation)
    return {
        "loops": float(len(loops)),
        **_by_kind("", operation[counted], bytes_[counted]),
        **_by_kind("hot_", operation[in_hot], bytes_[in_hot]),
    }


def _by_kind(prefix: str, operation: NDArray[np.intp], bytes_: NDArray[np.float64]) -> dict[str, float]:
    kind = _KIND_OF[operation]
    count = np.bincount(kind, minlength=len(_KINDS))
    moved = np.bincount(kind, bytes_, minlength=len(_KINDS))
    return {
        f"{prefix}instructions": float(len(operation)),
        **{f"{prefix}{name}": float(count[i]) for i, name in enumerate(_KINDS)},
        **{f"{prefix}{name}_bytes": float(moved[_KINDS.index(name)]) for name in _ACCESSES},
    }


def _access_bytes(words: NDArray[np.uint64], operation: NDArray[np.intp]) -> NDArray[np.float64]:
    """``(n,)`` bytes of a thread's access; of one that loads matrices, as many as registers it fills."""
    width = _WIDTHS[(words[:, 1] >> np.uint64(9)).astype(np.intp) & 7]
    matrices = 4.0 * 2.0 ** ((words[:, 1] >> np.uint64(8)).astype(np.intp) & 3)
    return np.where(operation == _LOAD_MATRICES, matrices, width)


def _loops(words: NDArray[np.uint64], operation: NDArray[np.intp]) -> list[_Loop]:
    """Loops by where they end: branches back, but for one to itself, which pads the end."""
    at = np.flatnonzero(operation == _BRANCH)
    low, high = words[at].T
    # In words of four bytes, relative to the next instruction: bits 34 to 81, and below them bits 16 to 23.
    above = ((high & np.uint64(0x3FFFF)) << np.uint64(30) | low >> np.uint64(34)).astype(np.int64)
    above = np.where(above >= 1 << 47, above - (1 << 48), above)
    offset = above * 256 + ((low >> np.uint64(16)) & np.uint64(0xFF)).astype(np.int64)
    to = at + 1 + offset * 4 // _INSTRUCTION_BYTES
    return [_Loop(int(first), int(last)) for first, last in zip(to, at, strict=True) if 0 <= first < last]


def _hot_loop(loops: list[_Loop], operation: NDArray[np.intp]) -> _Loop | None:
    """Return the innermost loop with the most work, see ``MachineCode``."""
    innermost = [
        loop
        for loop in loops
        if not any(other != loop and loop.first <= other.first and other.last <= loop.last for other in loops)
    ]
    kind = _KIND_OF[operation]

    def work(loop: _Loop) -> tuple[int, ...]:
        count = np.bincount(kind[loop.first : loop.last], minlength=len(_KINDS))
        return *(
            int(count[_KINDS.index(name)]) for name in ("tensor", "multiply_add")
        ), loop.last - loop.first

    return max(innermost, key=work, default=None)


def _within(loop: _Loop, size: int) -> NDArray[np.bool_]:
    position = np.arange(size)
    return (position >= loop.first) & (position <= loop.last)
