"""Latencies carried over to hardware that nobody has."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Config, Device, Platform, Workload, find_device
from costmodel.records import hypothetical as made
from costmodel.records._candidate import KernelLaunch
from costmodel.records._peak_rates import held_share
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape
from costmodel.transfer._carry import Spread, carry_over
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

H100 = find_device("H100 SXM")
BETTER = {"sms": (64, 65, 132, 200, 264), "bandwidth": (500, 3352.3, 9000), "clock": (900, 1980, 3000),
          "l2": (2**20, 52_428_800, 2**29), "tensor": (1024, 4096, 9999), "fp32": (64, 128, 512)}  # fmt: skip
counts = st.integers(0, 10**12)
launches = st.builds(
    KernelLaunch,
    blocks=st.integers(1, 10**6),
    threads_per_block=st.integers(1, 1024),
    shared_bytes=st.integers(0, 230_000),
    local_bytes=st.integers(0, 2000),
    global_load_bytes=counts,
    global_store_bytes=counts,
    flops=counts,
    device_bytes=counts,
)


def kernel(*launched: KernelLaunch) -> Candidate:
    return Candidate(Workload("test.kernel", {"x": 1}, ""), "test", Config({"tile": 1}), launched)


def on(device: Device, sms: int | None = None) -> Platform:
    return Platform(device, "whole", sms or device.sms, sms or device.sms)


def carried(latency_s: float, candidate: Candidate, to: Device) -> float:
    return float(carry_over(np.array([latency_s]), [candidate], [on(H100)], [on(to)]).latency_s[0])


@settings(max_examples=60)
@given(st.lists(launches, max_size=3), st.floats(1e-6, 1.0), st.sampled_from(sorted(BETTER)))
def test_nothing_gets_slower_on_better_hardware(launched, latency_s, name) -> None:
    found = [carried(latency_s, kernel(*launched), made(H100, **{name: value})) for value in BETTER[name]]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(found))
    assert min(found) > 0


@settings(max_examples=40)
@given(st.lists(launches, max_size=3), st.floats(1e-6, 1.0))
def test_on_the_same_hardware_a_latency_is_itself(launched, latency_s) -> None:
    same = carry_over(np.array([latency_s]), [kernel(*launched)], [on(H100)], [on(made(H100, sms=132))])
    assert same.latency_s[0] == pytest.approx(latency_s)
    assert same.distances.tolist() == [[0.0, 0.0, 0.0]]


def test_work_goes_with_the_blocks_of_the_fullest_sm_beside_a_start() -> None:
    full = kernel(KernelLaunch(blocks=264, threads_per_block=1024, flops=10**9))
    assert carried(102e-6, full, made(H100, sms=131)) == pytest.approx(2e-6 + 100e-6 * ratio(3, 2), rel=1e-9)
    assert carried(102e-6, full, made(H100, sms=263)) == pytest.approx(102e-6)
    assert carried(102e-6, full, made(H100, sms=264)) < 65e-6
    assert carried(102e-6, full, made(H100, clock=990)) == pytest.approx(202e-6)
    assert carried(102e-6, full, made(H100, bandwidth=1)) == pytest.approx(102e-6)


def test_lanes_count_as_far_as_long_kernels_reach_their_rate() -> None:
    full = kernel(KernelLaunch(blocks=10**6, threads_per_block=1024, flops=10**12))
    l4 = find_device("NVIDIA L4")
    alike = structs.replace(l4, name="as an L4, with more power")
    both = [carried(1e-2, full, device) - 2e-6 for device in (l4, alike)]
    assert both[0] / both[1] == pytest.approx(0.93 / held_share(l4), rel=1e-6)
    assert held_share(l4) < 0.4


def ratio(more: int, fewer: int) -> float:
    """Of the work of an SM with so many blocks of 32 warps, of which it runs two; 8 warps keep it busy."""
    return float(np.hypot(more, more / 2 / 4) / np.hypot(fewer, fewer / 2 / 4))


def test_few_warps_that_hide_no_latency_run_beside_each_other() -> None:
    small = kernel(KernelLaunch(blocks=132, threads_per_block=32, flops=10**9))
    large = kernel(KernelLaunch(blocks=132, threads_per_block=1024, flops=10**9))
    slowdowns = [carried(1e-3, each, made(H100, sms=33)) / 1e-3 for each in (small, large)]
    assert slowdowns[0] < 1.2
    assert 3.5 < slowdowns[1] < 4.0


def test_traffic_that_the_cache_does_not_hold_goes_with_the_bandwidth() -> None:
    moving = kernel(KernelLaunch(blocks=10**5, threads_per_block=256, device_bytes=10**9))
    half = carried(400e-6, moving, made(H100, bandwidth=3352.3 / 2))
    traffic_s = (10**9 - 0.3 * 52_428_800) / (0.8 * 3352.3e9)
    assert half == pytest.approx(400e-6 + traffic_s * 0.9 * 400e-6 / (2e-6 + traffic_s), rel=1e-6)
    held = kernel(KernelLaunch(blocks=10**5, threads_per_block=256, device_bytes=15 * 2**20))
    assert carried(400e-6, held, made(H100, bandwidth=100)) == pytest.approx(400e-6)
    assert carried(400e-6, held, made(H100, bandwidth=100, l2_bytes=2**20)) > 500e-6


def test_of_a_kernel_without_launches_the_middle_of_clocks_and_lanes_is_taken() -> None:
    assert carried(102e-6, kernel(), made(H100, sms=66)) == pytest.approx(202e-6)
    assert carried(102e-6, kernel(), made(H100, fp32_lanes_per_sm=512)) == pytest.approx(52e-6)


def test_recorded_budgets_are_foretold() -> None:
    data = load_dataset("h100-sm-budgets")
    rows = data.rows[np.isfinite(data.rows["latency_s"])]
    known = rows.pivot_table(index="candidate", columns="sms_granted", values="latency_s").dropna()
    kernels = [data.candidates[i] for i in known.index]
    parts = [on(H100, 16)] * len(kernels)
    found = carry_over(known[132].to_numpy(), kernels, [on(H100)] * len(kernels), parts)
    error = np.abs(np.log(known[16].to_numpy() / found.latency_s))
    assert np.median(error) < 0.15
    assert np.median(np.log(known[16] / known[132])) > 0.6


def test_a_spread_holds_as_many_as_it_says_and_grows_with_the_distance() -> None:
    rng = np.random.default_rng(0)
    distances = np.column_stack([np.ones(4000), rng.uniform(0, 2, 4000), np.zeros(4000)])
    error = 0.1 * (0.2 + distances[:, 1]) * rng.standard_normal(4000)
    spread = Spread.fitted(distances[:2000], np.where(rng.random(2000) < 0.1, np.nan, error[:2000]))
    low, high = spread.ends(distances[2000:])
    held = (low <= error[2000:]) & (error[2000:] <= high)
    near = distances[2000:, 1] < 0.5
    assert held.mean() == pytest.approx(0.9, abs=0.03)
    assert held[near].mean() == pytest.approx(0.9, abs=0.06)
    assert (high - low)[near].mean() < 0.5 * (high - low)[~near].mean()
    assert spread.ends(np.zeros((1, 3))) == (0.0, 0.0)


WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")


@pytest.fixture(scope="module")
def data():
    return gpu_landscape(workloads=WORKLOADS, configs_per_workload=16, sms=(8, 132))


@pytest.fixture(scope="module")
def model(data):
    return train(data, "kernel-ridge+intervals")


@pytest.mark.parametrize("name", ["sms", "bandwidth"])
def test_predictions_do_not_rise_with_sms_and_bandwidth(model, data, name) -> None:
    values = {"sms": (4, 8, 20, 100, 132, 133, 200), "bandwidth": (100, 1000, 3000, 9000)}[name]
    tables = [
        model.predict(WORKLOADS[0], kernels=data, device=made(LANDSCAPE_DEVICE, l2=2**20, **{name: value}))
        for value in values
    ]
    latency_s = np.array([each.set_index("candidate_id")["latency_s"].sort_index() for each in tables])
    assert (np.diff(latency_s, axis=0) <= 1e-15).all()
    assert (latency_s[-1] < latency_s[0]).all()
    for each in tables:
        assert ((each["low_s"] <= each["latency_s"]) & (each["latency_s"] <= each["high_s"])).all()
        assert each["note"].str.contains("hypothetical, carried over from").all()


def test_few_sms_are_those_of_the_device_that_it_was_made_of(model, data) -> None:
    part = model.predict(WORKLOADS[0], kernels=data, sms=8)
    whole = model.predict(WORKLOADS[0], kernels=data, device=made(LANDSCAPE_DEVICE, sms=8))
    np.testing.assert_allclose(whole["latency_s"], part["latency_s"])
    np.testing.assert_allclose(whole["high_s"], part["high_s"])


def test_what_was_carried_further_is_less_certain(model, data) -> None:
    def width(**changes: float) -> float:
        found = model.predict(WORKLOADS[0], kernels=data, device=made(LANDSCAPE_DEVICE, **changes))
        return float(np.log(found["high_s"] / found["low_s"]).mean())

    assert width(sms=132) < width(clock=2100) < width(clock=9000)


def test_that_the_real_device_was_never_measured_is_told(model, data) -> None:
    found = model.predict(WORKLOADS[0], kernels=data, device=made("H200", sms=64))
    assert set(found["note"]) == {
        "hypothetical, carried over from NVIDIA H200, never measured on this device either"
    }


def test_a_model_of_ranks_alone_is_refused(data) -> None:
    with pytest.raises(CostModelError, match="predict latencies"):
        train(data, "xgboost-rank").predict(WORKLOADS[0], kernels=data, device=made(LANDSCAPE_DEVICE, sms=8))
