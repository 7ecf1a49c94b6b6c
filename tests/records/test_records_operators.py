"""Names, shapes and arithmetic of the operator kinds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.records import Workload
from costmodel.records._operators import OPERATORS

pytestmark = pytest.mark.white_box

# Workload: (flops, min_bytes) of the first published dataset.
PUBLISHED = {
    "matmul-m128-n768-k3072": (603979776, 11403264),
    "matmul_bias_gelu-m128-n3072-k768": (607518720, 11415552),
    "batch_matmul-b12-m128-n128-k64": (25165824, 1572864),
    "conv2d-n1-c3-h224-w224-o64-k7-s2": (236027904, 3851008),
    "depthwise_conv2d-n1-c96-h112-w112-k3-s2": (5419008, 6024576),
    "softmax-m12288-n512": (31457280, 50331648),
    "layer_norm-m2048-n768": (12582912, 12589056),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_kinds_count_as_they_did(name: str) -> None:
    workload = Workload.parse(name)
    assert (workload.flops, workload.min_bytes) == PUBLISHED[name]


@given(
    kind=st.sampled_from(sorted(OPERATORS)),
    sizes=st.lists(st.integers(1, 512), min_size=7, max_size=7),
    dtype=st.sampled_from(["float32", "float16"]),
)
def test_a_name_is_read_back(kind: str, sizes: list[int], dtype: str) -> None:
    dims = dict(zip(OPERATORS[kind].dims, sizes, strict=False))
    workload = Workload(kind, dims, dtype)
    assert Workload.parse(workload.name) == workload


def test_an_epilogue_adds_its_inputs_and_operations() -> None:
    plain = Workload.parse("conv2d-n2-c8-h14-w14-o16-k3-s2-float16")
    fused = Workload.parse("conv2d_bias_add_relu-n2-c8-h14-w14-o16-k3-s2-float16")
    output = (2, 16, 7, 7)
    assert plain.operator.output(plain.dims) == fused.operator.output(fused.dims) == output
    assert list(plain.operator.inputs(plain.dims)) == ["data", "weight"]
    inputs = fused.operator.inputs(fused.dims)
    assert list(inputs) == ["data", "weight", "bias", "add"]
    assert (inputs["bias"], inputs["add"]) == ((16, 1, 1), output)
    assert fused.flops - plain.flops == 3 * math.prod(output)
    assert fused.min_bytes - plain.min_bytes == 2 * (16 + math.prod(output))


@pytest.mark.parametrize("layout", ["conv2d", "depthwise_conv2d"])
def test_layouts_count_alike(layout: str) -> None:
    sizes = {"n": 2, "c": 8, "h": 15, "w": 13, "o": 16, "k": 5, "s": 2}
    dims = {dim: sizes[dim] for dim in OPERATORS[layout].dims}
    nchw, nhwc = (Workload(f"{layout}{suffix}_bias_add", dims) for suffix in ("", "_nhwc"))
    assert (nchw.flops, nchw.min_bytes) == (nhwc.flops, nhwc.min_bytes)
    n, channels, rows, columns = nchw.operator.output(dims)
    assert nhwc.operator.output(dims) == (n, rows, columns, channels)


def test_each_anchor_takes_the_epilogues_of_networks() -> None:
    for anchor in ("matmul", "batch_matmul", "conv2d", "conv2d_nhwc", "depthwise_conv2d"):
        for epilogue in ("bias", "bias_relu", "bias_relu6", "bias_gelu", "bias_silu", "bias_add_relu", "add"):
            assert f"{anchor}_{epilogue}" in OPERATORS
    assert {"softmax", "layer_norm", "rms_norm"} < set(OPERATORS)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("conv2d_relu_bias-n1-c8-h6-w6-o4-k3-s1", "'conv2d_relu_bias'"),
        ("softmax_relu-m4-n4", "'softmax_relu'"),
        ("matmul_bias-m4-n4", r"positive dims \('m', 'n', 'k'\)"),
        ("matmul-m4-n4-k4-float64", "a letter and a number"),
        ("matmul-m0-n4-k4", "dim m must be a whole number"),
    ],
)
def test_other_names_are_refused_with_the_spelling(name: str, what: str) -> None:
    with pytest.raises(CostModelError, match=rf"(?s){what}.*Spell it as one of matmul-M-N-K, .*_bias_relu"):
        Workload.parse(name)
