"""How the blocks of a kernel fill the granted SMs.

An SM budget reaches a kernel through its waves: ``ceil(blocks / (blocks per SM x SMs))`` rounds of resident
blocks, the last of which may leave SMs idle (the wave model of cuSync, arXiv:2305.13450, section 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._platform import Limits

# Registers of a thread for addresses and loop counters; for each 4 bytes of its local buffers, of which the
# fragments of a warp share some; and for each 4 bytes that it has on the way to shared memory. Fitted by hand
# to the registers of 6,900 kernels for sm_90 (NVRTC 13), and no better than that: equal occupancy in half of
# them.
_BASE_REGISTERS = 24
_REGISTERS_PER_WORD, _REGISTERS_PER_FRAGMENT_WORD = 1.2, 0.6
_REGISTERS_PER_STAGED_WORD = 0.4
# The most that a thread can have since Kepler; they come in eights, and a block must fit into an SM.
_MAX_REGISTERS, _REGISTER_UNIT = 255, 8
# Shared memory that CUDA keeps for itself in each block since sm_80 (CUDA C++ Programming Guide, compute
# capability 8).
_RESERVED_SHARED_BYTES = 1024


@dataclass(frozen=True)
class Occupancy:
    """How the blocks of each launch fill the granted SMs; all ``(n, l)``, notations as in ``_launch``.

    Attributes:
        blocks_per_sm: Blocks that one SM can hold at once, at least 1.
        resident_share: Resident threads of a full SM / threads that it can hold.
        busy_blocks: Blocks resident on the fullest SM.
        lane_share: Threads / lanes of their warps: 0.5 for blocks of 16 threads, or of 48 with 1.5 warps.
        busy_warps: Warps resident on the fullest SM.
        fractional_waves: blocks / (blocks per SM x SMs).
        waves: That, rounded up.
        imbalance: Blocks of the fullest SM / mean blocks of an SM, at least 1.
        active_sms: SMs that get a block.
    """

    blocks_per_sm: FloatArray
    resident_share: FloatArray
    busy_blocks: FloatArray
    lane_share: FloatArray
    busy_warps: FloatArray
    fractional_waves: FloatArray
    waves: FloatArray
    imbalance: FloatArray
    active_sms: FloatArray


def occupancy_of(facts: Mapping[str, FloatArray], limits: Limits) -> Occupancy:
    """Occupancy of launches with these ``(n, l)`` facts on platforms with these ``(n,)`` limits."""
    blocks, threads = facts["blocks"], facts["threads_per_block"]
    sms, warp = limits.sms[:, None], limits.warp_threads[:, None]
    blocks_per_sm = _blocks_per_sm(facts, limits)
    warps = np.ceil(threads / warp)
    rounds = np.ceil(blocks / sms)
    busy_blocks = np.minimum(blocks_per_sm, rounds)
    fractional = blocks / (blocks_per_sm * sms)
    return Occupancy(
        blocks_per_sm=blocks_per_sm,
        resident_share=np.minimum(1.0, blocks_per_sm * threads / limits.threads[:, None]),
        busy_blocks=busy_blocks,
        lane_share=threads / (warps * warp),
        busy_warps=busy_blocks * warps,
        fractional_waves=fractional,
        waves=np.ceil(fractional),
        imbalance=rounds * sms / blocks,
        active_sms=np.minimum(sms, blocks),
    )


def _blocks_per_sm(facts: Mapping[str, FloatArray], limits: Limits) -> FloatArray:
    """The scarcest of shared memory, registers, threads and block slots; unknown sizes limit nothing."""
    threads = facts["threads_per_block"]
    lanes = np.ceil(threads / limits.warp_threads[:, None]) * limits.warp_threads[:, None]
    by_shared = np.floor(limits.shared_bytes[:, None] / (facts["shared_bytes"] + _RESERVED_SHARED_BYTES))
    by_registers = np.floor(limits.registers[:, None] / (_registers_per_thread(facts) * lanes))
    by_threads = np.floor(limits.threads[:, None] / threads)
    # fmin passes over limits that the device's description does not give.
    fitting = np.fmin(np.fmin(by_shared, by_registers), np.minimum(by_threads, limits.blocks[:, None]))
    return np.asarray(np.maximum(1.0, fitting))


def _registers_per_thread(facts: Mapping[str, FloatArray]) -> FloatArray:
    """Registers that a compiler is likely to give each thread, in the units in which they are given."""
    per_word = np.where(facts["tensor_flops"] > 0, _REGISTERS_PER_FRAGMENT_WORD, _REGISTERS_PER_WORD)
    staged = facts["shared_bytes"] / facts["threads_per_block"]
    wanted = _BASE_REGISTERS + (per_word * facts["local_bytes"] + _REGISTERS_PER_STAGED_WORD * staged) / 4
    units = np.ceil(np.minimum(_MAX_REGISTERS, wanted) / _REGISTER_UNIT)
    return np.asarray(_REGISTER_UNIT * units)
