"""Features of a candidate's kernels on a platform: waves, occupancy, traffic and analytic times.

A candidate may launch several kernels. Times and traffic are added up; columns on shape and occupancy
describe the dominant kernel, the one whose time is longest.

Notations:
    n: rows. l: most launches of any row. Arrays of facts are ``(n, l)``, and NaN behind a row's last launch.
"""

from collections.abc import Mapping

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.features._occupancy import Occupancy, occupancy_of
from costmodel.features._platform import Limits
from costmodel.features._times import Times, Work, memory_s, times_of

_DOMINANT_COLUMNS = (
    Column("log2_blocks", "log2(1)", "launch", frozenset({"kernel"})),
    Column("log2_threads_per_block", "log2(1)", "launch", frozenset({"kernel"})),
    Column("log2_vthreads", "log2(1)", "launch", frozenset({"kernel"})),
    Column("log2_shared_bytes", "log2(byte)", "launch", frozenset({"kernel"})),
    Column("log2_shared_bytes_per_thread", "log2(byte)", "launch"),
    Column("log2_local_bytes", "log2(byte)", "launch", frozenset({"kernel"})),
    Column("log2_flops_per_thread", "log2(flop)", "launch", frozenset({"kernel"})),
    Column("vector_bytes", "byte", "launch", frozenset({"kernel"})),
    Column("log2_unroll_steps", "log2(1)", "launch", frozenset({"kernel"})),
    Column("log2_blocks_per_sm", "log2(1)", "launch"),
    Column("occupancy", "1", "launch"),
    Column("lane_share", "1", "launch"),
    Column("log2_busy_warps_per_sm", "log2(1)", "launch"),
    Column("log2_fractional_waves", "log2(1)", "launch"),
    Column("log2_waves", "log2(1)", "launch"),
    Column("idle_share", "1", "launch"),
    Column("log2_imbalance", "log2(1)", "launch"),
    Column("active_sm_share", "1", "launch"),
)
_TOTAL_COLUMNS = (
    Column("launches", "1", "launch", frozenset({"kernel", "any_sms", "launches"})),
    Column("log2_global_bytes", "log2(byte)", "launch"),
    Column("log2_shared_traffic_bytes", "log2(byte)", "launch"),
    Column("log2_register_bytes", "log2(byte)", "launch"),
    Column("log2_global_intensity", "log2(flop/byte)", "launch"),
    Column("log2_shared_intensity", "log2(flop/byte)", "launch"),
    Column("log2_register_intensity", "log2(flop/byte)", "launch"),
    Column("log2_load_redundancy", "log2(1)", "launch", frozenset({"kernel", "any_sms"})),
    Column("log2_store_redundancy", "log2(1)", "launch", frozenset({"kernel", "any_sms"})),
    Column("log2_extra_flops", "log2(1)", "launch", frozenset({"kernel", "any_sms"})),
    Column("log2_compute_over_roofline", "log2(1)", "launch", frozenset({"component_time"})),
    Column("log2_operands_over_roofline", "log2(1)", "launch", frozenset({"component_time"})),
    Column("log2_l2_over_roofline", "log2(1)", "launch", frozenset({"component_time"})),
    Column("log2_latency_over_roofline", "log2(1)", "launch", frozenset({"component_time"})),
    Column("log2_memory_over_roofline", "log2(1)", "launch", frozenset({"component_time"})),
    Column("log2_analytic_over_roofline", "log2(1)", "launch"),
    Column("log2_analytic_s", "log2(s)", "launch"),
)
LAUNCH_COLUMNS = _DOMINANT_COLUMNS + _TOTAL_COLUMNS


def launch_values(facts: Mapping[str, FloatArray], limits: Limits, work: Work) -> list[FloatArray]:
    """``(n,)`` values of each of ``LAUNCH_COLUMNS``; NaN in rows without launches.

    Args:
        facts: ``(n, l)`` arrays, one for each field of ``KernelLaunch``; NaN behind a row's last launch.
        limits: ``(n,)`` arrays of the row's platform, or ``(1,)`` of that of all rows.
        work: ``(n,)`` arrays of what the row has to do.
    """
    occupancy = occupancy_of(facts, limits)
    times = times_of(facts, occupancy, limits, work)
    known = np.where(np.isnan(times.total), -1.0, times.total)
    first = np.arange(len(known)), known.argmax(axis=1)
    dominant = _dominant_values(facts, occupancy, limits)
    totals = _total_values(facts, times, limits, work)
    return [*(column[first] for column in dominant), *totals]


def _dominant_values(
    facts: Mapping[str, FloatArray], occupancy: Occupancy, limits: Limits
) -> list[FloatArray]:
    """``(n, l)`` values of ``_DOMINANT_COLUMNS``."""
    threads = facts["threads_per_block"]
    return [
        np.log2(facts["blocks"]),
        np.log2(threads),
        np.log2(facts["vthreads"]),
        np.log2(1.0 + facts["shared_bytes"]),
        np.log2(1.0 + facts["shared_bytes"] / threads),
        np.log2(1.0 + facts["local_bytes"]),
        np.log2(1.0 + facts["flops"] / (facts["blocks"] * threads)),
        facts["vector_bytes"],
        np.log2(1.0 + facts["unroll_steps"]),
        np.log2(occupancy.blocks_per_sm),
        occupancy.resident_share,
        occupancy.lane_share,
        np.log2(occupancy.busy_warps),
        np.log2(occupancy.fractional_waves),
        np.log2(occupancy.waves),
        1.0 - occupancy.fractional_waves / occupancy.waves,
        np.log2(occupancy.imbalance),
        occupancy.active_sms / limits.sms[:, None],
    ]


def _total_values(
    facts: Mapping[str, FloatArray], times: Times, limits: Limits, work: Work
) -> list[FloatArray]:
    """``(n,)`` values of ``_TOTAL_COLUMNS``. Ratios of counts that can be 0 are floored at 1/1024.

    Bytes are counted for each memory that a program moves them to or from: device memory through the L2
    cache, shared memory, and registers, which keep the operands of a register tile. The analytic time is the
    sum of all times, as if nothing overlapped: how much does is left to be learned.
    """
    flops = _sum(facts["flops"])
    traffic = _sum(facts["global_load_bytes"] + facts["global_store_bytes"])
    shared = _sum(facts["shared_load_bytes"] + facts["shared_store_bytes"])
    register = flops / 2 * work.loads_per_fma * work.element_bytes
    memory = np.where(np.isnan(traffic), np.nan, memory_s(work, traffic, limits))
    seconds = [_sum(time) for time in (times.compute, times.operands, times.l2, times.latency)]
    total = _sum(times.total) + memory
    return [
        (~np.isnan(facts["blocks"])).sum(axis=1).astype(np.float64),
        *(np.log2(1.0 + moved) for moved in (traffic, shared, register)),
        *(_log2_ratio(flops, 1.0 + moved) for moved in (traffic, shared, register)),
        _log2_ratio(_sum(facts["global_load_bytes"]), work.min_bytes),
        _log2_ratio(_sum(facts["global_store_bytes"]), work.min_bytes),
        _log2_ratio(flops, work.flops),
        *(_log2_ratio(time, work.bound_s) for time in (*seconds, memory, total)),
        np.log2(total),
    ]


def _sum(values: FloatArray) -> FloatArray:
    """Sum over launches, NaN where there is none."""
    return np.where(np.isnan(values).all(axis=1), np.nan, np.nansum(values, axis=1))


def _log2_ratio(amount: FloatArray, reference: FloatArray) -> FloatArray:
    return np.asarray(np.log2(np.maximum(amount / reference, 1.0 / 1024)))
