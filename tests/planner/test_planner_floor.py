"""No what-if makes a kernel faster than its hardware allows, or takes kernels of another GPU for its own."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel import CostModelError
from costmodel.planner import KernelGraph, open_latencies, plan, rank, read_graph, tuned
from costmodel.planner.graphs._kernel_graph import TaskKind
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._parse import parse_what_if
from costmodel.records import Workload, find_device
from costmodel.records._peak_rates import least_latency_s

pytestmark = pytest.mark.white_box


def trace(path: Path, gpu: dict[str, Any], us: float, dims: list[list[int]]) -> KernelGraph:
    """One product of a linear layer, launched by its operator."""
    shapes = {"Input Dims": dims, "Input type": ["float", "float"]}
    events = [
        {"cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 20, "tid": 1, "args": shapes},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5, "dur": 5, "tid": 1},
        {"cat": "kernel", "name": "sgemm", "ts": 20, "dur": us, "tid": 7, "pid": 0},
    ]
    for event in events[1:]:
        event["args"] = {
            "correlation": 1,
            "device": 0,
            "stream": 7,
            "grid": [640, 1, 1],
            "block": [128, 1, 1],
        }
    document = {"traceEvents": [{"ph": "X", "pid": 1} | each for each in events], "deviceProperties": [gpu]}
    path.write_text(json.dumps(document))
    return read_kineto(path).graph


T4 = {"id": 0, "name": "Tesla T4", "numSms": 40}
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}
H200 = {"id": 0, "name": "NVIDIA H200", "numSms": 132}
SMALL = [[16, 1024], [1024, 1024]]
RECORDED = [[128, 2048], [2048, 2048]]


def kernel_us(graph: KernelGraph) -> float:
    return float(graph.durations_s[graph.of_kind(TaskKind.KERNEL)][0]) * 1e6


@pytest.mark.parametrize("gpu", [T4, {"id": 0, "name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64}])
def test_kernels_of_another_gpu_are_refused(tmp_path: Path, gpu: dict[str, Any]) -> None:
    graph = trace(tmp_path / "trace.json", gpu, 200, SMALL)
    for ask in (tuned, rank):
        with pytest.raises(CostModelError, match=f"must be known on {gpu['name']}.*NVIDIA H100 80GB HBM3"):
            ask(graph, open_latencies())
    with pytest.raises(CostModelError, match=gpu["name"]):
        plan(tmp_path / "trace.json", "tuned")


@pytest.mark.parametrize("gpu", [H100, H200])
def test_the_gpu_of_the_trace_is_used_of_a_dataset_of_several(tmp_path: Path, gpu: dict[str, Any]) -> None:
    graph = trace(tmp_path / "trace.json", gpu, 200, RECORDED)
    changed = tuned(graph, open_latencies())
    assert kernel_us(changed) < 200
    assert f"of {gpu['name']}," in changed.assumptions[-1]
    assert rank(graph, open_latencies()).table["sms"].tolist() == [132]


def test_what_is_asked_about_another_gpu_is_carried_there_first(tmp_path: Path) -> None:
    trace(tmp_path / "trace.json", T4, 200, RECORDED)
    found = plan(tmp_path / "trace.json", "device:Tesla T4=NVIDIA H100 80GB HBM3,tuned")
    assert kernel_us(found.after.graph) < 200
    with pytest.raises(
        CostModelError, match=r"which is Tesla T4, but got NVIDIA H200: write device:Tesla T4="
    ):
        plan(tmp_path / "trace.json", "device:H200=H100 SXM")


def test_a_graph_that_names_no_gpu_says_whose_kernels_it_gets(tmp_path: Path) -> None:
    task = {"id": "a", "duration_s": 2e-4, "workload": "matmul-m128-n2048-k2048"}
    (tmp_path / "graph.json").write_text(json.dumps({"tasks": [task]}))
    changed = tuned(read_graph(tmp_path / "graph.json").graph, open_latencies())
    assert "Nothing says that the graph ran on this device" in changed.assumptions[-1]
    (tmp_path / "graph.json").write_text(json.dumps({"tasks": [task], "device": "T4"}))
    with pytest.raises(CostModelError, match="must be known on Tesla T4"):
        tuned(read_graph(tmp_path / "graph.json").graph, open_latencies())


WHAT_IFS = [
    "half",
    "sms=20",
    "device:T4=sms:132",
    "device:T4=sms:264",
    "device:T4=H100 SXM",
    "device:T4=L4",
    "device:T4=sms:400+bandwidth:9000",
]


@pytest.mark.parametrize("dims", [SMALL, [[4096, 4096], [4096, 4096]], [[8192, 64], [64, 8192]]])
@pytest.mark.parametrize("what_if", WHAT_IFS)
def test_no_what_if_beats_the_hardware(tmp_path: Path, dims: list[list[int]], what_if: str) -> None:
    (m, k), (_, n) = dims
    workload = Workload("matmul", {"m": m, "n": n, "k": k})
    least = least_latency_s(workload, find_device("T4"))
    graph = trace(tmp_path / "trace.json", T4, 1.05e6 * least, dims)
    for transform in parse_what_if(what_if):
        ends = (transform, *getattr(transform, "ends", ()))
        for each in ends:
            changed = each(graph)
            dtype = "float16" if what_if == "half" else "float32"
            now = Workload("matmul", workload.dims, dtype)
            assert changed.device is not None
            sms = int(changed.sms.max())
            assert kernel_us(changed) * 1e-6 >= least_latency_s(now, changed.device, sms) * (1 - 1e-9)


def test_a_gpu_has_no_more_sms_than_it_has(tmp_path: Path) -> None:
    graph = trace(tmp_path / "trace.json", T4, 100.0, SMALL)
    (transform,) = parse_what_if("sms=41")
    with pytest.raises(
        CostModelError, match=r"sms of Tesla T4 must .* 1 to 40, but got 41\. .*device=sms:41"
    ):
        transform(graph)


def test_a_kernel_that_does_less_than_its_workload_may_stay_faster(tmp_path: Path) -> None:
    """A convolution by Winograd's algorithm takes less than its definition allows; so it does elsewhere."""
    least = least_latency_s(Workload.parse("matmul-m4096-n4096-k4096"), find_device("T4"))
    graph = trace(tmp_path / "trace.json", T4, 0.5e6 * least, [[4096, 4096], [4096, 4096]])
    (transform,) = parse_what_if("device:T4=V100-PCIE-32GB")
    v100 = least_latency_s(Workload.parse("matmul-m4096-n4096-k4096"), find_device("V100-PCIE-32GB"))
    assert kernel_us(transform(graph)) * 1e-6 == pytest.approx(0.5 * v100)


def test_more_sms_are_never_slower(tmp_path: Path) -> None:
    graph = trace(tmp_path / "trace.json", H100, 700, [[1000, 3000], [3000, 1000]])
    taken = [kernel_us(parse_what_if(f"sms={sms}")[0](graph)) for sms in range(1, 133)]
    assert all(more <= fewer + 1e-9 for fewer, more in pairwise(taken))


@pytest.mark.parametrize(
    ("recorded", "device", "ms", "expected"),
    [  # the ratio of float32 peaks, or what both are known to reach of theirs: arithmetic, no measurement
        ("Tesla V100-PCIE-32GB", "NVIDIA A100-PCIE-40GB", 1.0, 0.72),
        ("NVIDIA L4", "NVIDIA A100 80GB PCIe", 26.54, 14.7),
        ("Tesla T4", "NVIDIA A100-PCIE-40GB", 70.0, 15.5),
    ],
)
def test_float32_products_go_with_what_lanes_reach(
    tmp_path: Path, recorded: str, device: str, ms: float, expected: float
) -> None:
    sms = find_device(recorded).sms
    task = {"id": "a", "name": "volta_sgemm_128x128_tn", "duration_s": ms * 1e-3, "sms": sms}
    task |= {"blocks": 100 * sms, "block_warps": 8}
    (tmp_path / "graph.json").write_text(json.dumps({"tasks": [task]}))
    found = plan(tmp_path / "graph.json", f"device:{recorded}={device}")
    assert found.after.makespan_s * 1e3 == pytest.approx(expected, rel=0.22)


def test_the_ends_hold_what_was_measured_of_elementwise_kernels(tmp_path: Path) -> None:
    """Additions of float32 on a T4 and an A100 (NeuSight's public data): blocks, ms, ms."""
    measured = [(78925, 2.00488, 0.36936), (42024, 1.07215, 0.20524), (90644, 2.30134, 0.42347)]
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
    for blocks, t4, a100 in measured:
        task = {
            "id": "a",
            "name": name,
            "duration_s": t4 * 1e-3,
            "sms": 40,
            "blocks": blocks,
            "block_warps": 4,
        }
        (tmp_path / "graph.json").write_text(json.dumps({"tasks": [task]}))
        found = plan(tmp_path / "graph.json", "device:Tesla T4=NVIDIA A100-PCIE-40GB")
        assert found.ends_s is not None
        assert found.ends_s[0] <= a100 * 1e-3 <= found.ends_s[1]
        assert np.log(found.after.makespan_s * 1e3 / a100) == pytest.approx(0, abs=0.36)
