"""What follows a product: Inductor fuses it into Triton's kernels, but not into calls of the library."""

from collections.abc import Iterator
from typing import Any

import torch

from costmodel.products._product import RESULT_BYTES, Product

aten = torch.ops.aten
_VIEWS = {aten.view, aten._unsafe_view, aten.reshape, aten.expand, aten.unsqueeze, aten.squeeze}
_PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
_MOST_STEPS = 32
# An elementwise kernel of an H100 in a CUDA graph, and what an SM reads and writes in a second.
_START_S, _BYTES_PER_S = 2e-6, 3e10


def is_fusible(node: Any) -> bool:
    """Tell whether all that reads a product is elementwise, and ends in other products or the output.

    What ends in a reduction, such as a norm, is fused into that instead.

    Args:
        node: The product in a graph of PyTorch; what is no node has no followers.
    """
    following = list(_following(node)) if isinstance(node, torch.fx.Node) else []
    elementwise = [each for each in following if _is_elementwise(each)]
    ends = [each for each in following if not _is_elementwise(each) and not _is_one_of(each, _VIEWS)]
    return bool(elementwise) and all(each.op == "output" or _is_one_of(each, _PRODUCTS) for each in ends)


def unfused_seconds(product: Product, sms: int) -> float:
    """Return what an elementwise kernel behind the product takes: it reads and writes the result."""
    results = product.batch * product.m * product.n * RESULT_BYTES[product.dtype]
    return _START_S + 2.0 * results / (_BYTES_PER_S * sms)


def _following(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """What reads a node, or reads it through elementwise steps and views."""
    seen: set[torch.fx.Node] = set()
    waiting = [*node.users]
    while waiting and len(seen) < _MOST_STEPS:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            if _is_elementwise(each) or _is_one_of(each, _VIEWS):
                waiting.extend(each.users)


def _is_elementwise(node: torch.fx.Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _is_one_of(node: torch.fx.Node, packets: set[Any]) -> bool:
    return getattr(node.target, "overloadpacket", None) in packets
