"""Latencies of library calls on GPUs that nobody measured: the law, measurements, the shipped models."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from costmodel.arrays import FloatArray
from costmodel.cli._app import app
from costmodel.errors import CostModelError
from costmodel.records import find_device, hypothetical
from costmodel.records._device_table import read_devices
from costmodel.records._library_calls import CALL_KINDS
from costmodel.records._peak_rates import least_latency_s
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.transfer._call_latency import (
    RATES,
    CallModel,
    LibraryCalls,
    can_be_predicted,
    computing_s,
    law,
    least_s,
    load_call_models,
    moving_s,
    save_call_models,
    shipped_call_models,
)
from costmodel.transfer.prediction._calls import (
    CallPrediction,
    MeasuredCall,
    compare_devices,
    is_call,
    predict_call,
)

pytestmark = pytest.mark.white_box

GPU = Device(
    "A GPU",
    "cuda",
    "sm_90",
    100,
    1000.0,
    bandwidth_gb_s=2000.0,
    l2_bytes=2**25,
    tensor_flops_per_sm_clock=4096,
)


def products(
    m: object, n: object, k: object, device: Device = GPU, group: str = "lib|bfloat16"
) -> LibraryCalls:
    sizes = {
        name: np.atleast_1d(np.asarray(x, dtype=float)) for name, x in zip("mnk", (m, n, k), strict=True)
    }
    full = np.broadcast_arrays(*sizes.values())
    sizes = dict(zip("mnk", full, strict=True))
    groups = np.full(len(full[0]), group)
    return LibraryCalls(groups, CALL_KINDS["gemm"].work(sizes, (group.split("|")[1],)), device)


def model(**changes: object) -> CallModel:
    plain = CallModel(
        groups=np.array(["lib|bfloat16"]),
        generations=np.array([4]),
        law=np.log([[3e-6], [1.2], [1.1]]),
        devices=np.array(["A GPU"]),
        rates=np.zeros((RATES, 1)),
        rates_std=np.full(RATES, 0.2),
        spans=np.array([[100.0, 150.0], [1000.0, 4000.0], [300.0, 1000.0]]),
        splits=np.zeros((1, 1), np.uint8),
        thresholds=np.zeros((1, 1)),
        leaves=np.zeros((1, 2)),
        measured=np.array([0, 8, 32]),
        widths=np.array([2.0, 1.8, 1.7]),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_the_fullest_sm_sets_the_pace() -> None:
    """A product whose tiles fill the SMs once takes half of one that needs two rounds, whatever the rest."""
    one, two = (computing_s(products(128 * rows, 128 * 10, 128))[0] for rows in (10, 20))
    a_little_more = computing_s(products(128 * 10 + 1, 128 * 10, 128))[0]
    assert two == pytest.approx(2 * one, rel=0.3)
    assert one < a_little_more <= two * (1 + 1e-9)


def test_arithmetic_never_beats_the_peak() -> None:
    rng = np.random.default_rng(0)
    m, n, k = 2 ** rng.uniform(0, 14, (3, 200))
    calls = products(np.ceil(m), np.ceil(n), np.ceil(k))
    peak = GPU.sms * GPU.clock_mhz * 1e6 * GPU.tensor_flops_per_sm_clock
    assert (computing_s(calls) >= calls.work.flops / peak * (1 - 1e-9)).all()


def moved(calls: LibraryCalls) -> float:
    return float(calls.work.load_bytes[0] + calls.work.store_bytes[0])


def test_traffic_goes_to_the_cache_where_it_fits() -> None:
    fits, exceeds = moving_s(products(256, 1024, 1024))[0], moving_s(products(256, 65536, 16384))[0]
    bytes_of = [
        float(c.work.load_bytes[0] + c.work.store_bytes[0])
        for c in (products(256, 1024, 1024), products(256, 65536, 16384))
    ]
    assert fits < bytes_of[0] / 2000e9
    assert exceeds == pytest.approx(bytes_of[1] / 2000e9, rel=0.01)


def measured_latencies(calls: LibraryCalls, rates: FloatArray) -> FloatArray:
    logs = np.log([computing_s(calls), moving_s(calls)])
    said = law(model().law[:, np.zeros(len(calls.groups), int)], rates, logs, calls.bits)
    return np.asarray(np.exp(said))


def test_a_few_measurements_correct_the_rates_of_a_device() -> None:
    """A GPU that reaches less of its datasheet is known after eight measurements, also for other calls."""
    other = replace_name(GPU, "Another GPU")
    rng = np.random.default_rng(1)
    m, n, k = np.ceil(2 ** rng.uniform(5, 13, (3, 60)))
    calls = products(m, n, k, other)
    rates = np.array([0.1, 0.3, 0.2, 0.0, 0.0])
    truth = measured_latencies(calls, rates)
    few = products(m[:8], n[:8], k[:8], other)
    before, after = model().predict(calls), model().predict(calls, few, truth[:8])
    error = [np.median(np.abs(found.latency_s / truth - 1)[8:]) for found in (before, after)]
    assert error[0] > 0.15
    assert error[1] < 0.06
    narrower = np.log(after.high_s / after.low_s) < np.log(before.high_s / before.low_s)
    assert narrower.all()


def test_a_device_that_was_measured_is_known_better_than_another() -> None:
    ours = model().predict(products(512, 512, 512))
    theirs = model().predict(products(512, 512, 512, replace_name(GPU, "Another GPU")))
    assert ours.latency_s == pytest.approx(theirs.latency_s)
    assert (np.log(ours.high_s / ours.low_s) < np.log(theirs.high_s / theirs.low_s)).all()


def replace_name(device: Device, name: str) -> Device:
    return msgspec.structs.replace(device, name=name)


def test_a_file_of_models_is_read_back(tmp_path: Path) -> None:
    save_call_models(dict.fromkeys(CALL_KINDS, model()), tmp_path / "models.npz")
    read = load_call_models(tmp_path / "models.npz")["gemm"]
    calls = products(64, 4096, 4096)
    assert read.predict(calls).latency_s == model().predict(calls).latency_s


@pytest.mark.parametrize(
    "changes",
    [
        {"law": np.zeros((3, 2))},
        {"leaves": np.full((1, 2), np.nan)},
        {"splits": np.zeros(1, np.uint8)},
        {"splits": np.full((1, 1), 13, np.uint8)},
        {"rates": np.array([["a"]] * RATES)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, FloatArray]) -> None:
    with pytest.raises(CostModelError, match="arrays whose shapes fit"):
        model(**changes)


def test_a_framework_that_nobody_measured_is_refused() -> None:
    with pytest.raises(CostModelError, match=r"must be one of lib\|bfloat16"):
        model().predict(products(64, 64, 64, group="mine|bfloat16"))


CALLS = [
    "aiconfigurator.gemm.fp8-m64-n4096-k4096",
    "aiconfigurator.context_attention.bfloat16.bfloat16-b1-s4096-h32-g8-d128",
    "aiconfigurator.generation_attention.bfloat16.bfloat16-b16-s1-h32-g8-d128-p4095",
    "aiconfigurator.moe.bfloat16.balanced-m128-h4096-i1536-k8-e128-t1-p1",
    "aiconfigurator.scale_matrix.fp8-m4096-k4096",
    "matmul-m512-n4096-k4096-float16",
]


def predict(name: str, device: Device) -> list[CallPrediction]:
    return predict_call(Workload.parse(name), device)


@pytest.mark.parametrize("name", CALLS)
def test_devices_are_answered_with_an_interval_or_a_reason(name: str) -> None:
    """Of all GPUs that are known; those of the generations that were learned from have intervals."""
    bounded, unbounded = set(), set()
    for device in (each.device for each in read_devices()):
        try:
            found = predict(name, device)
        except CostModelError:
            assert device.kind != "cuda" or not can_be_predicted(device) or "fp8" in name, device.name
            continue
        for each in found:
            if each.note:
                assert each.low_s is each.high_s is None
                unbounded.add(device.name)
            else:
                assert each.low_s is not None
                assert each.high_s is not None
                assert 0 < each.low_s <= each.latency_s < each.high_s < np.inf
                bounded.add(device.name)
    assert {"NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA B200"} <= bounded
    assert "Jetson Orin Nano 8GB" in unbounded or "fp8" in name
    assert not bounded & unbounded


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Tesla V100-PCIE-32GB", "before Ampere"),
        ("NVIDIA L4", "less than 1/2 of the bandwidth"),
        ("NVIDIA A2", "less than 1/2 of the SMs"),
        ("NVIDIA A10", "less than 1/2 of the Tensor rate"),
        ("NVIDIA GeForce RTX 4090", "no GeForce was measured"),
    ],
)
def test_a_device_beyond_all_that_were_measured_has_no_interval(name: str, why: str) -> None:
    for found in predict(CALLS[5], find_device(name)):
        assert why in found.note
        assert found.low_s is found.high_s is None


def test_a_huge_device_has_no_interval() -> None:
    (made_up,) = predict(CALLS[5], hypothetical("NVIDIA H200", bandwidth=20_000))[:1]
    assert "more than 2 times the bandwidth" in made_up.note


def test_types_of_one_generation_have_no_interval() -> None:
    found = predict("aiconfigurator.gemm.sq-m64-n4096-k4096", find_device("NVIDIA H200"))
    assert all("one generation" in each.note for each in found)


@pytest.mark.parametrize(
    ("types", "can", "cannot"),
    [
        ("fp8", "NVIDIA L40S", "NVIDIA A100-SXM4-80GB"),
        ("fp8_block", "NVIDIA H200", "NVIDIA RTX A6000"),
        ("nvfp4", "NVIDIA B200", "NVIDIA H200"),
    ],
)
def test_a_device_that_cannot_multiply_a_type_is_refused(types: str, can: str, cannot: str) -> None:
    call = f"aiconfigurator.gemm.{types}-m64-n4096-k4096"
    assert predict(call, find_device(can))
    with pytest.raises(CostModelError, match=f"A GPU that multiplies {types} must be of sm_"):
        predict(call, find_device(cannot))


def test_another_vendor_is_refused() -> None:
    with pytest.raises(CostModelError, match="NVIDIA GPUs alone, but got AMD Instinct MI300X"):
        predict(CALLS[0], find_device("MI300X"))


def test_a_geforce_halves_its_rate_where_sums_are_in_float32() -> None:
    """An RTX 5090 does not compute a large product faster than 209.5e12 operations a second."""
    large = "matmul-m8192-n8192-k8192-float16"
    geforce = find_device("NVIDIA GeForce RTX 5090")
    assert min(each.latency_s for each in predict(large, geforce)) > 2 * 8192**3 / 209.5e12
    twin = replace_name(geforce, "A twin without limit")
    assert computing_s(products(8192, 8192, 8192, geforce)) == pytest.approx(
        2 * computing_s(products(8192, 8192, 8192, twin))
    )


@pytest.mark.parametrize("name", ["NVIDIA L4", "NVIDIA A100-SXM4-80GB", "NVIDIA H200", "NVIDIA B200"])
def test_no_product_is_below_what_the_hardware_allows(name: str) -> None:
    device = find_device(name)
    for size in (64, 512, 4096, 16384):
        workload = Workload("matmul", {"m": size, "n": 4096, "k": 4096}, "float16")
        for found in predict_call(workload, device):
            assert (found.low_s or found.latency_s) >= least_latency_s(workload, device) * (1 - 1e-9)


def test_what_would_be_below_the_peak_still_has_an_interval() -> None:
    calls = products(8192, 8192, 8192)
    too_fast = model(law=np.log([[3e-6], [0.01], [0.01]])).predict(calls)
    assert too_fast.latency_s == too_fast.low_s == pytest.approx(least_s(calls))
    assert too_fast.high_s > 1.1 * too_fast.latency_s


def test_a_faster_memory_does_not_slow_a_call_that_waits_for_it() -> None:
    workload = Workload.parse("matmul-m8-n16384-k16384-float16")
    real = predict_call(workload, find_device("NVIDIA L40S"))[0]
    faster = predict_call(workload, hypothetical("NVIDIA L40S", bandwidth=1728))[0]
    assert faster.latency_s < 0.8 * real.latency_s


def test_measured_calls_move_others() -> None:
    device = find_device("NVIDIA L4")
    asked, seen = (
        Workload.parse("matmul-m512-n4096-k4096-float16"),
        Workload.parse("matmul-m512-n8192-k4096-float16"),
    )
    before = {each.framework: each for each in predict_call(asked, device)}
    known = {each.framework: each for each in predict_call(seen, device)}
    slower = [MeasuredCall(seen.name, "vllm", 1.5 * known["vllm"].latency_s)]
    after = {each.framework: each for each in predict_call(asked, device, slower)}
    assert after["vllm"].latency_s > 1.15 * before["vllm"].latency_s


def test_what_is_no_call_is_told() -> None:
    assert is_call(Workload.parse("matmul-m1-n1-k1-float16"))
    assert is_call(Workload.parse("matmul-m1-n1-k1"))
    assert not is_call(Workload.parse("conv2d-n1-c256-h14-w14-o256-k3-s1"))
    with pytest.raises(CostModelError, match="must be a product in float16 or float32"):
        predict_call(Workload.parse("conv2d-n1-c256-h14-w14-o256-k3-s1"), GPU)
    with pytest.raises(CostModelError, match="The types of gemm must be one of"):
        predict_call(Workload.parse("aiconfigurator.gemm.fp3-m1-n1-k1"), GPU)
    with pytest.raises(CostModelError, match="must have the sizes k"):
        predict_call(Workload.parse("aiconfigurator.gemm.fp8-m1-n1"), GPU)


def test_the_command_prints_frameworks_with_intervals() -> None:
    result = CliRunner().invoke(
        app, ["model", "predict", "calls", CALLS[0], "--device", "L4"], env={"COLUMNS": "120"}
    )
    assert result.exit_code == 0, result.output
    assert "vllm" in result.output
    assert "90 % interval" in result.output
    assert "no interval, as it has less than 1/2 of the bandwidth" in result.output


def test_the_command_tells_of_every_device(tmp_path: Path) -> None:
    out = tmp_path / "gpus.json"
    command = ["model", "predict", "calls", CALLS[5], "--device", "all", "--json", str(out)]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "150"})
    assert result.exit_code == 0, result.output
    rows = {each["device"]: each for each in json.loads(out.read_text())["devices"]}
    assert len(rows) == len(read_devices())
    assert all(each["latency_s"] or each["note"] for each in rows.values())
    h200 = predict(CALLS[5], find_device("H200"))[0]
    told = rows["NVIDIA H200"]
    assert (told["latency_s"], told["low_s"], told["high_s"]) == h200[1:4]
    assert rows["AMD Instinct MI300X"]["latency_s"] is None
    assert "NVIDIA GPUs alone" in rows["AMD Instinct MI300X"]["note"]
    assert rows["NVIDIA L4"]["latency_s"] > 0
    assert rows["NVIDIA L4"]["low_s"] is None
    assert f"{len(rows)} devices" in result.output


def test_devices_are_compared_only_where_both_have_intervals() -> None:
    h100, l40s, l4 = (find_device(name) for name in ("H100 SXM", "L40S", "L4"))
    product = Workload.parse(CALLS[5])
    low, middle, high = compare_devices(product, h100, l40s) or (0, 0, 0)
    assert 1 < low < middle < high
    assert compare_devices(product, h100, l4) is None
    assert compare_devices(product, l4, h100) is None
    assert compare_devices(product, h100, find_device("MI300X")) is None


def test_the_command_takes_measured_calls(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps([{"call": CALLS[5], "framework": "vllm", "latency_s": 2e-3}]))
    shown = []
    for more in ([], ["--measured", str(file)]):
        out = tmp_path / "out.json"
        command = ["model", "predict", "calls", CALLS[5], "--device", "L4", *more, "--json", str(out)]
        assert CliRunner().invoke(app, command).exit_code == 0
        shown.append(json.loads(out.read_text())["calls"])
    assert shown[0][0]["latency_s"] < shown[1][0]["latency_s"]


def test_every_kind_ships() -> None:
    assert shipped_call_models().keys() == CALL_KINDS.keys()
