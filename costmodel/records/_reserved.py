"""Workloads that no published dataset holds, so that anyone can test a learner on them blind.

The collector does not measure them and the dataset builder rejects them, in every dtype.
"""

from costmodel.records._workload import Workload

_NAMES = frozenset(
    {
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
    }
)

# Shapes reserved for every value of the dimensions that are not named.
_SHAPES = (
    ("conv2d", {"c": 192, "h": 28, "w": 28, "o": 64, "k": 1}),
    ("depthwise_conv2d", {"c": 32, "h": 112, "w": 112, "k": 3}),
)


def is_reserved(workload: Workload) -> bool:
    """Whether the workload is held out of every published dataset.

    Example:
        >>> is_reserved(Workload.parse("matmul-m384-n1024-k1024"))
        True
    """
    return Workload(workload.kind, workload.dims).name in _NAMES or any(
        workload.kind == kind and dims.items() <= workload.dims.items() for kind, dims in _SHAPES
    )
