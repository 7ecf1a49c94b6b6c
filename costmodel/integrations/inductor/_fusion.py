"""What follows a product: Inductor fuses it into Triton's kernels, but not into calls of the library."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from costmodel.products._product import RESULT_BYTES, Product

aten = torch.ops.aten
_VIEWS = {aten.view, aten._unsafe_view, aten.reshape, aten.expand, aten.unsqueeze, aten.squeeze}
_PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten._scaled_mm}
_MOST_STEPS = 32
# Functions of many instructions. Behind a product's sums, where few threads have many registers, an H200 took
# 1 to 1.9 times as long for them as in a kernel of their own.
_COSTLY = {aten.gelu, aten.erf, aten.exp, aten.tanh, aten.sigmoid, aten.silu, aten.softplus, aten.pow}
# An elementwise kernel of an H200 in a CUDA graph, and what an SM reads and writes in a second: 69 kernels
# of datasets/inductor-sm-budgets, on 8 to 132 SMs.
_START_S, _BYTES_PER_S = 1.2e-6, 7e10


def saved_by_fusing(node: Any, product: Product, sms: int) -> float:
    """Return the seconds that Triton's kernels save by what Inductor fuses into them behind a product.

    Behind a call of the library it is a kernel of its own, which starts, and reads and writes the result.
    Nothing is saved where a function is costly, nor unless all that reads the product is elementwise, and
    ends in other products or the output: what ends in a reduction, such as a norm, is fused into that.

    Args:
        node: The product in a graph of PyTorch; what is no node has no followers.
        product: The product.
        sms: Granted SMs.
    """
    following = list(_following(node)) if isinstance(node, torch.fx.Node) else []
    elementwise = [each for each in following if _is_elementwise(each)]
    ends = [each for each in following if not _is_elementwise(each) and not _is_one_of(each, _VIEWS)]
    if not elementwise or any(each.op != "output" and not _is_one_of(each, _PRODUCTS) for each in ends):
        return 0.0
    if is_costly(elementwise):
        return 0.0
    results = product.batch * product.m * product.n * RESULT_BYTES[product.dtype]
    return _START_S + 2.0 * results / (_BYTES_PER_S * sms)


def is_costly(steps: Iterable[torch.fx.Node]) -> bool:
    """Tell whether a step takes as long behind a product as in a kernel of its own, or longer."""
    return any(_is_one_of(each, _COSTLY) for each in steps)


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
