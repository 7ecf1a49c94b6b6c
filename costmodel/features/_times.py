"""Analytic times of a kernel, one for each resource: bounds in the sense of the roofline, not predictions.

The fullest SM sets the pace of all: with ``ceil(blocks / SMs)`` of the blocks it works that many times as
long as one block takes, less what resident blocks hide of each other (waves as in cuSync, arXiv:2305.13450,
section 2). The traffic of a memory level is refresh count times volume (DNN-Chip Predictor, arXiv:2002.11270,
section 3): how often a box is staged times its size, and the operands of a register tile times how often it
is used.

Where the data of a kernel decide what it moves, launches say how much of the traffic reaches device memory,
what the busiest block moves, which no SM shares with another, how often memory is changed atomically, and how
many loads a thread waits for in turn.

No time rises with SMs, clock, bandwidth or the size of a cache, all else equal. Of k blocks on the fullest
SM, b resident at once and enough at r, the slowdown is ``k / min(1, min(b, k) / r) = max(k, max(k / b, 1)
r)``, which does not fall with k, and k does not rise with SMs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    """Filling of the granted SMs by the blocks of each launch; all ``(n, l)``, notations as in ``_launch``.

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


def occupancy_of(
    facts: Mapping[str, FloatArray], limits: Limits, registers: FloatArray | None = None
) -> Occupancy:
    """Occupancy of launches with these ``(n, l)`` facts on platforms with these ``(n,)`` limits.

    Args:
        facts: Facts of launches.
        limits: Limits of platforms.
        registers: ``(n, l)`` registers of a thread, where something better is known than what facts tell.
    """
    blocks, threads = facts["blocks"], facts["threads_per_block"]
    sms, warp = limits.sms[:, None], limits.warp_threads[:, None]
    if registers is None:
        registers = _registers_per_thread(facts)
    blocks_per_sm = _blocks_per_sm(facts, limits, registers)
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


def _blocks_per_sm(facts: Mapping[str, FloatArray], limits: Limits, registers: FloatArray) -> FloatArray:
    """The scarcest of shared memory, registers, threads and block slots; unknown sizes limit nothing."""
    threads = facts["threads_per_block"]
    lanes = np.ceil(threads / limits.warp_threads[:, None]) * limits.warp_threads[:, None]
    by_shared = np.floor(limits.shared_bytes[:, None] / (facts["shared_bytes"] + _RESERVED_SHARED_BYTES))
    by_registers = np.floor(limits.registers[:, None] / (registers * lanes))
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


# Bytes a clock that one SM gets from the L2 cache, and operands a clock that it reads from shared memory: 128
# bytes, or one float32 for each lane of a warp (Volta to Hopper; Jia et al., arXiv:1804.06826).
L2_BYTES_PER_CLOCK = 64
_OPERANDS_PER_CLOCK = 32
# Clocks between a load from device memory and its use: 500-600 on an idle Hopper, more under load. Not
# fitted.
_LATENCY_CLOCKS = 800
# Atomic operations a clock: of an SM, and on one address (NVIDIA, Kepler GK110 whitepaper, 2012). Not fitted.
_ATOMICS_PER_CLOCK = 1
# Bytes that a thread has on the way at once: at least one float32, at most four loads of 16 bytes.
_LEAST_IN_FLIGHT, _MOST_IN_FLIGHT = 4, 64
# Threads that each SM is taken to run of a call of which no block is known: enough for all of its bandwidth.
_THREADS_OF_CALL = 1024


@dataclass(frozen=True)
class Work:
    """Work of each row, whatever its kernels; all ``(n,)``.

    Attributes:
        flops: Operations of the workload.
        min_bytes: Its fewest bytes through device memory.
        device_bytes: Those that its launches move through device memory, as its data decide; NaN where not
            known.
        bound_s: Its roofline in seconds.
        loads_per_fma: Operands loaded from shared memory for each multiply-add; NaN where not known.
        steps: Times that a block stages operands, one after the other; NaN where not known.
        element_bytes: Bytes of an input element; NaN where not known.
    """

    flops: FloatArray
    min_bytes: FloatArray
    device_bytes: FloatArray
    bound_s: FloatArray
    loads_per_fma: FloatArray
    steps: FloatArray
    element_bytes: FloatArray


@dataclass(frozen=True)
class Times:
    """Seconds that each launch needs of each resource; all ``(n, l)``, notations as in ``_launch``.

    Attributes:
        compute: Arithmetic, by warps: lanes without a thread and schedulers without a warp do nothing.
        operands: Reads of operands from shared memory into registers, by warps too.
        l2: Traffic through the L2 cache, at its bandwidth or at what the loads in flight can draw (Little's
            law), whichever is less; no less than what the busiest block needs for its own.
        latency: Waves x steps x the latency of a load: what even a kernel without work would wait; no less
            than what its slowest thread waits for loads that follow one another.
        atomics: Atomic operations, which an SM sends one after the other; no less than those on one address,
            which follow one another.
    """

    compute: FloatArray
    operands: FloatArray
    l2: FloatArray
    latency: FloatArray
    atomics: FloatArray

    @property
    def total(self) -> FloatArray:
        """All of them, as if nothing overlapped."""
        return self.compute + self.operands + self.l2 + self.latency + self.atomics


def times_of(facts: Mapping[str, FloatArray], occupancy: Occupancy, limits: Limits, work: Work) -> Times:
    """Times of launches with these ``(n, l)`` facts; those of a call are as if it filled all SMs evenly."""
    calls = np.isnan(facts["blocks"]) & ~np.isnan(facts["flops"])
    if calls.any():
        facts = _filling(facts, calls, limits)
        occupancy = occupancy_of(facts, limits)
    clock = limits.clock_hz[:, None]
    pace = occupancy.imbalance / limits.sms[:, None]
    issue = occupancy.lane_share * np.minimum(1.0, occupancy.busy_warps / limits.schedulers[:, None])
    by_program = (facts["shared_load_bytes"] + facts["shared_store_bytes"]) / 4
    # The program loads operands at each use; a compiler keeps those of a register tile.
    by_tile = facts["flops"] / 2 * work.loads_per_fma[:, None]
    operands = np.where(np.isnan(by_tile), by_program, by_tile)
    traffic = facts["global_load_bytes"] + facts["global_store_bytes"]
    steps = np.where(np.isnan(work.steps), 1.0, work.steps)[:, None]
    by_lanes = pace * (facts["flops"] - facts["tensor_flops"]) / limits.flops_per_sm[:, None]
    tensor_rate = np.fmax(limits.tensor_flops_per_sm, limits.flops_per_sm)[:, None]
    return Times(
        compute=by_lanes / issue + pace * facts["tensor_flops"] / tensor_rate / issue,
        operands=pace * operands / (_OPERANDS_PER_CLOCK * clock) / issue,
        l2=np.maximum(
            pace * traffic / (_l2_bytes_per_clock(facts, occupancy.busy_blocks) * clock),
            facts["busiest_block_bytes"] / (_l2_bytes_per_clock(facts, 1.0) * clock),
        ),
        latency=np.maximum(occupancy.waves * steps, facts["longest_chain"]) * _LATENCY_CLOCKS / clock,
        atomics=np.maximum(pace * facts["atomics"], _on_one_address(facts)) / (_ATOMICS_PER_CLOCK * clock),
    )


def memory_s(work: Work, traffic: FloatArray, limits: Limits) -> FloatArray:
    """``(n,)`` seconds of the traffic to device memory of rows with this ``(n,)`` traffic to the L2 cache.

    It is what the launches say of it. Where they do not, what is moved once must come from device memory, and
    of what is moved again, the L2 cache misses the share of the data that it cannot hold. 0 where the
    bandwidth is unknown, and without misses where the cache is.
    """
    missing = np.fmax(0.0, 1.0 - limits.l2_bytes / work.min_bytes)
    again = np.fmax(0.0, traffic - work.min_bytes)
    by_cache = work.min_bytes + missing * again
    moved = np.where(np.isnan(work.device_bytes), by_cache, work.device_bytes)
    return np.asarray(np.nan_to_num(moved / limits.bandwidth))


def _filling(
    facts: Mapping[str, FloatArray], calls: NDArray[np.bool_], limits: Limits
) -> Mapping[str, FloatArray]:
    """Facts with a full block on each SM for a library's calls, of which work is known and no block."""
    filled = {name: np.where(calls, np.nan_to_num(values), values) for name, values in facts.items()}
    filled["blocks"] = np.where(calls, limits.sms[:, None], facts["blocks"])
    filled["threads_per_block"] = np.where(calls, _THREADS_OF_CALL, facts["threads_per_block"])
    filled["shared_bytes"] = np.where(calls, _THREADS_OF_CALL * _MOST_IN_FLIGHT, facts["shared_bytes"])
    return filled


def _on_one_address(facts: Mapping[str, FloatArray]) -> FloatArray:
    """Atomic operations on each of their addresses; 0 where these are not said."""
    addresses = facts["atomic_addresses"]
    return facts["atomics"] / np.where(addresses > 0.0, addresses, np.inf)


def _l2_bytes_per_clock(facts: Mapping[str, FloatArray], blocks: FloatArray | float) -> FloatArray:
    """Bytes that blocks have in flight / latency, never above the bandwidth.

    A thread stages its part of the shared memory.
    """
    threads = facts["threads_per_block"]
    staged = np.clip(facts["shared_bytes"] / threads, _LEAST_IN_FLIGHT, _MOST_IN_FLIGHT)
    in_flight = blocks * threads * staged
    return np.asarray(np.minimum(L2_BYTES_PER_CLOCK, in_flight / _LATENCY_CLOCKS))
