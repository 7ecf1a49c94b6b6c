"""Features of a candidate's kernels on a platform: waves, occupancy, traffic and analytic times.

A candidate may launch several kernels. Times and traffic are added up; columns on shape and occupancy
describe the dominant kernel, the one whose time is longest.

Notations:
    n: rows. l: most launches of any row. Arrays of facts are ``(n, l)``, and NaN behind a row's last launch.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from costmodel.features._occupancy import Occupancy, occupancy_of
from costmodel.features._platform import FloatArray, Limits
from costmodel.features._table import Column
from costmodel.features._times import Times, Work, times_of
from costmodel.records import Candidate, KernelLaunch

_DOMINANT_COLUMNS = (
    Column("log2_blocks", "log2(1)", "launch"),
    Column("log2_threads_per_block", "log2(1)", "launch"),
    Column("log2_vthreads", "log2(1)", "launch"),
    Column("log2_shared_bytes", "log2(byte)", "launch"),
    Column("log2_shared_bytes_per_thread", "log2(byte)", "launch"),
    Column("log2_local_bytes", "log2(byte)", "launch"),
    Column("log2_flops_per_thread", "log2(flop)", "launch"),
    Column("vector_bytes", "byte", "launch"),
    Column("log2_unroll_steps", "log2(1)", "launch"),
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
    Column("launches", "1", "launch"),
    Column("log2_load_redundancy", "log2(1)", "launch"),
    Column("log2_store_redundancy", "log2(1)", "launch"),
    Column("log2_extra_flops", "log2(1)", "launch"),
    Column("log2_compute_over_roofline", "log2(1)", "launch"),
    Column("log2_operands_over_roofline", "log2(1)", "launch"),
    Column("log2_l2_over_roofline", "log2(1)", "launch"),
    Column("log2_latency_over_roofline", "log2(1)", "launch"),
    Column("log2_analytic_over_roofline", "log2(1)", "launch"),
)
LAUNCH_COLUMNS = _DOMINANT_COLUMNS + _TOTAL_COLUMNS


def launch_facts(candidates: Sequence[Candidate]) -> dict[str, FloatArray]:
    """Each field of ``KernelLaunch`` as ``(candidates, l)``, NaN behind a candidate's last launch, l >= 1."""
    width = max((len(candidate.launches) for candidate in candidates), default=0) or 1
    fields = KernelLaunch.__struct_fields__
    facts = np.full((len(candidates), width, len(fields)), np.nan)
    for i, candidate in enumerate(candidates):
        for j, launch in enumerate(candidate.launches):
            facts[i, j] = [getattr(launch, field) for field in fields]
    return {field: facts[:, :, i] for i, field in enumerate(fields)}


def launch_values(facts: Mapping[str, FloatArray], limits: Limits, work: Work) -> FloatArray:
    """``(n, q)`` values of ``LAUNCH_COLUMNS``; NaN in rows without launches.

    Args:
        facts: ``(n, l)`` arrays of ``launch_facts``, one row for each row of the table.
        limits: ``(n,)`` arrays of the row's platform.
        work: ``(n,)`` arrays of what the row has to do.
    """
    occupancy = occupancy_of(facts, limits)
    times = times_of(facts, occupancy, limits, work)
    known = np.where(np.isnan(times.total), -1.0, times.total)
    first = np.arange(len(known)), known.argmax(axis=1)
    dominant = _dominant_values(facts, occupancy, limits)
    totals = _total_values(facts, times, limits, work)
    return np.column_stack([*(column[first] for column in dominant), *totals])


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

    The analytic time is the sum of all times and of the traffic to device memory that cannot be avoided: how
    much of the rest the L2 cache serves is unknown, and how much of it all overlaps is left to be learned.
    """
    unavoidable_s = np.nan_to_num(work.min_bytes / limits.bandwidth)
    seconds = [_sum(time) for time in (times.compute, times.operands, times.l2, times.latency, times.total)]
    seconds[-1] += unavoidable_s
    return [
        (~np.isnan(facts["blocks"])).sum(axis=1).astype(np.float64),
        _log2_ratio(_sum(facts["global_load_bytes"]), work.min_bytes),
        _log2_ratio(_sum(facts["global_store_bytes"]), work.min_bytes),
        _log2_ratio(_sum(facts["flops"]), work.flops),
        *(_log2_ratio(time, work.bound_s) for time in seconds),
    ]


def _sum(values: FloatArray) -> FloatArray:
    """Sum over launches, NaN where there is none."""
    return np.where(np.isnan(values).all(axis=1), np.nan, np.nansum(values, axis=1))


def _log2_ratio(amount: FloatArray, reference: FloatArray) -> FloatArray:
    return np.log2(np.maximum(amount / reference, 1.0 / 1024))
