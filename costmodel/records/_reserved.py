"""Workloads that no published dataset holds, so that anyone can test a learner on them blind.

The collector does not measure them and the dataset builder rejects them. What is reserved is a computation in
every dtype, layout and with every epilogue: a kernel that differs only in these would give it away.
"""

from costmodel.records._workload import Workload

_NAMES = (
    "matmul-m384-n1024-k1024",
    "matmul-m384-n4096-k1024",
    "matmul-m1-n4096-k4096",
    "matmul_bias_gelu-m64-n3072-k768",
    "batch_matmul-b16-m384-n384-k64",
    "conv2d-n1-c512-h7-w7-o512-k3-s1",
    "conv2d-n8-c512-h7-w7-o512-k3-s1",
    "conv2d-n1-c128-h28-w28-o128-k3-s1",
    "conv2d-n8-c128-h28-w28-o128-k3-s1",
    "layer_norm-m384-n1024",
    "softmax-m6144-n384",
)

# Shapes reserved for every value of the dimensions that are not named.
_SHAPES = (
    ("conv2d", {"c": 192, "h": 28, "w": 28, "o": 64, "k": 1}),
    ("depthwise_conv2d", {"c": 32, "h": 112, "w": 112, "k": 3}),
    *((workload.operator.family, workload.dims) for workload in map(Workload.parse, _NAMES)),
)


def is_reserved(workload: Workload) -> bool:
    """Whether the workload is held out of every published dataset.

    Example:
        >>> is_reserved(Workload.parse("matmul-m384-n1024-k1024"))
        True
        >>> is_reserved(Workload.parse("matmul_bias-m384-n1024-k1024-float16"))
        True
    """
    if workload.is_foreign:
        return False
    family, dims = workload.operator.family, workload.dims
    if family == "batch_matmul" and dims["b"] == 1:
        family = "matmul"
    return any(family == reserved and shape.items() <= dims.items() for reserved, shape in _SHAPES)
