"""The operator kinds that a workload can have: their dimensions, arithmetic and traffic.

Each kind names its dimensions in the order in which a workload's name spells them. ``flops`` counts a fused
multiply-add as two operations. ``elements`` counts each input read once and each output written once: the
fewest that any kernel can move through device memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Dims = Mapping[str, int]


@dataclass(frozen=True)
class Operator:
    """One operator kind.

    Attributes:
        dims: Names of the dimensions.
        flops: Arithmetic operations of one run.
        elements: Elements read plus elements written, each once.
        example: What the kind computes, in one line.
    """

    dims: tuple[str, ...]
    flops: Callable[[Dims], int]
    elements: Callable[[Dims], int]
    example: str


def _conv_output(d: Dims) -> int:
    """Output pixels of one image and one channel, with k // 2 pixels of padding."""
    rows, cols = ((d[axis] + 2 * (d["k"] // 2) - d["k"]) // d["s"] + 1 for axis in "hw")
    return rows * cols


OPERATORS: Mapping[str, Operator] = {
    "matmul": Operator(
        ("m", "n", "k"),
        lambda d: 2 * d["m"] * d["n"] * d["k"],
        lambda d: d["m"] * d["k"] + d["k"] * d["n"] + d["m"] * d["n"],
        "C[m, n] = A[m, k] B[k, n]",
    ),
    "matmul_bias_gelu": Operator(
        ("m", "n", "k"),
        lambda d: 2 * d["m"] * d["n"] * d["k"] + 9 * d["m"] * d["n"],
        lambda d: d["m"] * d["k"] + d["k"] * d["n"] + d["n"] + d["m"] * d["n"],
        "C[m, n] = gelu(A[m, k] B[k, n] + bias[n]), gelu by erf",
    ),
    "batch_matmul": Operator(
        ("b", "m", "n", "k"),
        lambda d: 2 * d["b"] * d["m"] * d["n"] * d["k"],
        lambda d: d["b"] * (d["m"] * d["k"] + d["k"] * d["n"] + d["m"] * d["n"]),
        "C[b, m, n] = A[b, m, k] B[b, k, n]",
    ),
    "conv2d": Operator(
        ("n", "c", "h", "w", "o", "k", "s"),
        lambda d: 2 * d["n"] * d["o"] * _conv_output(d) * d["c"] * d["k"] ** 2,
        lambda d: (
            d["n"] * d["c"] * d["h"] * d["w"]
            + d["o"] * d["c"] * d["k"] ** 2
            + d["n"] * d["o"] * _conv_output(d)
        ),
        "NCHW convolution, c -> o channels, k x k window, stride s, padding k // 2",
    ),
    "depthwise_conv2d": Operator(
        ("n", "c", "h", "w", "k", "s"),
        lambda d: 2 * d["n"] * d["c"] * _conv_output(d) * d["k"] ** 2,
        lambda d: d["n"] * d["c"] * (d["h"] * d["w"] + _conv_output(d)) + d["c"] * d["k"] ** 2,
        "NCHW depthwise convolution, k x k window, stride s, padding k // 2",
    ),
    "softmax": Operator(
        ("m", "n"),
        lambda d: 5 * d["m"] * d["n"],
        lambda d: 2 * d["m"] * d["n"],
        "softmax over the last axis of X[m, n]",
    ),
    "layer_norm": Operator(
        ("m", "n"),
        lambda d: 8 * d["m"] * d["n"],
        lambda d: 2 * d["m"] * d["n"] + 2 * d["n"],
        "layer normalisation over the last axis of X[m, n], with gain and bias",
    ),
}
