import pytest

from costmodel.records import Workload, is_reserved

RESERVED = [
    "matmul-m384-n1024-k1024",
    "matmul-m384-n4096-k1024",
    "matmul-m1-n4096-k4096",
    "matmul-m384-n1024-k1024-float16",
    "matmul_bias_gelu-m64-n3072-k768",
    "batch_matmul-b16-m384-n384-k64",
    "conv2d-n1-c512-h7-w7-o512-k3-s1",
    "conv2d-n8-c512-h7-w7-o512-k3-s1",
    "conv2d-n1-c128-h28-w28-o128-k3-s1",
    "conv2d-n8-c128-h28-w28-o128-k3-s1",
    "conv2d-n1-c192-h28-w28-o64-k1-s1",
    "conv2d-n32-c192-h28-w28-o64-k1-s1",
    "depthwise_conv2d-n1-c32-h112-w112-k3-s1",
    "depthwise_conv2d-n16-c32-h112-w112-k3-s2",
    "layer_norm-m384-n1024",
    "softmax-m6144-n384",
]

# Computations of reserved workloads in another layout or with another epilogue.
VARIANTS = [
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

FREE = [
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


@pytest.mark.parametrize("name", RESERVED + VARIANTS)
def test_reserved(name: str) -> None:
    assert is_reserved(Workload.parse(name))


@pytest.mark.parametrize("name", FREE)
def test_free(name: str) -> None:
    assert not is_reserved(Workload.parse(name))
