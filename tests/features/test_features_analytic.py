"""Analytic times: never slower with more of anything, and what they assume of registers."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_kernels import recorded_candidates, recorded_kernels

from costmodel.features import extract
from costmodel.records import Candidate, Platform
from costmodel.testing import LANDSCAPE_DEVICE

DEVICE = msgspec.structs.replace(LANDSCAPE_DEVICE, tensor_flops_per_sm_clock=4096)
TIMES = ("compute", "operands", "l2", "latency", "memory", "analytic")
SIZES = (
    *("clock_mhz", "bandwidth_gb_s", "l2_bytes", "shared_bytes_per_sm", "registers_per_sm"),
    *("max_threads_per_sm", "max_blocks_per_sm", "fp32_lanes_per_sm", "tensor_flops_per_sm_clock"),
)


@pytest.fixture(scope="module")
def sample() -> list[Candidate]:
    return recorded_candidates()[::199]


def log2_seconds(candidates: list[Candidate], platform: Platform) -> np.ndarray:
    """``(n, times)``, and the analytic column itself behind them."""
    table = extract(candidates, [platform] * len(candidates))
    roofline = table.values[:, table.index("log2_roofline_s")]
    over = [roofline + table.values[:, table.index(f"log2_{name}_over_roofline")] for name in TIMES]
    return np.column_stack([*over, table.values[:, table.index("log2_analytic_s")]])


@settings(max_examples=30)
@given(fewer=st.integers(1, 300), more=st.integers(1, 300))
def test_no_time_rises_with_sms(sample, fewer, more) -> None:
    fewer, more = sorted((fewer, more))
    platforms = [Platform(DEVICE, "green_context", sms, sms) for sms in (fewer, more)]
    before, after = (log2_seconds(sample, platform)[:, -1] for platform in platforms)
    assert (after <= before + 1e-9).all()


@settings(max_examples=30)
@given(size=st.sampled_from(SIZES), factor=st.floats(1.0, 16.0), sms=st.sampled_from([1, 8, 132]))
def test_no_time_rises_with_the_size_of_anything(sample, size, factor, sms) -> None:
    value = getattr(DEVICE, size) * factor
    larger = msgspec.structs.replace(DEVICE, **{size: value if size in SIZES[:2] else int(value)})
    before, after = (
        log2_seconds(sample, Platform(device, "green_context", sms, sms))[:, -1]
        for device in (DEVICE, larger)
    )
    assert (after <= before + 1e-9).all()


def test_more_sms_help_while_there_are_blocks_for_them(sample) -> None:
    small, large = (
        log2_seconds(sample, Platform(DEVICE, "green_context", sms, sms))[:, -1] for sms in (8, 128)
    )
    assert np.median(small - large) > 1.0


def test_the_analytic_column_is_the_sum_of_its_parts(sample) -> None:
    seconds = 2.0 ** log2_seconds(sample, Platform(DEVICE, "whole", 132, 132))
    np.testing.assert_allclose(seconds[:, 5], seconds[:, 6], rtol=1e-9)
    assert (seconds[:, -1] <= seconds[:, :5].sum(axis=1) * (1 + 1e-9)).all()
    np.testing.assert_allclose(seconds[:, -1], seconds[:, :5].sum(axis=1), rtol=0.01)


def test_misses_of_the_cache_cost_bandwidth(sample) -> None:
    small = msgspec.structs.replace(DEVICE, l2_bytes=1 << 16)
    cached, missing = (
        log2_seconds(sample, Platform(device, "whole", 132, 132))[:, 4] for device in (DEVICE, small)
    )
    assert (missing >= cached).all()
    assert (missing > cached + 0.5).mean() > 0.5


def test_estimated_occupancy_is_near_that_of_the_compiled_kernels() -> None:
    """Registers of the compiler, in units of 256 a warp, give the true number of blocks on an SM."""
    single = [(c, r[0]) for c, r in recorded_kernels() if len(r) == 1 and len(c.launches) == 1]
    candidates = [candidate for candidate, _ in single]
    table = extract(candidates, [Platform(DEVICE, "whole", 132, 132)] * len(candidates))
    launches = [candidate.launches[0] for candidate in candidates]
    threads, shared = np.array([(launch.threads_per_block, launch.shared_bytes) for launch in launches]).T
    registers = np.array([resources.registers_per_thread for _, resources in single])
    warps = -(-threads // 32)
    by_registers = 4 * (512 // -(-registers // 8) // 8) // warps
    fitting = np.minimum.reduce(
        [by_registers, 228 * 1024 // (shared + 1024), 2048 // threads, [32] * len(threads)]
    )
    error = np.abs(table.values[:, table.index("log2_blocks_per_sm")] - np.log2(np.maximum(1, fitting)))
    assert len(single) > 6000
    assert np.mean(error < 1e-9) > 0.5
    assert np.mean(error <= 1.0) > 0.9
