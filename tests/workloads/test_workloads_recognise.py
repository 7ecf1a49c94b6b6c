"""What a kernel of a network is recognised as computes what the kernel computes."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from small_networks import SMALL, export_small

from costmodel.kernels import open_space
from costmodel.kernels._reference import agrees, make_arguments, reference_output
from costmodel.records import Workload
from costmodel.records._operators import OPERATORS

tvm = pytest.importorskip("tvm")
pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

DTYPES = ("float32", "float16")


@cache
def kernels_of(network: str, dtype: str) -> dict[str, tuple[Any, Workload | None]]:
    """Each kernel by name, with what it is recognised as."""
    from costmodel.workloads._recognise import fuse_operators, kernel_calls, recognise

    module = fuse_operators(export_small(network, dtype))
    return {name: (module[name], recognise(module[name])) for name in kernel_calls(module)}


def recognised_in(network: str, dtype: str) -> Counter[str]:
    return Counter(found.kind if found else "" for _, found in kernels_of(network, dtype).values())


def run(module: Any, arrays: list[np.ndarray]) -> np.ndarray:
    arguments = [tvm.runtime.tensor(array) for array in arrays]
    # Unoptimized: LLVM takes seconds to optimize a function that runs once.
    tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0}))(*arguments)
    return arguments[-1].numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("network", SMALL)
def test_recognised_kernels_compute_their_workloads(network: str, dtype: str) -> None:
    one_a_kind = {
        found.kind: (kernel, found) for kernel, found in kernels_of(network, dtype).values() if found
    }
    for kernel, workload in one_a_kind.values():
        arrays = make_arguments(workload)
        of_kernel = run(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}), arrays)
        of_workload = run(open_space(workload, "cpu").module, arrays)
        reference = reference_output(workload, arrays[:-1]).astype(np.float32)
        assert agrees(of_kernel, reference), f"the kernel is not {workload.name}"
        assert agrees(of_workload, reference)
        tolerance = 1e-5 if dtype == "float32" else 4e-3
        assert np.linalg.norm((of_kernel - of_workload).astype(np.float64)) <= tolerance * np.linalg.norm(
            reference
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_small_networks_hold_every_anchor_that_the_dtype_has(dtype: str) -> None:
    found = set().union(*(recognised_in(network, dtype) for network in SMALL)) - {""}
    layouts = (
        {"conv2d", "depthwise_conv2d"} if dtype == "float16" else {"conv2d_nhwc", "depthwise_conv2d_nhwc"}
    )
    anchors = {operator.anchor for operator in OPERATORS.values()} - layouts
    assert {OPERATORS[kind].anchor for kind in found} == anchors


@pytest.mark.parametrize(
    ("network", "dtype", "expected"),
    [
        ("bottlenecks", "float32", {"conv2d_bias": 1, "conv2d_bias_add_relu": 2, "conv2d_bias_relu": 4}),
        (
            "inverted_residuals",
            "float16",
            {
                "conv2d_nhwc_bias": 1,
                "conv2d_nhwc_bias_add": 1,
                "conv2d_nhwc_bias_relu6": 2,
                "depthwise_conv2d_nhwc_bias_relu6": 2,
            },
        ),
        (
            "bert",
            "float16",
            {
                "batch_matmul": 2,
                "layer_norm": 1,
                "matmul_bias": 1,
                "matmul_bias_add": 2,
                "matmul_bias_gelu": 1,
                "softmax": 1,
                "": 6,
            },
        ),
    ],
)
def test_what_networks_consist_of(network: str, dtype: str, expected: dict[str, int]) -> None:
    assert recognised_in(network, dtype) == expected


def test_only_kernels_without_a_product_or_a_norm_are_not_recognised() -> None:
    left_out = {
        name
        for network in SMALL
        for dtype in DTYPES
        for name, (_, found) in kernels_of(network, dtype).items()
        if found is None
    }
    assert left_out
    assert not [
        name for name in left_out if any(word in name for word in ("matmul", "conv", "norm", "softmax"))
    ]


def legalised(build: Any, *shapes: tuple[int, ...]) -> Any:
    """The one kernel of a Relax function."""
    from tvm import relax

    from costmodel.workloads._recognise import fuse_operators

    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    with builder.function("forward", inputs):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(build(relax.op, *inputs)))
        builder.emit_func_output(result)
    module = fuse_operators(builder.get())
    (kernel,) = (function for name, function in module.functions.items() if name.name_hint != "forward")
    return kernel


IMAGE, WEIGHT = (1, 8, 6, 6), (8, 8, 3, 3)
NEIGHBOURS = {
    "padding": (lambda op, x, w: op.nn.conv2d(x, w, padding=0), [IMAGE, WEIGHT], None),
    "dilation": (lambda op, x, w: op.nn.conv2d(x, w, padding=2, dilation=2), [IMAGE, WEIGHT], None),
    "same": (lambda op, x, w: op.nn.conv2d(x, w, padding=1), [IMAGE, WEIGHT], "conv2d-n1-c8-h6-w6-o8-k3-s1"),
    "tanh gelu": (
        lambda op, a, b, c: op.nn.gelu_tanh(op.add(op.matmul(a, b), c)),
        [(4, 4), (4, 4), (4,)],
        None,
    ),
    "bias by row": (lambda op, a, b, c: op.add(op.matmul(a, b), c), [(4, 4), (4, 4), (4, 1)], None),
    "bias": (lambda op, a, b, c: op.add(op.matmul(a, b), c), [(4, 4), (4, 4), (4,)], "matmul_bias-m4-n4-k4"),
    "difference": (lambda op, a, b, c: op.subtract(op.matmul(a, b), c), [(4, 4)] * 3, None),
    "sum": (lambda op, a, b, c: op.add(op.matmul(a, b), c), [(4, 4)] * 3, "matmul_add-m4-n4-k4"),
    "sum the other way": (
        lambda op, a, b, c: op.add(c, op.matmul(a, b)),
        [(4, 4)] * 3,
        "matmul_add-m4-n4-k4",
    ),
    "softmax of columns": (lambda op, x: op.nn.softmax(x, axis=0), [(4, 4)], None),
    "softmax": (lambda op, x: op.nn.softmax(x, axis=1), [(4, 4)], "softmax-m4-n4"),
    "epsilon": (
        lambda op, x, g: op.nn.rms_norm(x, g, axes=[-1], epsilon=1e-6),
        [(4, 4), (4,)],
        "rms_norm-m4-n4",
    ),
    "softmax of 3 axes": (lambda op, x: op.nn.softmax(x, axis=2), [(2, 3, 4)], "softmax-m6-n4"),
    "softmax of the middle": (lambda op, x: op.nn.softmax(x, axis=1), [(2, 3, 4)], None),
    "norm of 3 axes": (
        lambda op, x, g, b: op.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-12),
        [(2, 3, 4), (4,), (4,)],
        "layer_norm-m6-n4",
    ),
    "norm of two": (
        lambda op, x, g, b: op.nn.layer_norm(x, g, b, axes=[-2, -1]),
        [(2, 3, 4), (3, 4), (3, 4)],
        None,
    ),
    "bias first": (
        lambda op, a, b, c: op.add(c, op.matmul(a, b)),
        [(2, 4), (4, 6), (6,)],
        "matmul_bias-m2-n6-k4",
    ),
    "bias first, then a sum the other way": (
        lambda op, a, b, c, d: op.add(d, op.add(c, op.matmul(a, b))),
        [(2, 4), (4, 6), (6,), (2, 6)],
        "matmul_bias_add-m2-n6-k4",
    ),
    "tokens of a batch": (
        lambda op, a, b, c: op.nn.relu(op.add(op.matmul(a, b), c)),
        [(2, 3, 4), (4, 6), (6,)],
        "matmul_bias_relu-m6-n6-k4",
    ),
    "one weight a sample": (
        lambda op, a, b: op.matmul(a, b),
        [(2, 3, 4), (2, 4, 6)],
        "batch_matmul-b2-m3-n6-k4",
    ),
    "leaky": (lambda op, a, b: op.nn.leakyrelu(op.matmul(a, b), 0.1), [(4, 4), (4, 4)], None),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_what_only_looks_alike_is_not_recognised(name: str) -> None:
    from costmodel.workloads._recognise import recognise

    build, shapes, expected = NEIGHBOURS[name]
    found = recognise(legalised(build, *shapes))
    assert (found.name if found else None) == expected


def recognised_of(module: Any) -> set[str]:
    """Names of the workloads that a Relax module consists of."""
    from tvm import relax

    from costmodel.workloads._recognise import fuse_operators, recognise

    kernels = [
        each for each in fuse_operators(module).functions.values() if not isinstance(each, relax.Function)
    ]
    return {found.name for kernel in kernels if (found := recognise(kernel))}


def test_a_convolution_with_bias_is_recognised_as_the_relax_frontend_writes_it() -> None:
    """Its bias has four dimensions, 1 x o x 1 x 1."""
    from tvm.relax.frontend import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2D(8, 16, 3, padding=1, bias=True)

        def forward(self, x: Any) -> Any:
            return nn.op.relu(self.conv(x))

    spec = {"forward": {"x": nn.spec.Tensor((2, 8, 10, 10), "float32")}}
    module, _ = Network().export_tvm(spec)
    assert recognised_of(module) == {"conv2d_bias_relu-n2-c8-h10-w10-o16-k3-s1"}


@pytest.mark.torch
# torch.export of PyTorch 2.13 uses a class that it gives up itself.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_convolutions_with_bias_are_recognised_as_the_importer_of_pytorch_writes_them() -> None:
    torch = pytest.importorskip("torch")
    from tvm.relax.frontend.torch import from_exported_program

    network = torch.nn.Sequential(
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3, padding=1, groups=16),
    )
    exported = torch.export.export(network.eval(), (torch.zeros(1, 8, 12, 12),))
    assert recognised_of(from_exported_program(exported)) == {
        "conv2d_bias_relu-n1-c8-h12-w12-o16-k3-s1",
        "depthwise_conv2d_bias-n1-c16-h12-w12-k3-s1",
    }


def linear_of_pytorch(shape: tuple[int, ...]) -> Any:
    """A network of two linear layers, as the importer of PyTorch writes it."""
    torch = pytest.importorskip("torch")
    from tvm.relax.frontend.torch import from_exported_program

    layers = torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.Linear(24, 8, bias=False)
    exported = torch.export.export(torch.nn.Sequential(*layers).eval(), (torch.zeros(*shape),))
    return from_exported_program(exported)


def linear_of_relax(shape: tuple[int, ...]) -> Any:
    """The same as ``relax.frontend.nn`` writes it."""
    from tvm.relax.frontend import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            self.first, self.second = nn.Linear(16, 24), nn.Linear(24, 8, bias=False)

        def forward(self, x: Any) -> Any:
            return self.second(nn.op.gelu(self.first(x)))

    module, _ = Network().export_tvm({"forward": {"x": nn.spec.Tensor(shape, "float32")}})
    return module


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("shape", [(6, 16), (2, 3, 16)])
@pytest.mark.parametrize("folds_transposes", [False, True])
@pytest.mark.parametrize("imported", [linear_of_pytorch, linear_of_relax])
def test_linear_layers_are_recognised_as_each_frontend_writes_them(
    imported: Any, folds_transposes: bool, shape: tuple[int, ...]
) -> None:
    """A weight is transposed by a kernel of its own, or read by columns."""
    from tvm import relax

    module = imported(shape)
    if folds_transposes:
        module = relax.transform.FuseTransposeMatmul()(module)
    found = {name.replace("_gelu", "") for name in recognised_of(module)}  # some reshape in front of it
    assert found == {"matmul_bias-m6-n24-k16", "matmul-m6-n8-k24"}


def test_a_product_behind_a_transpose_in_one_kernel_is_recognised() -> None:
    from tvm import relax
    from tvm.relax.dpl import is_op, wildcard

    from costmodel.workloads._recognise import recognise

    product = is_op("relax.matmul")(wildcard(), is_op("relax.permute_dims")(wildcard()))
    pattern = is_op("relax.add")(product, wildcard())
    module = relax.transform.FuseOpsByPattern([("linear", pattern)])(linear_of_relax((6, 16)))
    module = relax.transform.FuseTIR()(relax.transform.LegalizeOps()(module))
    (kernel,) = (each for name, each in module.functions.items() if "add" in name.name_hint)
    found = recognise(kernel)
    assert found is not None
    assert found.name == "matmul_bias-m6-n24-k16"
    assert recognise(kernel, is_transposed=False) is None


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8, 1, 1), "conv2d_bias-n1-c8-h6-w6-o8-k3-s1"),
        ((1, 8, 1, 1), "conv2d_bias-n1-c8-h6-w6-o8-k3-s1"),
        ((1, 8, 6, 6), "conv2d_add-n1-c8-h6-w6-o8-k3-s1"),
        ((1, 1, 1, 6), None),
        ((1, 1, 6, 1), None),
    ],
)
def test_what_is_added_is_a_bias_if_it_has_one_value_a_channel(
    shape: tuple[int, ...], expected: str | None
) -> None:
    from costmodel.workloads._recognise import recognise

    kernel = legalised(
        lambda op, x, w, b: op.add(op.nn.conv2d(x, w, padding=1), b), (1, 8, 6, 6), (8, 8, 3, 3), shape
    )
    found = recognise(kernel)
    assert (found.name if found else None) == expected
