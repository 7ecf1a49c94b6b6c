"""The door: which kernel to take for a product on some SMs, without measuring any."""

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from costmodel.arguments import check_number, check_whole
from costmodel.products._candidates import list_candidates
from costmodel.products._model import H200, shipped_products
from costmodel.products._product import Kernel, Product, check_product

_REMEMBERED = 1 << 16


class Choice(NamedTuple):
    """A kernel, and what is expected of it.

    Attributes:
        kernel: The kernel.
        seconds: Expected latency with operands in L2, back to back in a CUDA graph.
        low_s: Lower end of the 90 % interval.
        high_s: Upper end.
    """

    kernel: Kernel
    seconds: float
    low_s: float
    high_s: float


def choose(
    product: Product,
    sms: int | None = None,
    device: str = H200,
    offered: tuple[Kernel, ...] = (),
    *,
    margin: float = 1.0,
) -> Choice:
    """Return the kernel that is expected to be the fastest, of all back ends.

    A question that was asked before is answered from memory, in about a microsecond.

    Args:
        product: The product.
        sms: SMs that are granted. Default: all that the device has.
        device: Name of the device.
        offered: Algorithms that cuBLASLt's heuristics offer, by ``describe_algorithm``. Who runs it can ask
            in some 30 microseconds; the choice is much better for it. Default: the first of its list,
            whatever they are.
        margin: How many times as long cuBLASLt's first algorithm, told its SMs, must be expected to take
            before another kernel is taken. With 1.3 hardly any choice is slower than it, and the gain is less
            than half.

    Raises:
        CostModelError: The product is none, the device is unknown, or it has fewer SMs.

    Example:
        >>> choose(Product(8, 4096, 4096), sms=32).seconds < 1e-4
        True
    """
    ranked = _ranked(product, sms, device, offered)
    if check_number("margin", margin, 1.0) == 1.0:
        return ranked[0]
    kernels = [each.kernel for each in ranked]
    usual = next((each for each in ranked if is_usual(each.kernel, kernels)), ranked[0])
    return usual if usual.seconds <= margin * ranked[0].seconds else ranked[0]


def is_usual(kernel: Kernel, kernels: Collection[Kernel]) -> bool:
    """Whether a kernel is the first that cuBLASLt offers among these, told its SMs if any is."""
    if kernel.backend != "cublaslt" or kernel.position:
        return False
    return kernel.kind == "told" or not any(each.kind == "told" for each in kernels)


def top(
    product: Product,
    sms: int | None = None,
    device: str = H200,
    offered: tuple[Kernel, ...] = (),
    count: int = 3,
) -> tuple[Choice, ...]:
    """Return the kernels to measure, the fastest expected first.

    Args:
        product: The product.
        sms: SMs that are granted. Default: all that the device has.
        device: Name of the device.
        offered: See ``choose``.
        count: How many at most.

    Raises:
        CostModelError: See ``choose``.
    """
    return _ranked(product, sms, device, offered)[: check_whole("count", count, 1)]


def explain(product: Product, sms: int | None = None, device: str = H200) -> str:
    """Return a table of what is expected of the best kernel of each back end and kind.

    Args:
        product: The product.
        sms: SMs that are granted. Default: all that the device has.
        device: Name of the device.

    Raises:
        CostModelError: See ``choose``.
    """
    best: dict[tuple[str, str], Choice] = {}
    for choice in _ranked(product, sms, device, ()):
        best.setdefault((choice.kernel.backend, choice.kernel.kind), choice)
    lines = [
        f"{product.m} x {product.n} x {product.k} {product.dtype} {product.layout} on {sms or 'all'} SMs"
    ]
    for choice in best.values():
        ends = f"{choice.low_s * 1e6:.1f} to {choice.high_s * 1e6:.1f}"
        lines.append(f"{choice.seconds * 1e6:9.1f} us  ({ends})  {name_kernel(choice.kernel)}")
    return "\n".join(lines)


def name_kernel(kernel: Kernel) -> str:
    """Return a kernel in words."""
    if kernel.backend == "torch":
        return "PyTorch's call"
    if kernel.backend == "cublaslt":
        told = "told its SMs" if kernel.kind else "not told its SMs"
        return f"cuBLASLt {told}, algorithm {kernel.position} of its list"
    tile = f"{kernel.block_m}x{kernel.block_n}x{kernel.block_k}"
    extra = f", {kernel.splits} splits" if kernel.splits > 1 else ""
    return f"Triton {kernel.kind} {tile}, {kernel.stages} stages, {kernel.warps} warps{extra}"


@lru_cache(_REMEMBERED)
def _ranked(
    product: Product, sms: int | None, device: str, offered: tuple[Kernel, ...]
) -> tuple[Choice, ...]:
    model = shipped_products()
    whole = int(model.sms[model.place_of(device)])
    granted = whole if sms is None else check_whole("sms", sms, 1, whole)
    kernels = list_candidates(check_product(product), granted, whole, offered)
    seconds, low, high = model.predict(product, kernels, granted, device)
    order = np.argsort(seconds, kind="stable").tolist()
    return tuple(Choice(kernels[i], float(seconds[i]), float(low[i]), float(high[i])) for i in order)
