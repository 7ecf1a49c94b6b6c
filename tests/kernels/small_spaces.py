"""Small workloads of every kind, and valid candidates of them."""

from functools import cache
from typing import Literal

from costmodel.kernels import sample_candidates
from costmodel.records import Candidate, Workload

Kind = Literal["cuda", "cpu"]

SMALL = (
    "matmul-m32-n32-k32",
    "matmul_bias_gelu-m32-n64-k32",
    "batch_matmul-b2-m32-n32-k32",
    "conv2d-n1-c8-h14-w14-o8-k3-s1",
    "depthwise_conv2d-n2-c8-h14-w14-k3-s1",
    "softmax-m64-n32",
    "layer_norm-m32-n64",
    "matmul-m64-n32-k32-float16",
    "conv2d_nhwc-n1-c8-h14-w14-o16-k3-s1-float16",
)


@cache
def drawn(name: str, kind: Kind, count: int = 8) -> tuple[Candidate, ...]:
    """The first valid candidates of a workload, the same in every test."""
    found = sample_candidates(Workload.parse(name), kind, count, seed=0)
    assert len(found) == count
    return tuple(found)
