"""Layers that the networks share. Batch norms are folded into the biases of the convolutions before them."""

from collections.abc import Sequence
from typing import Any, Literal

from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

Layout = Literal["NCHW", "NHWC"]


def layout_for(dtype: str) -> Layout:
    """Layout of images: Tensor Cores want channels last."""
    return "NHWC" if dtype == "float16" else "NCHW"


class Layer(nn.Module):  # type: ignore[misc]  # TVM ships no types
    """Base of layers and networks."""


class Linear(Layer):
    """``x @ weight + bias`` with the weight stored ``(inputs, outputs)``."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        self.weight = nn.Parameter((inputs, outputs))
        self.bias = nn.Parameter((outputs,)) if bias else None

    def forward(self, x: Any) -> Any:
        """``(..., inputs)`` to ``(..., outputs)``."""
        product = op.matmul(x, self.weight)
        return product if self.bias is None else op.add(product, self.bias)


class Conv(Layer):
    """Convolution with bias, ``k // 2`` pixels of padding; depthwise where ``depthwise`` says so."""

    def __init__(  # noqa: PLR0913, PLR0917 (it takes that many numbers to say which convolution)
        self, layout: Layout, channels: int, filters: int, k: int, stride: int = 1, depthwise: bool = False
    ) -> None:
        inputs, self.groups = (1, channels) if depthwise else (channels, 1)
        self.layout, self.padding, self.stride = layout, k // 2, stride
        if layout == "NCHW":
            self.weight = nn.Parameter((filters, inputs, k, k))
            self.bias = nn.Parameter((filters, 1, 1))
        else:
            self.weight = nn.Parameter((k, k, inputs, filters))
            self.bias = nn.Parameter((filters,))

    def forward(self, x: Any) -> Any:
        """An image in the layout to an image in the layout."""
        result = relax.op.nn.conv2d(
            x._expr,
            self.weight._expr,
            strides=self.stride,
            padding=self.padding,
            groups=self.groups,
            data_layout=self.layout,
            kernel_layout="OIHW" if self.layout == "NCHW" else "HWIO",
        )
        return op.add(op.wrap_nested(result, "conv2d"), self.bias)


def relu6(x: Any) -> Any:
    """``min(max(x, 0), 6)``."""
    return op.wrap_nested(relax.op.clip(x._expr, 0, 6), "relu6")


def max_pool(x: Any, layout: Layout, stride: int) -> Any:
    """Maximum over 3 x 3 windows."""
    pooled = relax.op.nn.max_pool2d(x._expr, (3, 3), (stride, stride), (1, 1), layout=layout)
    return op.wrap_nested(pooled, "max_pool")


def mean_of_pixels(x: Any, layout: Layout) -> Any:
    """``(n, channels)`` means."""
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    return op.wrap_nested(relax.op.mean(x._expr, axes), "mean_of_pixels")


def concat_channels(images: Sequence[Any], layout: Layout) -> Any:
    """Images behind each other in their channels."""
    return op.concat(list(images), dim=1 if layout == "NCHW" else 3)


def split_heads(x: Any, heads: int) -> Any:
    """``(tokens, heads * width)`` to ``(heads, tokens, width)``."""
    tokens, size = (int(extent) for extent in x.shape)
    return op.permute_dims(op.reshape(x, (tokens, heads, size // heads)), (1, 0, 2))


def merge_heads(x: Any) -> Any:
    """``(heads, tokens, width)`` to ``(tokens, heads * width)``."""
    heads, tokens, width = (int(extent) for extent in x.shape)
    return op.reshape(op.permute_dims(x, (1, 0, 2)), (tokens, heads * width))


def attend(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attention; ``1 / sqrt(width)`` is folded into the weights that make the queries.

    Args:
        query: ``(heads, tokens, width)``.
        key: ``(key heads, seen tokens, width)``; each serves ``heads / key heads`` heads, next to each other.
        value: As ``key``.
        mask: ``(tokens, seen tokens)``, added to the scores.

    Returns:
        ``(heads, tokens, width)``.
    """
    heads, tokens, width = (int(extent) for extent in query.shape)
    groups, seen, _ = (int(extent) for extent in key.shape)
    grouped = op.reshape(query, (groups, heads // groups * tokens, width))
    scores = op.matmul(grouped, op.permute_dims(key, (0, 2, 1)))
    if mask is not None:
        scores = op.add(op.reshape(scores, (groups, heads // groups, tokens, seen)), mask)
    weights = op.softmax(op.reshape(scores, (heads * tokens, seen)), axis=1)
    weights = op.reshape(weights, (groups, heads // groups * tokens, seen))
    return op.reshape(op.matmul(weights, value), (heads, tokens, width))


def export_network(network: Any, dtype: str, **inputs: tuple[int, ...]) -> Any:
    """The Relax module of a network, whose function is ``forward``.

    Args:
        network: A ``Layer``.
        dtype: Element type of all its arrays.
        inputs: Shape of each argument of its ``forward``.
    """
    network.to(dtype)
    spec = {name: nn.spec.Tensor(shape, dtype) for name, shape in inputs.items()}
    module, _ = network.export_tvm({"forward": spec})
    return module
