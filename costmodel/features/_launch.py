"""Features of a candidate's kernels on a platform: waves, occupancy, traffic and analytic times.

A candidate may launch several kernels. Times and traffic are added up; columns on shape and occupancy
describe the dominant kernel, the one whose time is longest.

Notations:
    n: rows. l: most launches of any row. Arrays of facts are ``(n, l)``, and NaN behind a row's last launch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.columns import Tag
from costmodel.features._feature import Feature, columns_of
from costmodel.features._platform import Limits
from costmodel.features._times import Occupancy, Times, Work, memory_s, occupancy_of, times_of


@dataclass(frozen=True)
class LaunchFacts:
    """Facts that the features of launches are computed from.

    Bytes are counted for each memory that a program moves them to or from: device memory through the L2
    cache, shared memory, and registers, which keep the operands of a register tile.

    Attributes:
        launches: ``(n, l)`` arrays, one for each field of ``KernelLaunch``; NaN behind a row's last launch.
        limits: ``(n,)`` arrays of the row's platform, or ``(1,)`` of that of all rows.
        work: ``(n,)`` arrays of what the row has to do.
    """

    launches: Mapping[str, FloatArray]
    limits: Limits
    work: Work

    def __getitem__(self, fact: str) -> FloatArray:
        """``(n, l)`` values of a field of ``KernelLaunch``."""
        return self.launches[fact]

    @cached_property
    def occupancy(self) -> Occupancy:
        """Filling of the granted SMs by the blocks of each launch."""
        return occupancy_of(self.launches, self.limits)

    @cached_property
    def times(self) -> Times:
        """Seconds that each launch needs of each resource."""
        return times_of(self.launches, self.occupancy, self.limits, self.work)

    @cached_property
    def dominant(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of each row's dominant launch in an ``(n, l)`` array."""
        known = np.where(np.isnan(self.times.total), -1.0, self.times.total)
        return np.arange(len(known)), known.argmax(axis=1)

    @cached_property
    def flops(self) -> FloatArray:
        """``(n,)`` operations of all launches."""
        return sum_of(self.launches["flops"])

    @cached_property
    def global_bytes(self) -> FloatArray:
        """``(n,)`` bytes that all launches move through the L2 cache."""
        return sum_of(self.launches["global_load_bytes"] + self.launches["global_store_bytes"])

    @cached_property
    def shared_bytes(self) -> FloatArray:
        """``(n,)`` bytes that all launches move to or from shared memory."""
        return sum_of(self.launches["shared_load_bytes"] + self.launches["shared_store_bytes"])

    @cached_property
    def register_bytes(self) -> FloatArray:
        """``(n,)`` bytes of operands that all launches read into registers."""
        return self.flops / 2 * self.work.loads_per_fma * self.work.element_bytes

    @cached_property
    def memory_s(self) -> FloatArray:
        """``(n,)`` seconds of the traffic to device memory."""
        memory = memory_s(self.work, self.global_bytes, self.limits)
        unknown = np.isnan(self.global_bytes) & np.isnan(self.work.device_bytes)
        return np.where(unknown, np.nan, memory)

    @cached_property
    def analytic_s(self) -> FloatArray:
        """``(n,)`` sum of all times, as if nothing overlapped: how much does is left to be learned."""
        return sum_of(self.times.total) + self.memory_s

    def over_bound(self, seconds: FloatArray) -> FloatArray:
        """``(n,)`` log2 of times over the roofline."""
        return log2_ratio(seconds, self.work.bound_s)


def sum_of(values: FloatArray) -> FloatArray:
    """Sum over launches, NaN where there is none."""
    return np.where(np.isnan(values).all(axis=1), np.nan, np.nansum(values, axis=1))


def log2_ratio(amount: FloatArray, reference: FloatArray) -> FloatArray:
    """log2 of a ratio of counts that can be 0, floored at 1/1024."""
    return np.asarray(np.log2(np.maximum(amount / reference, 1.0 / 1024)))


def _total(
    name: str, unit: str, formula: Callable[[LaunchFacts], FloatArray], *tags: Tag
) -> Feature[LaunchFacts]:
    """A feature of all launches together; its formula gives ``(n,)`` values."""
    return Feature(name, unit, "launch", formula, tags)


def _dominant(
    name: str, unit: str, formula: Callable[[LaunchFacts], FloatArray], *tags: Tag
) -> Feature[LaunchFacts]:
    """A feature of the dominant launch; its formula gives ``(n, l)`` values of all."""
    return Feature(name, unit, "launch", lambda k: formula(k)[k.dominant], tags)


LAUNCH_FEATURES: tuple[Feature[LaunchFacts], ...] = (
    _dominant("log2_blocks", "log2(1)", lambda k: np.log2(k["blocks"]), "kernel"),
    _dominant("log2_threads_per_block", "log2(1)", lambda k: np.log2(k["threads_per_block"]), "kernel"),
    _dominant("log2_vthreads", "log2(1)", lambda k: np.log2(k["vthreads"]), "kernel"),
    _dominant("log2_shared_bytes", "log2(byte)", lambda k: np.log2(1.0 + k["shared_bytes"]), "kernel"),
    _dominant(
        "log2_shared_bytes_per_thread",
        "log2(byte)",
        lambda k: np.log2(1.0 + k["shared_bytes"] / k["threads_per_block"]),
    ),
    _dominant("log2_local_bytes", "log2(byte)", lambda k: np.log2(1.0 + k["local_bytes"]), "kernel"),
    _dominant(
        "log2_flops_per_thread",
        "log2(flop)",
        lambda k: np.log2(1.0 + k["flops"] / (k["blocks"] * k["threads_per_block"])),
        "kernel",
    ),
    _dominant("vector_bytes", "byte", lambda k: k["vector_bytes"], "kernel"),
    _dominant("log2_unroll_steps", "log2(1)", lambda k: np.log2(1.0 + k["unroll_steps"]), "kernel"),
    _dominant("log2_blocks_per_sm", "log2(1)", lambda k: np.log2(k.occupancy.blocks_per_sm)),
    _dominant("occupancy", "1", lambda k: k.occupancy.resident_share),
    _dominant("lane_share", "1", lambda k: k.occupancy.lane_share),
    _dominant("log2_busy_warps_per_sm", "log2(1)", lambda k: np.log2(k.occupancy.busy_warps)),
    _dominant("log2_fractional_waves", "log2(1)", lambda k: np.log2(k.occupancy.fractional_waves)),
    _dominant("log2_waves", "log2(1)", lambda k: np.log2(k.occupancy.waves)),
    _dominant("idle_share", "1", lambda k: 1.0 - k.occupancy.fractional_waves / k.occupancy.waves),
    _dominant("log2_imbalance", "log2(1)", lambda k: np.log2(k.occupancy.imbalance)),
    _dominant("active_sm_share", "1", lambda k: k.occupancy.active_sms / k.limits.sms[:, None]),
    _total(
        "launches",
        "1",
        lambda k: (~np.isnan(k["blocks"])).sum(axis=1).astype(np.float64),
        "launches",
        "kernel",
        "any_sms",
    ),
    _total("log2_global_bytes", "log2(byte)", lambda k: np.log2(1.0 + k.global_bytes)),
    _total("log2_shared_traffic_bytes", "log2(byte)", lambda k: np.log2(1.0 + k.shared_bytes)),
    _total("log2_register_bytes", "log2(byte)", lambda k: np.log2(1.0 + k.register_bytes)),
    _total("log2_global_intensity", "log2(flop/byte)", lambda k: log2_ratio(k.flops, 1.0 + k.global_bytes)),
    _total("log2_shared_intensity", "log2(flop/byte)", lambda k: log2_ratio(k.flops, 1.0 + k.shared_bytes)),
    _total(
        "log2_register_intensity", "log2(flop/byte)", lambda k: log2_ratio(k.flops, 1.0 + k.register_bytes)
    ),
    _total(
        "log2_load_redundancy",
        "log2(1)",
        lambda k: log2_ratio(sum_of(k["global_load_bytes"]), k.work.min_bytes),
        "kernel",
        "any_sms",
    ),
    _total(
        "log2_store_redundancy",
        "log2(1)",
        lambda k: log2_ratio(sum_of(k["global_store_bytes"]), k.work.min_bytes),
        "kernel",
        "any_sms",
    ),
    _total("log2_extra_flops", "log2(1)", lambda k: log2_ratio(k.flops, k.work.flops), "kernel", "any_sms"),
    _total(
        "log2_compute_over_roofline",
        "log2(1)",
        lambda k: k.over_bound(sum_of(k.times.compute)),
        "component_time",
    ),
    _total(
        "log2_operands_over_roofline",
        "log2(1)",
        lambda k: k.over_bound(sum_of(k.times.operands)),
        "component_time",
    ),
    _total("log2_l2_over_roofline", "log2(1)", lambda k: k.over_bound(sum_of(k.times.l2)), "component_time"),
    _total(
        "log2_latency_over_roofline",
        "log2(1)",
        lambda k: k.over_bound(sum_of(k.times.latency)),
        "component_time",
    ),
    _total("log2_memory_over_roofline", "log2(1)", lambda k: k.over_bound(k.memory_s), "component_time"),
    _total("log2_analytic_over_roofline", "log2(1)", lambda k: k.over_bound(k.analytic_s)),
    _total("log2_analytic_s", "log2(s)", lambda k: np.log2(k.analytic_s)),
)
LAUNCH_COLUMNS = columns_of(LAUNCH_FEATURES)
