"""Which workloads the operators of a PyTorch trace compute."""

from pathlib import Path
from typing import Any

import pytest
from kineto_traces import Machine

from costmodel.planner.graphs._kernel_graph import TaskKind
from costmodel.planner.graphs._trace import read_kineto

pytestmark = pytest.mark.white_box

CASES = [
    ("aten::mm", [[8, 32], [32, 64]], [], "matmul-m8-n64-k32"),
    ("aten::mm", [[8, 32], [16, 64]], [], ""),
    ("aten::addmm", [[64], [8, 32], [32, 64]], [], "matmul_bias-m8-n64-k32"),
    ("aten::addmm", [[8, 64], [8, 32], [32, 64]], [], "matmul_add-m8-n64-k32"),
    ("aten::linear", [[2, 4, 32], [64, 32], [64]], [], "matmul_bias-m8-n64-k32"),
    ("aten::linear", [[2, 4, 32], [64, 32], []], [], "matmul-m8-n64-k32"),
    ("aten::bmm", [[3, 8, 32], [3, 32, 64]], [], "batch_matmul-b3-m8-n64-k32"),
    ("aten::bmm", [[3, 8, 32], [2, 32, 64]], [], ""),
    ("aten::_softmax", [[3, 8, 32], [], []], ["", "-1", "False"], "softmax-m24-n32"),
    ("aten::_softmax", [[3, 8, 32], [], []], ["", "1", "False"], ""),
    ("aten::native_layer_norm", [[3, 8, 32], [], [32], [32], []], [], "layer_norm-m24-n32"),
    (
        "aten::convolution",
        [[1, 16, 28, 28], [32, 16, 3, 3], [32], [], [], [], [], [], []],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
        "conv2d-n1-c16-h28-w28-o32-k3-s2",
    ),
    (
        "aten::cudnn_convolution",
        [[1, 16, 28, 28], [16, 1, 3, 3], [], [], [], []],
        ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "16"],
        "depthwise_conv2d-n1-c16-h28-w28-k3-s1",
    ),
    (
        "aten::conv2d",  # without padding
        [[1, 16, 28, 28], [32, 16, 3, 3], [32], [], [], [], []],
        ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],
        "",
    ),
    ("aten::conv2d", [[1, 16, 28, 28], [32, 16, 3, 3]], [], ""),
    ("aten::add", [[8, 64], [8, 64], []], [], ""),
    ("aten::mm", "no shapes", [], ""),
    ("aten::mm", [[0, 32], [32, 64]], [], ""),
]


def shapes(dims: Any, settings: list[str], dtype: str = "float") -> dict[str, Any]:
    return {"Input Dims": dims, "Input type": [dtype] * 9, "Concrete Inputs": settings}


def workloads(machine: Machine, tmp_path: Path) -> list[str]:
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    kernels = graph.of_kind(TaskKind.KERNEL)
    assert not graph.workload_ids[~kernels].any()
    return [graph.workload(task) for task in kernels.nonzero()[0].tolist()]


@pytest.mark.parametrize(("name", "dims", "settings", "expected"), CASES)
def test_a_kernel_computes_what_its_operator_does(
    name: str, dims: Any, settings: list[str], expected: str, tmp_path: Path
) -> None:
    machine = Machine()
    machine.operator(name, "kernel", 10.0, **shapes(dims, settings))
    assert workloads(machine, tmp_path) == [expected]


@pytest.mark.parametrize(("dtype", "suffix"), [("c10::Half", "-float16"), ("c10::BFloat16", "-float16")])
def test_dtypes_are_those_of_the_first_input(dtype: str, suffix: str, tmp_path: Path) -> None:
    machine = Machine()
    machine.operator("aten::mm", "kernel", 10.0, **shapes([[8, 32], [32, 64]], [], dtype))
    machine.operator("aten::mm", "kernel", 10.0, **shapes([[8, 32], [32, 64]], [], "double"))
    settings = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]
    dims = [[1, 16, 28, 28], [32, 16, 1, 1], [32], [], [], [], []]
    machine.operator("aten::conv2d", "kernel", 10.0, **shapes(dims, settings, dtype))
    expected = [f"matmul-m8-n64-k32{suffix}", "", f"conv2d_nhwc-n1-c16-h28-w28-o32-k1-s1{suffix}"]
    assert workloads(machine, tmp_path) == expected


def test_the_innermost_operator_counts_and_one_with_several_kernels_does_not(tmp_path: Path) -> None:
    machine = Machine()
    outer = machine.host("aten::linear", 0.0, **shapes([[8, 32], [64, 32], [64]], []))
    machine.operator("aten::addmm", "gemm", 10.0, **shapes([[64], [8, 32], [32, 64]], []))
    machine.operator("aten::relu", "relu", 2.0, **shapes([[8, 64]], []))
    outer["dur"] = machine.now - outer["ts"]
    split = machine.host("aten::mm", 0.0, **shapes([[8, 32], [32, 64]], []))
    machine.launch("gemm_split", 8.0)
    machine.launch("reduce", 3.0)
    split["dur"] = machine.now - split["ts"]
    machine.launch("alone", 3.0)
    assert workloads(machine, tmp_path) == ["matmul_bias-m8-n64-k32", "", "", "", ""]
