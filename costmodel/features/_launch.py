"""Features of a candidate's kernels on a platform: waves, occupancy, traffic and analytic times.

An SM budget reaches a kernel through its waves: ``ceil(blocks / (blocks per SM x SMs))`` rounds of resident
blocks, the last of which may leave SMs idle (the wave model of cuSync, arXiv:2305.13450, section 2). Times
are bounds in the sense of the roofline, one for each resource, for the SMs that the kernel keeps busy.

A candidate may launch several kernels. Times and traffic are added up; columns on shape and occupancy
describe the dominant kernel, the one whose time is longest.

Notations:
    n: rows. l: most launches of any row. Arrays of facts are ``(n, l)``, and NaN behind a row's last launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.features._platform import Limits
from costmodel.features._table import Column
from costmodel.records import Candidate, KernelLaunch

FloatArray = NDArray[np.float64]

# Registers of a thread besides its local buffers (addresses, loop counters, staged operands), and the most
# that a thread can have since Kepler.
_BASE_REGISTERS = 32
_MAX_REGISTERS = 255
# Shared memory that CUDA keeps for itself in each block since sm_80 (CUDA C++ Programming Guide, compute
# capability 8).
_RESERVED_SHARED_BYTES = 1024
# Bytes a clock of one SM, from the L2 cache and from its shared memory (Volta to Hopper; Jia et al.,
# arXiv:1804.06826).
_L2_BYTES_PER_CLOCK = 64
_SHARED_BYTES_PER_CLOCK = 128

_DOMINANT_COLUMNS = (
    Column("log2_blocks", "log2(1)", "launch"),
    Column("log2_threads_per_block", "log2(1)", "launch"),
    Column("log2_vthreads", "log2(1)", "launch"),
    Column("log2_shared_bytes", "log2(byte)", "launch"),
    Column("log2_local_bytes", "log2(byte)", "launch"),
    Column("log2_flops_per_thread", "log2(flop)", "launch"),
    Column("vector_bytes", "byte", "launch"),
    Column("log2_unroll_steps", "log2(1)", "launch"),
    Column("log2_blocks_per_sm", "log2(1)", "launch"),
    Column("occupancy", "1", "launch"),
    Column("log2_busy_threads_per_sm", "log2(1)", "launch"),
    Column("log2_fractional_waves", "log2(1)", "launch"),
    Column("log2_waves", "log2(1)", "launch"),
    Column("idle_share", "1", "launch"),
    Column("log2_imbalance", "log2(1)", "launch"),
    Column("active_sm_share", "1", "launch"),
)
_TOTAL_COLUMNS = (
    Column("launches", "1", "launch"),
    Column("log2_load_redundancy", "log2(1)", "launch"),
    Column("log2_store_redundancy", "log2(1)", "launch"),
    Column("log2_shared_bytes_per_flop", "log2(byte/flop)", "launch"),
    Column("log2_extra_flops", "log2(1)", "launch"),
    Column("log2_compute_over_roofline", "log2(1)", "launch"),
    Column("log2_l2_over_roofline", "log2(1)", "launch"),
    Column("log2_shared_over_roofline", "log2(1)", "launch"),
    Column("log2_analytic_over_roofline", "log2(1)", "launch"),
)
LAUNCH_COLUMNS = _DOMINANT_COLUMNS + _TOTAL_COLUMNS


@dataclass(frozen=True)
class _Occupancy:
    """How the blocks of each launch fill the granted SMs; all ``(n, l)``.

    Attributes:
        blocks_per_sm: Blocks that one SM can hold at once, at least 1.
        resident_share: Resident threads of a full SM / threads that it can hold.
        busy_threads: Threads resident on the fullest SM.
        fractional_waves: blocks / (blocks per SM x SMs).
        waves: That, rounded up.
        imbalance: Blocks of the fullest SM / mean blocks of an SM, at least 1.
        active_sms: SMs that get a block.
    """

    blocks_per_sm: FloatArray
    resident_share: FloatArray
    busy_threads: FloatArray
    fractional_waves: FloatArray
    waves: FloatArray
    imbalance: FloatArray
    active_sms: FloatArray


@dataclass(frozen=True)
class _Times:
    """Seconds that each launch needs of each resource; all ``(n, l)``.

    Device memory is not among them: how much of a kernel's traffic the L2 cache serves is unknown, and the
    traffic that cannot be avoided is in the roofline.
    """

    compute: FloatArray
    l2: FloatArray
    shared: FloatArray

    @property
    def bound(self) -> FloatArray:
        """The scarcest resource's."""
        return np.maximum(np.maximum(self.compute, self.l2), self.shared)


def launch_facts(candidates: Sequence[Candidate]) -> dict[str, FloatArray]:
    """Each field of ``KernelLaunch`` as ``(candidates, l)``, NaN behind a candidate's last launch, l >= 1."""
    width = max((len(candidate.launches) for candidate in candidates), default=0) or 1
    fields = KernelLaunch.__struct_fields__
    facts = np.full((len(candidates), width, len(fields)), np.nan)
    for i, candidate in enumerate(candidates):
        for j, launch in enumerate(candidate.launches):
            facts[i, j] = [getattr(launch, field) for field in fields]
    return {field: facts[:, :, i] for i, field in enumerate(fields)}


def launch_values(
    facts: dict[str, FloatArray],
    limits: Limits,
    flops: FloatArray,
    min_bytes: FloatArray,
    bound_s: FloatArray,
) -> FloatArray:
    """``(n, q)`` values of ``LAUNCH_COLUMNS``; NaN in rows without launches.

    Args:
        facts: ``(n, l)`` arrays of ``launch_facts``, one row for each row of the table.
        limits: ``(n,)`` arrays of the row's platform.
        flops: ``(n,)`` operations of the row's workload.
        min_bytes: ``(n,)`` its fewest bytes.
        bound_s: ``(n,)`` its roofline in seconds.
    """
    occupancy = _occupancy(facts, limits)
    times = _times(facts, occupancy, limits)
    dominant = _dominant_values(facts, occupancy, limits)
    known = np.where(np.isnan(times.bound), -1.0, times.bound)
    first = np.arange(len(flops)), known.argmax(axis=1)
    totals = _total_values(facts, times, flops, min_bytes, bound_s)
    return np.column_stack([*(column[first] for column in dominant), *totals])


def _occupancy(facts: dict[str, FloatArray], limits: Limits) -> _Occupancy:
    blocks, threads = facts["blocks"], facts["threads_per_block"]
    sms = limits.sms[:, None]
    registers = np.minimum(_MAX_REGISTERS, _BASE_REGISTERS + facts["local_bytes"] / 4) * threads
    by_shared = np.floor(limits.shared_bytes[:, None] / (facts["shared_bytes"] + _RESERVED_SHARED_BYTES))
    by_registers = np.floor(limits.registers[:, None] / registers)
    by_threads = np.floor(limits.threads[:, None] / threads)
    # fmin passes over limits that the device's description does not give.
    fitting = np.fmin(np.fmin(by_shared, by_registers), np.minimum(by_threads, limits.blocks[:, None]))
    blocks_per_sm = np.maximum(1.0, fitting)
    rounds = np.ceil(blocks / sms)
    fractional = blocks / (blocks_per_sm * sms)
    return _Occupancy(
        blocks_per_sm=blocks_per_sm,
        resident_share=np.minimum(1.0, blocks_per_sm * threads / limits.threads[:, None]),
        busy_threads=np.minimum(blocks_per_sm, rounds) * threads,
        fractional_waves=fractional,
        waves=np.ceil(fractional),
        imbalance=rounds * sms / blocks,
        active_sms=np.minimum(sms, blocks),
    )


def _times(facts: dict[str, FloatArray], occupancy: _Occupancy, limits: Limits) -> _Times:
    traffic = facts["global_load_bytes"] + facts["global_store_bytes"]
    shared = facts["shared_load_bytes"] + facts["shared_store_bytes"]
    # The fullest SM sets the pace: work / SMs, times how much more than the mean it has to do.
    pace = occupancy.imbalance / limits.sms[:, None]
    clock = limits.clock_hz[:, None]
    return _Times(
        compute=pace * facts["flops"] / limits.flops_per_sm[:, None],
        l2=pace * traffic / (_L2_BYTES_PER_CLOCK * clock),
        shared=pace * shared / (_SHARED_BYTES_PER_CLOCK * clock),
    )


def _dominant_values(facts: dict[str, FloatArray], occupancy: _Occupancy, limits: Limits) -> list[FloatArray]:
    """``(n, l)`` values of ``_DOMINANT_COLUMNS``."""
    threads = facts["blocks"] * facts["threads_per_block"]
    return [
        np.log2(facts["blocks"]),
        np.log2(facts["threads_per_block"]),
        np.log2(facts["vthreads"]),
        np.log2(1.0 + facts["shared_bytes"]),
        np.log2(1.0 + facts["local_bytes"]),
        np.log2(1.0 + facts["flops"] / threads),
        facts["vector_bytes"],
        np.log2(1.0 + facts["unroll_steps"]),
        np.log2(occupancy.blocks_per_sm),
        occupancy.resident_share,
        np.log2(occupancy.busy_threads),
        np.log2(occupancy.fractional_waves),
        np.log2(occupancy.waves),
        1.0 - occupancy.fractional_waves / occupancy.waves,
        np.log2(occupancy.imbalance),
        occupancy.active_sms / limits.sms[:, None],
    ]


def _total_values(
    facts: dict[str, FloatArray], times: _Times, flops: FloatArray, min_bytes: FloatArray, bound_s: FloatArray
) -> list[FloatArray]:
    """``(n,)`` values of ``_TOTAL_COLUMNS``. Ratios of counts that can be 0 are floored at 1/1024."""
    launches = (~np.isnan(facts["blocks"])).sum(axis=1).astype(np.float64)
    total = {name: _sum(values) for name, values in facts.items()}
    shared_bytes = total["shared_load_bytes"] + total["shared_store_bytes"]
    seconds = (_sum(times.compute), _sum(times.l2), _sum(times.shared), _sum(times.bound))
    return [
        launches,
        _log2_ratio(total["global_load_bytes"], min_bytes),
        _log2_ratio(total["global_store_bytes"], min_bytes),
        _log2_ratio(shared_bytes, flops),
        _log2_ratio(total["flops"], flops),
        *(_log2_ratio(time, bound_s) for time in seconds),
    ]


def _sum(values: FloatArray) -> FloatArray:
    """Sum over launches, NaN where there is none."""
    return np.where(np.isnan(values).all(axis=1), np.nan, np.nansum(values, axis=1))


def _log2_ratio(amount: FloatArray, reference: FloatArray) -> FloatArray:
    return np.log2(np.maximum(amount / reference, 1.0 / 1024))
