"""What follows a product: Inductor fuses it into Triton's kernels, but not into calls of the library."""

from collections.abc import Iterator
from math import inf
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.select_algorithm import TritonTemplateCaller

from costmodel.integrations.inductor._describe import read_choice
from costmodel.products._product import RESULT_BYTES, Product

aten = torch.ops.aten
_VIEWS = {aten.view, aten._unsafe_view, aten.reshape, aten.expand, aten.unsqueeze, aten.squeeze}
_PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
_MOST_STEPS = 32
# An elementwise kernel of an H100 in a CUDA graph, and what an SM reads and writes in a second.
_START_S, _BYTES_PER_S = 2e-6, 3e10
_MOST_SUMS = 64  # of a thread, with which what is fused still has registers


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
    return _elementwise_seconds(2.0 * results, sms)


def fuse_untimed(graph: Any, product: Any, following: Any, sms: int) -> bool | None:
    """Tell whether to fuse two nodes, without compiling them together; None where this must be tried.

    What follows a product is fused into the fastest of Triton's kernels, unless a call of the library is
    faster even with a kernel behind it. A kernel whose threads hold many sums may run out of registers.

    Args:
        graph: Inductor's scheduler.
        product: The first node.
        following: The second.
        sms: Granted SMs.
    """
    buffer = product.get_template_node() if product.is_template() else None
    if not isinstance(buffer, ir.MultiTemplateBuffer) or following.is_template() or following.is_foreach():
        return None
    if graph._has_layout_conflict_for_template(buffer):
        return False
    timings = buffer.choice_timings()
    fusible = {each: ms for each, ms in timings.items() if isinstance(each, TritonTemplateCaller)}
    best = min(fusible, key=fusible.__getitem__, default=None)
    apart_s = _elementwise_seconds(float(following.get_read_write_buffers_sizes()), sms)
    library_ms = min((ms for each, ms in timings.items() if each not in fusible), default=inf)
    if best is None or not fusible[best] <= library_ms + 1e3 * apart_s or fusible[best] == inf:
        return False
    kernel = read_choice(best.annotations["ktc"]) if "ktc" in best.annotations else None
    if kernel is None or kernel.block_m * kernel.block_n > _MOST_SUMS * 32 * kernel.warps:
        return None
    buffer.finalize_as_triton_caller(best)
    return True


def _elementwise_seconds(moved_bytes: float, sms: int) -> float:
    return _START_S + moved_bytes / (_BYTES_PER_S * sms)


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
