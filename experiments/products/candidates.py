"""What of a product and of a kernel of Triton's changes the machine code."""

from collections.abc import Sequence
from typing import NamedTuple

from shapes import Shape

from costmodel.products._candidates import Tile, list_tiled
from costmodel.products._product import Kernel, Product


class Variant(NamedTuple):
    """Machine code.

    Attributes:
        kind: How tiles are shared out.
        tile: Rows, columns, slab, stages and warps.
        dtype: Of the operands.
        layout: See ``Product``.
        epilogue: Likewise.
        even_k: Whether slabs fill k.
        aligned: Which leading dimensions, of A, B and C, 16 divides.
    """

    kind: str
    tile: Tile
    dtype: str
    layout: str
    epilogue: str
    even_k: bool
    aligned: tuple[bool, bool, bool]


def tiles_of(product: Product, kernel: Kernel) -> int:
    """Return how many tiles cover the results."""
    return product.batch * -(-product.m // kernel.block_m) * -(-product.n // kernel.block_n)


def variant_of(product: Product, kernel: Kernel) -> Variant:
    """Return the machine code that a kernel runs; copies by descriptors need no even sizes."""
    a, b, c = (stride % 16 == 0 for stride in product.strides)
    even = kernel.kind == "tma" or product.k % kernel.block_k == 0
    m, n, k, stages, warps = kernel[2:7]
    tile = m, n, k, stages, warps
    return Variant(kernel.kind, tile, product.dtype, product.layout, product.epilogue, even, (a, b, c))


def list_variants(shapes: Sequence[Shape], budgets: Sequence[int]) -> list[tuple[Variant, int]]:
    """List every variant that the shapes need, and how many need it, the most needed first."""
    counts: dict[Variant, int] = {}
    for shape in shapes:
        product = shape.product
        needed = {variant_of(product, kernel) for sms in budgets for kernel in list_tiled(product, sms)}
        for variant in needed:
            counts[variant] = counts.get(variant, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
