"""The operator kinds that a workload can have: an anchor and an epilogue, such as ``conv2d_bias_relu``.

The anchor (``conv2d``) names the dimensions in the order in which a workload's name spells them. The epilogue
(``bias``, ``relu``) is what the same kernel does to each result before it is written. The inputs are those of
the anchor, then one for each step of the epilogue that needs one.

``flops`` counts a fused multiply-add as two operations. ``elements`` counts each input read once and the
output written once: the fewest that any kernel can move through device memory.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Dims = Mapping[str, int]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Anchor:
    """What the main loop of a kernel computes.

    Shapes are spelled by dimension, such as ``"n c h w"``; ``y`` and ``x`` are the rows and columns of a
    convolution's output.

    Attributes:
        dims: Names of the dimensions.
        reduced: Dimensions that one result accumulates over; their product is the length of a reduction.
        inputs: Name and shape of each input.
        output: Shape of the output.
        example: What it computes, in one line.
        bias: Shape of a bias, which broadcasts against the output.
        flops_per_result: Operations for one element of the output; None for a product and a sum for each
            step of the reduction.
        variant_of: Anchor that computes the same in another layout, or a little more; empty if none does.
    """

    dims: tuple[str, ...]
    reduced: tuple[str, ...]
    inputs: Mapping[str, str]
    output: str
    example: str
    bias: str = ""
    flops_per_result: int | None = None
    variant_of: str = ""

    @property
    def takes_epilogue(self) -> bool:
        """Whether an epilogue can follow."""
        return bool(self.bias)


@dataclass(frozen=True)
class EpilogueStep:
    """One step of an epilogue.

    Attributes:
        flops: Operations on each element.
        example: What it computes, in one line.
        operand: What its own input is shaped like, where it has one.
    """

    flops: int
    example: str
    operand: Literal["bias", "output"] | None = None


@dataclass(frozen=True)
class Operator:
    """One operator kind.

    Attributes:
        anchor: Name of the anchor, a key of ``ANCHORS``.
        epilogue: Names of the steps, keys of ``STEPS``, in order.
    """

    anchor: str
    epilogue: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """Name of the anchor that its anchor is a variant of, or its own."""
        return ANCHORS[self.anchor].variant_of or self.anchor

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return ANCHORS[self.anchor].dims

    @property
    def spelled_inputs(self) -> dict[str, str]:
        """Name and spelled shape of each input: those of the anchor, then one a step that needs one."""
        anchor = ANCHORS[self.anchor]
        own = {"bias": anchor.bias, "output": anchor.output}
        operands = {step: STEPS[step].operand for step in self.epilogue}
        return {**anchor.inputs, **{step: own[operand] for step, operand in operands.items() if operand}}

    def inputs(self, dims: Dims) -> dict[str, Shape]:
        """Name and shape of each input."""
        return {name: _shape(spelled, dims) for name, spelled in self.spelled_inputs.items()}

    def output(self, dims: Dims) -> Shape:
        """Shape of the output."""
        return _shape(ANCHORS[self.anchor].output, dims)

    def reduction(self, dims: Dims) -> int:
        """Length that one result accumulates over."""
        return math.prod(dims[name] for name in ANCHORS[self.anchor].reduced)

    def flops(self, dims: Dims) -> int:
        """Arithmetic operations of one run."""
        each = ANCHORS[self.anchor].flops_per_result or 2 * self.reduction(dims)
        return (each + sum(STEPS[step].flops for step in self.epilogue)) * math.prod(self.output(dims))

    def elements(self, dims: Dims) -> int:
        """Elements read plus elements written, each once."""
        return sum(map(math.prod, [*self.inputs(dims).values(), self.output(dims)]))


def _shape(spelled: str, dims: Dims) -> Shape:
    """The shape that is spelled; a convolution has k // 2 pixels of padding."""
    sizes = {"1": 1, **dims}
    if "s" in dims:
        for pixels, axis in (("y", "h"), ("x", "w")):
            sizes[pixels] = (dims[axis] + 2 * (dims["k"] // 2) - dims["k"]) // dims["s"] + 1
    return tuple(sizes[name] for name in spelled.split())


_WINDOW = "k x k window, stride s, padding k // 2"

ANCHORS: Mapping[str, Anchor] = {
    "matmul": Anchor(
        dims=("m", "n", "k"),
        reduced=("k",),
        inputs={"A": "m k", "B": "k n"},
        output="m n",
        example="C[m, n] = A[m, k] B[k, n]",
        bias="n",
    ),
    "batch_matmul": Anchor(
        dims=("b", "m", "n", "k"),
        reduced=("k",),
        inputs={"A": "b m k", "B": "b k n"},
        output="b m n",
        example="C[b, m, n] = A[b, m, k] B[b, k, n]",
        bias="n",
    ),
    "conv2d": Anchor(
        dims=("n", "c", "h", "w", "o", "k", "s"),
        reduced=("c", "k", "k"),
        inputs={"data": "n c h w", "weight": "o c k k"},
        output="n o y x",
        example=f"convolution, c -> o channels, {_WINDOW}",
        bias="o 1 1",
    ),
    "conv2d_nhwc": Anchor(
        dims=("n", "c", "h", "w", "o", "k", "s"),
        reduced=("c", "k", "k"),
        inputs={"data": "n h w c", "weight": "k k c o"},
        output="n y x o",
        example=f"convolution with channels last, c -> o channels, {_WINDOW}",
        bias="o",
        variant_of="conv2d",
    ),
    "depthwise_conv2d": Anchor(
        dims=("n", "c", "h", "w", "k", "s"),
        reduced=("k", "k"),
        inputs={"data": "n c h w", "weight": "c 1 k k"},
        output="n c y x",
        example=f"depthwise convolution, {_WINDOW}",
        bias="c 1 1",
    ),
    "depthwise_conv2d_nhwc": Anchor(
        dims=("n", "c", "h", "w", "k", "s"),
        reduced=("k", "k"),
        inputs={"data": "n h w c", "weight": "k k 1 c"},
        output="n y x c",
        example=f"depthwise convolution with channels last, {_WINDOW}",
        bias="c",
        variant_of="depthwise_conv2d",
    ),
    "softmax": Anchor(
        dims=("m", "n"),
        reduced=("n",),
        inputs={"x": "m n"},
        output="m n",
        example="softmax over the last axis of x[m, n]",
        flops_per_result=5,
    ),
    "layer_norm": Anchor(
        dims=("m", "n"),
        reduced=("n",),
        inputs={"x": "m n", "gain": "n", "bias": "n"},
        output="m n",
        example="layer normalisation over the last axis of x[m, n], with gain and bias",
        flops_per_result=8,
    ),
    "rms_norm": Anchor(
        dims=("m", "n"),
        reduced=("n",),
        inputs={"x": "m n", "gain": "n"},
        output="m n",
        example="x / sqrt(mean(x^2) + 1e-5) over the last axis of x[m, n], with gain",
        flops_per_result=4,
        variant_of="layer_norm",
    ),
}

STEPS: Mapping[str, EpilogueStep] = {
    "bias": EpilogueStep(1, "x + bias[channel]", operand="bias"),
    "add": EpilogueStep(1, "x + a tensor of the output's shape, such as a residual", operand="output"),
    "mul": EpilogueStep(1, "x times a tensor of the output's shape, such as a gate", operand="output"),
    "relu": EpilogueStep(1, "max(x, 0)"),
    "relu6": EpilogueStep(2, "min(max(x, 0), 6)"),
    "gelu": EpilogueStep(8, "x / 2 (1 + erf(x / sqrt(2)))"),
    "silu": EpilogueStep(4, "x / (1 + exp(-x))"),
}

# What networks fuse behind a product or a convolution.
EPILOGUES: tuple[tuple[str, ...], ...] = (
    (),
    *((step,) for step in STEPS),
    *(("bias", step) for step in STEPS if step != "bias"),
    ("bias", "add", "relu"),
    ("silu", "mul"),
)

OPERATORS: Mapping[str, Operator] = {
    "_".join([name, *epilogue]): Operator(name, epilogue)
    for name, anchor in ANCHORS.items()
    for epilogue in (EPILOGUES if anchor.takes_epilogue else EPILOGUES[:1])
}
