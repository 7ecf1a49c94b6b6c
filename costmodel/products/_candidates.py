"""Kernels that are worth asking about for a product on some SMs, without a GPU: some sixty.

Triton's are tiles that its compiler does well on Hopper, in five ways to share them out; of cuBLASLt's, the
first of its heuristics, told its SMs and not; and PyTorch's call.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from costmodel.products._product import OPERAND_BYTES, Kernel, Product

Tile = tuple[int, int, int, int, int]  # rows, columns, slab, stages, warps
_SMALL: Sequence[Tile] = (
    (16, 32, 256, 3, 4), (16, 64, 128, 4, 4), (16, 64, 256, 3, 4), (16, 128, 128, 3, 4), (16, 128, 64, 5, 8),
    (32, 32, 128, 4, 4), (32, 64, 128, 4, 4), (32, 128, 64, 4, 4), (32, 128, 128, 3, 8),
)  # fmt: skip
_LARGE: Sequence[Tile] = (
    (64, 32, 128, 4, 4), (64, 64, 64, 4, 4), (64, 64, 128, 3, 4), (64, 128, 64, 4, 4), (64, 128, 128, 3, 4),
    (64, 256, 64, 3, 4), (128, 64, 64, 4, 4), (128, 64, 128, 3, 8), (128, 128, 32, 4, 4),
    (128, 128, 64, 3, 4), (128, 128, 64, 4, 8), (128, 256, 64, 3, 8), (128, 256, 64, 4, 8),
    (256, 128, 64, 3, 8), (256, 64, 64, 4, 8),
)  # fmt: skip
_16_BITS: Mapping[str, Sequence[Tile]] = {
    "plain": (*_SMALL, *_LARGE),
    "split-k": (*(_SMALL[i] for i in (0, 1, 3, 5, 6, 7)), *(_LARGE[i] for i in (1, 3, 6, 9, 11))),
    "persistent": tuple(_LARGE[i] for i in (3, 6, 9, 10, 11, 13)),
    "stream-k": (_SMALL[1], _SMALL[6], *(_LARGE[i] for i in (1, 3, 6, 9, 11))),
    "tma": tuple(_LARGE[i] for i in (3, 6, 9, 10, 12)),
}
# Elements twice as wide: half the slab. CUDA cores (float32) unroll large tiles too far.
_TF32: Sequence[Tile] = (
    (16, 32, 128, 3, 4), (16, 64, 64, 4, 4), (16, 128, 64, 3, 4), (32, 64, 64, 4, 4), (64, 64, 32, 4, 4),
    (64, 64, 64, 3, 4), (64, 128, 32, 4, 4), (128, 64, 32, 4, 4), (128, 128, 32, 3, 4), (128, 128, 32, 4, 8),
    (128, 256, 32, 3, 8), (256, 64, 32, 4, 8),
)  # fmt: skip
_F32: Sequence[Tile] = (
    (16, 32, 32, 3, 4), (16, 64, 32, 3, 4), (32, 32, 32, 3, 4), (32, 64, 32, 3, 4), (64, 64, 16, 3, 4),
    (64, 64, 16, 3, 8), (64, 128, 16, 3, 8), (128, 64, 16, 3, 8), (128, 128, 16, 3, 8),
)  # fmt: skip
_8: Sequence[Tile] = (
    (32, 64, 128, 4, 4), (32, 128, 128, 4, 4), (64, 64, 128, 4, 4), (64, 128, 128, 4, 4),
    (64, 256, 128, 3, 8), (128, 64, 128, 4, 4), (128, 128, 128, 3, 4), (128, 128, 128, 4, 8),
    (128, 256, 128, 3, 8), (256, 128, 64, 4, 8),
)  # fmt: skip
_8_BITS = {
    "plain": _8,
    "split-k": (_8[0], _8[3], _8[6]),
    "persistent": (_8[3], _8[7]),
    "tma": (_8[3], _8[7], _8[8]),
}
_TILES: Mapping[str, Mapping[str, Sequence[Tile]]] = {
    "float16": _16_BITS,
    "bfloat16": _16_BITS,
    "tfloat32": {
        "plain": _TF32,
        "split-k": tuple(_TF32[i] for i in (1, 3, 4, 6, 8)),
        "persistent": (_TF32[6], _TF32[9]),
        "stream-k": tuple(_TF32[i] for i in (4, 6, 8)),
        "tma": (_TF32[6], _TF32[9]),
    },
    "float32": {"plain": _F32, "split-k": tuple(_F32[i] for i in (1, 3, 4, 6)), "stream-k": (_F32[4],)},
    "float8_e4m3": _8_BITS,
    "int8": _8_BITS,
}
_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_MOST_PROGRAMS = 1056  # of a product that is split: eight for each SM of an H100
_SHARED_BYTES, _REGISTERS = 232448, 65536
_TOLD, _UNTOLD = 4, 2  # of cuBLASLt's list


def list_candidates(product: Product, sms: int, whole: int, offered: Sequence[Kernel] = ()) -> list[Kernel]:
    """List the candidates of a product.

    Args:
        product: The product.
        sms: SMs that are granted.
        whole: SMs of the device: a library that has them all need not be told.
        offered: cuBLASLt's algorithms, where they are known.
    """
    if offered:
        return [Kernel("torch"), *offered, *list_tiled(product, sms)]
    is_part = sms < whole
    library = [Kernel("cublaslt", "told", position=i) for i in range(_TOLD)] if is_part else []
    library += [Kernel("cublaslt", position=i) for i in range(_UNTOLD if is_part else _TOLD)]
    return [Kernel("torch"), *library, *list_tiled(product, sms)]


def list_tiled(product: Product, sms: int) -> Iterator[Kernel]:
    """List Triton's candidates."""
    aligned = [stride % 16 == 0 for stride in product.strides]
    for kind, tiles in _TILES[product.dtype].items():
        for tile in tiles:
            if _fits(product, kind, tile, aligned):
                yield from _ways(product, kind, tile, sms)


def _fits(product: Product, kind: str, tile: Tile, aligned: Sequence[bool]) -> bool:
    """Whether a tile is not mostly outside of the results, or so small that nobody would take it."""
    m, n, k, *_ = tile
    if (
        m >= 2 * max(-(-product.m // 16) * 16, 16)
        or n >= 2 * max(product.n, 32)
        or k >= 2 * max(product.k, 64)
    ):
        return False
    if (product.m > 512 and m <= 16) or (product.m > 2048 and m <= 32):
        return False
    a, b, c = aligned
    if kind == "tma":
        return product.batch == 1 and a and b
    # Copies of single elements gain nothing from the others.
    return kind in ("plain", "split-k") or (a and b and c)


def _ways(product: Product, kind: str, tile: Tile, sms: int) -> Iterator[Kernel]:
    m, n, k, _, warps = tile
    tiles = product.batch * -(-product.m // m) * -(-product.n // n)
    slabs, per_sm = -(-product.k // k), _per_sm(tile, product.dtype)
    kernel = Kernel("triton", kind, *tile)
    if kind == "plain":
        yield kernel
        if m * n >= 16384 and warps == 8 and product.m > 4 * m:
            yield from (kernel._replace(group_m=group) for group in (1, 4))
    elif kind == "split-k":
        most = min(slabs // 2, max(4 * sms // tiles, 2))
        useful = [splits for splits in _SPLITS if splits <= most and tiles * splits <= _MOST_PROGRAMS]
        nearest = sorted(useful, key=lambda splits: _uneven(tiles * splits, sms))[:2]
        yield from (kernel._replace(splits=splits) for splits in nearest)
    elif kind == "stream-k":
        if tiles * slabs >= 2 * per_sm * sms and tiles % sms:
            yield kernel._replace(programs_per_sm=per_sm)
    elif tiles > sms:
        yield kernel._replace(programs_per_sm=per_sm)


def _uneven(programs: int, sms: int) -> float:
    """How much of the last wave is idle, and a little for each wave."""
    waves = -(-programs // sms)
    return waves * sms / programs - 1 + 0.05 * waves


@cache
def _per_sm(tile: Tile, dtype: str) -> int:
    """Programs that an SM holds by shared memory and registers, at most two."""
    m, n, k, stages, warps = tile
    staged, threads = stages * (m + n) * k * OPERAND_BYTES[dtype], 32 * warps
    return 2 if 2 * staged <= _SHARED_BYTES and 2 * (m * n + 60 * threads) <= _REGISTERS else 1
