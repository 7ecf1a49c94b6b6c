"""No kernel is faster than its arithmetic or its bytes allow; bounds are from datasheets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.dataset import load_dataset
from costmodel.records import Device, Workload, find_device
from costmodel.records._peak_rates import least_latency_s

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize(
    ("device", "workload", "seconds"),
    [
        # 2.2e12 operations at 132 SMs x 256 x 1.98 GHz = 66.9e12 a second.
        ("NVIDIA H100 80GB HBM3", "matmul-m65536-n8192-k2048", 2 * 65536 * 2048 * 8192 / 66.9e12),
        ("NVIDIA H100 80GB HBM3", "matmul-m65536-n8192-k2048-float16", 2 * 65536 * 2048 * 8192 / 1070.5e12),
        # 4.3 MB, which the T4's 4 MiB of cache do not hold, at 320e9 bytes a second.
        ("Tesla T4", "matmul-m16-n1024-k1024", 4 * (2 * 16 * 1024 + 1024 * 1024) / 320e9),
        ("Tesla V100-PCIE-32GB", "matmul-m4096-n4096-k4096", 2 * 4096**3 / 14.13e12),
    ],
)
def test_the_slower_of_arithmetic_and_bytes_counts(device: str, workload: str, seconds: float) -> None:
    assert least_latency_s(Workload.parse(workload), find_device(device)) == pytest.approx(seconds, rel=2e-3)


def test_tf32_has_half_of_the_rate_of_float16() -> None:
    h100, f32 = find_device("NVIDIA H100 80GB HBM3"), Workload.parse("matmul-m8192-n8192-k8192")
    f16 = Workload.parse("matmul-m8192-n8192-k8192-float16")
    assert least_latency_s(f32, h100, is_tf32=True) == pytest.approx(2 * least_latency_s(f16, h100))


def test_what_a_cache_holds_need_not_come_from_the_memory() -> None:
    gpu = Device("G", "cuda", "", 100, 1000.0, bandwidth_gb_s=100.0, l2_bytes=2**20)
    held, larger = (Workload.parse(f"softmax-m{rows}-n128") for rows in (1024, 1025))
    assert least_latency_s(held, gpu) == pytest.approx(2**20 / (100 * 128 * 1e9))
    assert least_latency_s(larger, gpu) == pytest.approx(2**20 * 1025 / 1024 / 100e9)


def test_what_nobody_knows_bounds_nothing() -> None:
    unknown = Device("G", "cuda", "", 0, 0.0)
    assert least_latency_s(Workload.parse("matmul-m64-n64-k64"), unknown) == 0
    assert least_latency_s(Workload.parse("hub.convolution-w4096-h4096"), find_device("Tesla T4")) == 0


NAMES = ["matmul-m512-n512-k512", "matmul-m4096-n4096-k64-float16", "softmax-m8192-n4096", "softmax-m64-n64"]


@given(st.sampled_from(NAMES), st.sampled_from(["H100 SXM", "Tesla T4", "MI250X"]), st.integers(1, 39))
def test_more_sms_are_never_worse(name: str, device: str, sms: int) -> None:
    found = find_device(device)
    fewer, more = (least_latency_s(Workload.parse(name), found, each) for each in (sms, sms + 1))
    assert 0 < more <= fewer


@pytest.mark.parametrize("dataset", ["sm-budgets", "cuda-sm-budgets", "triton-sm-budgets", "wide-sm-budgets"])
def test_no_measurement_is_faster(dataset: str) -> None:
    data = load_dataset(dataset)
    devices = {each.device.name: each.device for each in data.platforms}
    rows = data.rows[np.isfinite(data.rows["latency_s"])]
    fastest = rows.groupby(["device", "workload", "sms_granted"], observed=True)["latency_s"].min()
    for (device, name, sms), seconds in fastest.items():
        assert least_latency_s(Workload.parse(name), devices[device], int(sms)) <= seconds
