"""Products in float32 on the lanes of GPUs, of which power and instructions decide what they reach."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.whatif._scale import on_device
from costmodel.records import Device, Workload, find_device, hypothetical
from costmodel.records._peak_rates import held_share, least_latency_s, reached_rates
from costmodel.transfer.prediction._calls import MeasuredCall, compare_devices, predict_call
from costmodel.transfer.prediction._lane_products import LANE_LAW, LaneLaw, predict_lane_product

pytestmark = pytest.mark.white_box

SQUARE = Workload.parse("matmul-m4096-n4096-k4096")


def seconds(law: LaneLaw, device: Device, *sizes: float) -> float:
    return float(law.seconds(*(np.array([each]) for each in sizes), device)[0])


def test_a_board_holds_the_share_that_its_power_and_its_chip_allow() -> None:
    t4 = find_device("T4")  # 70 W, 24.8 million transistors a mm2, 8.14e12 operations a second
    assert held_share(t4, 1e7) == pytest.approx(70 * 1e7 * math.sqrt(24.8e6) / (2 * 64 * 40 * 1590e6))
    assert held_share(t4, 2e7) == pytest.approx(2 * held_share(t4, 1e7))
    assert held_share(find_device("H100 SXM")) == 1.0
    assert held_share(Device("My GPU", "cuda", "sm_90", 132, 1980.0, fp32_lanes_per_sm=128)) == 1.0
    more = hypothetical(t4, sms=80)
    assert held_share(more) == held_share(t4)  # as of the GPU that it is made of


def test_what_a_gpu_reaches_is_never_more_than_it_can_hold() -> None:
    assert reached_rates(find_device("L4")).lanes == held_share(find_device("L4")) < 0.4
    assert reached_rates(find_device("H100 SXM")).lanes == 0.93
    wide, narrow = find_device("H100 SXM"), find_device("A100-SXM4-80GB")
    assert LANE_LAW.share_of(wide) == pytest.approx(LANE_LAW.share_of(narrow) * 64 / 68)


def test_a_large_product_goes_at_the_rate_of_its_tiles() -> None:
    law = LaneLaw(lanes=0.5, tile_wait=0.0, start_s=1e-3)
    v100 = find_device("V100 PCIe")
    rounds = 8 * 80 * 128 * 128 * 4096 * 2  # of 80 SMs, eight tiles each
    assert seconds(law, v100, 128 * 8, 128 * 80, 4096) == pytest.approx(
        1e-3 + rounds / (0.5 * 2 * 64 * 80 * 1380e6), rel=1e-6
    )


def test_a_thin_product_waits_for_the_memory() -> None:
    l4 = find_device("L4")
    moved = 4 * (8192 * 8192 + 32 * 8192 * 2)
    law = LaneLaw(lanes=1.0, tile_wait=0.0, start_s=0.0, flops_per_j=1e9)
    assert seconds(law, l4, 32, 8192, 8192) == pytest.approx(moved / (300e9 * 0.85))


# Best times of 4096 x 4096 x 4096 that Kernel Tuner found with CLBlast's kernel (10.5281/zenodo.15364124),
# on GPUs that nothing was learned from; cuBLAS may be somewhat faster.
@pytest.mark.parametrize(
    ("name", "best_s"), [("RTX 3090", 5.658e-3), ("RTX 2080 Ti", 11.483e-3), ("RTX 3060 Laptop", 22.62e-3)]
)
def test_gpus_that_took_no_part_are_within_the_interval(name: str, best_s: float) -> None:
    latency_s, low_s, high_s, note = predict_lane_product(SQUARE, find_device(name))
    assert low_s is not None
    assert high_s is not None
    assert not note
    assert low_s < best_s < high_s
    assert latency_s == pytest.approx(best_s, rel=0.15)


@pytest.mark.parametrize(
    ("name", "workload", "why"),
    [
        ("Tesla P40", SQUARE.name, "before Volta"),
        ("A10G", SQUARE.name, "power of its board"),
        ("B200", SQUARE.name, "bandwidth"),
        ("A2", SQUARE.name, "number of SMs"),
        ("L4", "matmul-m16-n4096-k4096", "fewer than 256 rows or columns"),
    ],
)
def test_no_interval_is_given_where_nothing_backs_it(name: str, workload: str, why: str) -> None:
    latency_s, low_s, high_s, note = predict_lane_product(Workload.parse(workload), find_device(name))
    assert low_s is None
    assert high_s is None
    assert why in note
    assert latency_s >= least_latency_s(Workload.parse(workload), find_device(name))


def test_a_gpu_that_does_not_exist_has_no_board() -> None:
    latency_s, low_s, _, note = predict_lane_product(SQUARE, hypothetical("L4", sms=80))
    assert latency_s < predict_lane_product(SQUARE, find_device("L4"))[0]
    assert low_s is None
    assert "power of its board" in note


@pytest.mark.parametrize("unknown", [{"clock_mhz": 0.0}, {"bandwidth_gb_s": 0.0}, {"fp32_lanes_per_sm": 1}])
def test_a_gpu_of_ones_own_must_tell_what_decides(unknown: dict[str, float]) -> None:
    own = replace(find_device("H100 SXM"), name="My GPU", architecture="")
    assert predict_lane_product(SQUARE, own)[3] == "its architecture is not told"
    with pytest.raises(CostModelError, match=rf"My GPU has not\. Describe it with .*{next(iter(unknown))}"):
        predict_lane_product(SQUARE, replace(own, **unknown))


def test_no_prediction_is_below_what_the_hardware_allows() -> None:
    fast = [(SQUARE, 1e-6)]
    latency_s, low_s, _, _ = predict_lane_product(SQUARE, find_device("L4"), fast)
    assert latency_s == low_s == least_latency_s(SQUARE, find_device("L4"))


def test_measured_products_correct_the_others_by_their_median() -> None:
    device = find_device("A100-SXM4-80GB")
    others = [Workload.parse(f"matmul-m{m}-n2048-k2048") for m in (512, 1024, 2048)]
    said = [predict_lane_product(each, device)[0] for each in others]
    measured = [
        MeasuredCall(each.name, "cublas", s * times)
        for each, s, times in zip(others, said, (1.0, 2.0, 9.0), strict=True)
    ]
    (found,) = predict_call(SQUARE, device, measured)
    assert found.latency_s == pytest.approx(2 * predict_lane_product(SQUARE, device)[0])
    with pytest.raises(CostModelError, match="must be products in float32, too"):
        predict_call(SQUARE, device, [MeasuredCall("matmul-m64-n64-k64-float16", "cublas", 1e-5)])
    with pytest.raises(CostModelError, match="must be a call of cublas, but got 'vllm'"):
        predict_call(SQUARE, device, [MeasuredCall(SQUARE.name, "vllm", 1e-5)])
    with pytest.raises(CostModelError, match="NVIDIA GPUs alone"):
        predict_call(SQUARE, find_device("MI300X"))


def test_a_plan_takes_the_ratio_of_the_law_where_sizes_are_known() -> None:
    names = {"lanes": "ampere_sgemm_128x64_tn", "rounded": "ampere_tf32_s1688gemm_128x64"}
    tasks = [JsonTask(id=i, name=name, duration_s=1e-3, workload=SQUARE.name) for i, name in names.items()]
    here, there = find_device("A100-PCIE-40GB"), find_device("L4")
    graph = graph_of(tasks, "two products").assuming(device=here)
    lanes, rounded = on_device(graph, here, there).durations_s
    ratio = compare_devices(SQUARE, here, there)
    assert ratio is not None
    assert lanes == pytest.approx(2e-6 + (1e-3 - 2e-6) * ratio[1], rel=0.01)
    assert rounded != pytest.approx(lanes, rel=0.05)
