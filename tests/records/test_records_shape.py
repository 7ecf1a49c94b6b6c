"""Shapes: kernels of one computation are siblings, whatever their dtype, layout and epilogue."""

import pytest

from costmodel.errors import CostModelError
from costmodel.records import Workload
from costmodel.records._workload import Shape

pytestmark = pytest.mark.white_box

SHAPES = [
    Shape.parse(text)
    for text in (
        "matmul-m384-n1024-k1024",
        "matmul-m384-n4096-k1024",
        "matmul-m1-n4096-k4096",
        "matmul-m64-n3072-k768",
        "batch_matmul-b16-m384-n384-k64",
        "conv2d-n1-c512-h7-w7-o512-k3-s1",
        "conv2d-n8-c128-h28-w28-o128-k3-s1",
        "conv2d-c192-h28-w28-o64-k1",
        "depthwise_conv2d-c32-h112-w112-k3",
        "layer_norm-m384-n1024",
    )
]

# The same computations in another dtype or layout, or with another epilogue.
SIBLINGS = [
    "matmul-m384-n1024-k1024-float16",
    "conv2d-n32-c192-h28-w28-o64-k1-s1",
    "matmul_bias-m384-n1024-k1024",
    "matmul_bias_gelu-m384-n4096-k1024-float16",
    "matmul-m64-n3072-k768",
    "matmul_add-m1-n4096-k4096",
    "batch_matmul-b1-m384-n1024-k1024",
    "batch_matmul_mul-b16-m384-n384-k64",
    "conv2d_bias_add_relu-n1-c512-h7-w7-o512-k3-s1",
    "conv2d_nhwc-n8-c128-h28-w28-o128-k3-s1-float16",
    "conv2d_nhwc_bias_relu-n4-c192-h28-w28-o64-k1-s1-float16",
    "depthwise_conv2d_bias_relu6-n1-c32-h112-w112-k3-s1",
    "depthwise_conv2d_nhwc_bias-n1-c32-h112-w112-k3-s2",
    "rms_norm-m384-n1024",
]

OTHERS = [
    "matmul-m128-n768-k3072",
    "matmul-m1024-n384-k1024",
    "matmul_bias_gelu-m384-n1024-k768",
    "batch_matmul-b2-m384-n1024-k1024",
    "conv2d_nhwc-n1-c512-h14-w14-o512-k3-s1-float16",
    "conv2d-n1-c512-h7-w7-o512-k3-s2",
    "conv2d-n1-c192-h28-w28-o64-k3-s1",
    "depthwise_conv2d-n1-c32-h112-w112-k5-s1",
    "softmax-m384-n1024",
]


def included(name: str) -> bool:
    return any(shape.includes(Workload.parse(name).shape) for shape in SHAPES)


@pytest.mark.parametrize("name", SIBLINGS)
def test_siblings_are_of_one_shape(name: str) -> None:
    assert included(name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_computations_are_not(name: str) -> None:
    assert not included(name)


def test_a_shape_is_spelled_as_a_plain_workload() -> None:
    half = Workload.parse("conv2d_nhwc_bias_relu-n1-c64-h56-w56-o64-k3-s1-float16")
    assert half.shape.name == "conv2d-n1-c64-h56-w56-o64-k3-s1"
    assert half.shape == Shape.parse(half.shape.name)
    assert Workload.parse("suite.kernel-x64").shape.name == "suite.kernel-x64"


def test_near_shapes_differ_in_no_size_by_more_than_a_factor() -> None:
    shape = Shape.parse("matmul-m100-n64-k64")
    for m, is_near in ((110, True), (91, True), (111, False), (90, False)):
        assert shape.is_near(Shape.parse(f"matmul-m{m}-n64-k64"), 1.1) is is_near
    assert not shape.is_near(Shape.parse("matmul-m100-n64-k71"), 1.1)
    assert shape.is_near(Shape.parse("matmul-m100"), 1.0)
    assert not shape.is_near(Shape.parse("batch_matmul-b1-m100-n64-k64"), 1.1)


@pytest.mark.parametrize("text", ["conv2d_nhwc-c64", "matmul_bias-m1", "matmul-x4", "matmul-m", "gemm", ""])
def test_texts_that_are_no_shape(text: str) -> None:
    with pytest.raises(CostModelError, match="A shape must be an operator without layout and epilogue"):
        Shape.parse(text)
