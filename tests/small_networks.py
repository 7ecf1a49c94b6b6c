"""Small networks that hold every kind of block of the large ones."""

from collections.abc import Callable, Mapping
from typing import Any


def _image(layout: str, n: int, channels: int, size: int) -> tuple[int, ...]:
    return (n, channels, size, size) if layout == "NCHW" else (n, size, size, channels)


def _chain(*blocks: Any) -> Any:
    from tvm.relax.frontend import nn

    from costmodel.workloads._network_layers import Layer

    class Chain(Layer):
        def __init__(self) -> None:
            self.blocks = nn.ModuleList(list(blocks))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    return Chain()


def _bottlenecks(layout: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads._network_models import Bottleneck

    blocks = [Bottleneck(layout, 8, 4, 2), Bottleneck(layout, 16, 4, 1)]
    return _chain(*blocks), {"x": _image(layout, 2, 8, 9)}


def _inverted_residuals(layout: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads._network_models import InvertedResidual

    blocks = [InvertedResidual(layout, 6, 4, 2, 2), InvertedResidual(layout, 4, 4, 3, 1)]
    return _chain(*blocks), {"x": _image(layout, 1, 6, 8)}


def _inception(layout: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads._network_models import Inception

    return Inception(layout, 6, (4, 3, 5, 2, 4, 3)), {"x": _image(layout, 1, 6, 7)}


def _bert(_: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads import Bert

    return Bert(24, 3, 1), {"x": (10, 24)}


def _prefill(_: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads._network_models import Prefill

    shapes = {"x": (10, 24), "cosine": (10, 4), "sine": (10, 4), "mask": (10, 10)}
    return Prefill(24, 6, 3, 40, 1), shapes


def _decode(_: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads._network_models import Decode

    shapes = {"x": (1, 24), "cosine": (1, 4), "sine": (1, 4), "keys": (3, 9, 4), "values": (3, 9, 4)}
    return Decode(24, 6, 3, 40, 1), shapes


def _dlrm(_: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    from costmodel.workloads._network_models import TABLES, WIDTH, Dlrm

    return Dlrm(), {"numbers": (3, 13), "embeddings": (3, TABLES, WIDTH)}


_SMALL: Mapping[str, Callable[[str], tuple[Any, dict[str, tuple[int, ...]]]]] = {
    "bottlenecks": _bottlenecks,
    "inverted_residuals": _inverted_residuals,
    "inception": _inception,
    "bert": _bert,
    "prefill": _prefill,
    "decode": _decode,
    "dlrm": _dlrm,
}
SMALL = tuple(_SMALL)


def export_small(name: str, dtype: str) -> Any:
    """The network's Relax module."""
    from costmodel.workloads import export_network
    from costmodel.workloads._network_layers import layout_for

    network, shapes = _SMALL[name](layout_for(dtype))
    return export_network(network, dtype, **shapes)
