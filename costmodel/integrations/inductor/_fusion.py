"""What follows a product: Inductor fuses it into Triton's kernels, but not into calls of the library."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

aten = torch.ops.aten
_VIEWS = {aten.view, aten._unsafe_view, aten.reshape, aten.expand, aten.unsqueeze, aten.squeeze}
_PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten._scaled_mm}
_MOST_STEPS = 32
# Functions of many instructions.
_COSTLY = {aten.gelu, aten.erf, aten.exp, aten.tanh, aten.sigmoid, aten.silu, aten.softplus, aten.pow}
# An elementwise kernel of an H200 in a CUDA graph, and what an SM reads and writes in a second: 69 kernels
# of datasets/inductor-sm-budgets, on 8 to 132 SMs.
_START_S, _BYTES_PER_S = 1.2e-6, 7e10
# A costly function of an element on one SM, behind a product's sums / in a kernel of its own: GELU took
# 160e-12 s there, and 1 to 1.9 times as long behind sums, where few threads have many registers.
_LOST_S = 0.45 * 160e-12


def fusible_steps(node: Any) -> list[torch.fx.Node]:
    """Return the elementwise steps behind a product that Inductor fuses into Triton's kernels.

    There are none unless all that reads the product is elementwise, and ends in other products or the output:
    what ends in a reduction, such as a norm, is fused into that.

    Args:
        node: The product in a graph of PyTorch; what is no node has no followers.
    """
    following = list(_following(node)) if isinstance(node, torch.fx.Node) else []
    elementwise = [each for each in following if _is_elementwise(each)]
    ends = [each for each in following if not _is_elementwise(each) and not _is_one_of(each, _VIEWS)]
    others = any(each.op != "output" and not _is_one_of(each, _PRODUCTS) for each in ends)
    return [] if others else elementwise


def saved_by_fusing(steps: Iterable[torch.fx.Node], elements: int, element_bytes: int, sms: int) -> float:
    """Return the seconds that steps save which are fused into a product's kernel; less than 0 if they lose.

    A kernel of their own starts, and reads and writes the result, but computes faster.

    Args:
        steps: The steps; none save nothing.
        elements: Of the product's result.
        element_bytes: Bytes of each.
        sms: Granted SMs.
    """
    steps = list(steps)
    if not steps:
        return 0.0
    if any(_is_one_of(each, _COSTLY) for each in steps):
        return _START_S - _LOST_S * elements / sms
    return _START_S + 2.0 * elements * element_bytes / (_BYTES_PER_S * sms)


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
