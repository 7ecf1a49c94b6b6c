"""Graphs on another device, and on one hypothetical device after the other."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.planner import KernelGraph, on_sms, plan, read_graph
from costmodel.planner._plan import sweep_plan
from costmodel.planner.whatif._parse import parse_what_if
from costmodel.planner.whatif._scale import OnDevice, on_device
from costmodel.records import Device, find_device, hypothetical
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._calls import compare_devices

pytestmark = pytest.mark.white_box

H100, H200 = find_device("H100 SXM"), find_device("H200")
TASKS = [
    {"id": "launch", "duration_s": 2e-6, "kind": "launch"},
    {"id": "gemm", "duration_s": 11e-6, "blocks": 264, "sms": 132, "launched_by": "launch"},
    {"id": "softmax", "duration_s": 21e-6, "blocks": 132, "sms": 132, "after": ["gemm"]},
    {"id": "gelu", "duration_s": 41e-6, "after": ["softmax"]},
    {"id": "copy", "duration_s": 5e-6, "kind": "copy", "after": ["gelu"]},
]


@pytest.fixture
def graph(tmp_path: Path) -> KernelGraph:
    (tmp_path / "graph.json").write_text(json.dumps({"tasks": TASKS}))
    return read_graph(tmp_path / "graph.json").graph


def us(graph: KernelGraph) -> list[float]:
    return (graph.durations_s * 1e6).round(6).tolist()


def test_each_kernel_goes_with_what_its_name_says(graph: KernelGraph) -> None:
    def taken(**changes: float) -> list[float]:
        """Work of the three kernels, times what it took."""
        after = us(on_device(graph, H100, hypothetical(H100, **changes)))
        assert (after[0], after[4]) == (2, 5)
        return [(b - 1.2) / (a - 1.2) for a, b in zip(us(graph)[1:4], after[1:4], strict=True)]

    def of(memory: float, sms: float, share: float) -> float:
        """What work takes if the memory and the SMs take so many times as long."""
        return float(np.hypot(share * memory, (1 - share) * sms) / np.hypot(share, 1 - share))

    shares = product, _, gelu = 0.15, 0.55, 0.65
    assert taken(bandwidth=3352.3 / 2) == pytest.approx([of(2, 1, each) for each in shares], rel=1e-5)
    assert taken(clock=990) == pytest.approx([of(1, 2, each) for each in shares], rel=1e-5)
    assert taken(tensor=8192) == pytest.approx([of(1, 0.5, product), 1, 1], rel=1e-5)
    assert taken(sms=200) == pytest.approx([1, 1, of(1, 0.66, gelu)], rel=1e-5)  # 200 < 264 blocks
    assert taken(sms=264) == pytest.approx([of(1, 0.5, product), 1, of(1, 0.5, gelu)], rel=1e-5)
    assert us(on_device(graph, H200, H200)) == us(graph)


def test_products_in_float16_of_known_sizes_go_with_models_of_calls(tmp_path: Path) -> None:
    """A long product takes what its arithmetic takes there, a narrow one what its weights take."""
    wide, narrow = "matmul-m8192-n8192-k8192-float16", "matmul-m8-n8192-k8192-float16"
    tasks = [
        {"id": "gemm", "duration_s": 1.7e-3, "workload": wide, "sms": 132},
        {"id": "gemm_2", "duration_s": 5e-5, "workload": narrow, "sms": 132, "after": ["gemm"]},
    ]
    (tmp_path / "graph.json").write_text(json.dumps({"tasks": tasks}))
    graph = read_graph(tmp_path / "graph.json").graph
    l40s = find_device("NVIDIA L40S")
    after, low, high = (us(OnDevice(H100, l40s, bound)(graph)) for bound in ("by name", "fastest", "slowest"))
    for i, name in enumerate((wide, narrow)):
        ratio = compare_devices(Workload.parse(name), H100, l40s)[1]
        assert after[i] - 1.2 == pytest.approx(ratio * (us(graph)[i] - 1.2), rel=1e-5)
        assert low[i] < after[i] < high[i]
    assert 2.2 < after[0] / us(graph)[0] < 4.5  # Tensor rates are 2.9 apart
    assert 2.5 < after[1] / us(graph)[1] < 5.5  # bandwidths 3.9, and the L2 of the L40S is twice as large
    assert us(on_device(graph, H100, H100)) == pytest.approx(us(graph))


@pytest.mark.parametrize("sms", [16, 100, 132, 264])
def test_other_sms_alone_are_those_of_on_sms(graph: KernelGraph, sms: int) -> None:
    changed = on_device(graph, H100, hypothetical(H100, sms=sms))
    assert us(changed) == us(on_sms(graph, sms, recorded=132))
    assert changed.sms.tolist() == [0, sms, sms, sms, 0]


def test_the_ends_hold_all_that_each_kernel_could_go_with(graph: KernelGraph) -> None:
    transform = OnDevice(H100, H200)
    fastest, slowest = (end(graph) for end in transform.ends)
    memory = 3352.3 / 4814.3
    assert us(slowest) == us(graph)
    assert us(fastest) == pytest.approx(
        [2, *(1.2 + work * memory for work in (9.8, 19.8, 39.8)), 5], abs=1e-5
    )
    found = plan(graph, [transform])
    assert found.ends_s == pytest.approx((fastest.durations_s[1:].sum(), slowest.durations_s[1:].sum()))
    assert found.ends_s[0] < found.after.makespan_s < found.ends_s[1]
    assert found.to_dict()["ends_s"] == found.ends_s
    assert plan(graph, "scale:gemm=0.5").ends_s is None
    assert plan(graph).ends_s is None


@pytest.mark.parametrize("sms", [8, 64, 131, 133, 500])
@pytest.mark.parametrize("bandwidth", [500, 8000])
def test_a_guess_lies_between_the_ends(graph: KernelGraph, sms: int, bandwidth: float) -> None:
    transform = OnDevice(H100, hypothetical(H100, sms=sms, bandwidth=bandwidth))
    fastest, slowest = (end(graph).durations_s for end in transform.ends)
    guess = transform(graph).durations_s
    assert ((fastest <= guess) & (guess <= slowest)).all()


def test_a_what_if_names_devices_and_changes(graph: KernelGraph) -> None:
    texts = {
        "device:H100 SXM=H200": OnDevice(H100, H200),
        "device:H100 SXM=sms:160+bandwidth:4800": OnDevice(H100, hypothetical(H100, sms=160, bandwidth=4800)),
        "device:H100 SXM=H200+sms:160": OnDevice(H100, hypothetical(H200, sms=160)),
    }
    for text, expected in texts.items():
        assert parse_what_if(text) == [expected]
    assert plan(graph, "device:H100 SXM=H200").assumptions[0].startswith("3 kernels on NVIDIA H200 in place")


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ("device=H200", "device:H100 SXM=H200"),
        ("device=H200+sms:160", "device:H100 SXM=H200+sms:160"),
        ("device=sms:160+bandwidth:4800", "device:H100 SXM=sms:160+bandwidth:4800"),
    ],
)
def test_what_a_trace_was_recorded_on_need_not_be_named(graph: KernelGraph, own: str, named: str) -> None:
    recorded = graph.assuming(device=H100)
    assert plan(recorded, own).after.makespan_s == plan(recorded, named).after.makespan_s
    assert plan(recorded, own).ends_s == plan(recorded, named).ends_s
    swept = sweep_plan(recorded, "", ["sms=64:128:64"])
    assert (
        swept.table["latency_s"].tolist()
        == sweep_plan(recorded, H100, ["sms=64:128:64"]).table["latency_s"].tolist()
    )


def test_what_nobody_knows_must_be_named(graph: KernelGraph) -> None:
    with pytest.raises(CostModelError, match="must say which device it was recorded on"):
        plan(graph, "device=H200")
    with pytest.raises(CostModelError, match="must say which device it was recorded on"):
        sweep_plan(graph, "", ["sms=64:128:64"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device=", "device:RECORDED=DEVICE"),
        ("device:H200=", "device:RECORDED=DEVICE"),
        ("device:H200=sms:many", "device:RECORDED=DEVICE"),
        ("device:H200=cores:9", "must be one of sms, clock_mhz"),
        ("device:H200=X900", "devices list"),
        ("device:H200=sms:0", "above 0"),
    ],
)
def test_a_what_if_of_no_device_is_refused(text: str, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        parse_what_if(text)


@pytest.mark.parametrize("other", [Device("x", "cuda", "", 0, 1.0), Device("x", "cpu", "", 8, 1.0)])
def test_no_kernel_runs_on_what_is_no_gpu(graph: KernelGraph, other: Device) -> None:
    with pytest.raises(CostModelError, match="GPUs whose number of SMs is known, but got x"):
        on_device(graph, H100, other)


def test_a_sweep_does_not_rise_and_keeps_the_transforms(graph: KernelGraph) -> None:
    found = sweep_plan(graph, "H100 SXM", ["sms=32:264:4", "bandwidth=2000:6000:2000"], "scale:gemm=2")
    assert found.names == ("sms", "bandwidth_gb_s")
    assert found.plan.after.makespan_s == pytest.approx(graph.durations_s[1:].sum() + 11e-6)
    for name, other in (found.names, found.names[::-1]):
        for _, line in found.table.groupby(other):
            for column in ("latency_s", "low_s", "high_s"):
                values = line.sort_values(name)[column]
                assert all(b <= a + 1e-15 for a, b in pairwise(values))
    one = found.table[(found.table["sms"] == 264) & (found.table["bandwidth_gb_s"] == 6000)].iloc[0]
    alone = plan(graph, "scale:gemm=2,device:H100 SXM=sms:264+bandwidth:6000")
    assert (one["latency_s"], one["low_s"], one["high_s"]) == (alone.after.makespan_s, *alone.ends_s)
    assert one["speedup"] == alone.speedup
    assert found.to_dict()["devices"][0]["sms"] == 32


def test_a_sweep_is_drawn_with_a_line_for_each_second_value(graph: KernelGraph) -> None:
    found = sweep_plan(graph, H100, ["sms=32:264:58", "bandwidth=2000:6000:2000"])
    (axis,) = found.plot().axes
    assert [line.get_label() for line in axis.lines] == [f"bandwidth_gb_s {n}" for n in (2000, 4000, 6000)]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), found.table["latency_s"][:5] * 1e6)
    assert len(axis.collections) == 3
