"""Triton's candidates: tiles, ways to share them out, and what of a shape changes the machine code."""

from collections.abc import Iterator
from typing import NamedTuple

from shapes import Shape


class Tile(NamedTuple):
    """Size of a tile, depth of the pipeline, warps of a program."""

    block_m: int
    block_n: int
    block_k: int
    stages: int
    warps: int


class Config(NamedTuple):
    """A candidate.

    Attributes:
        kind: "plain", "split-k", "persistent", "stream-k" or "tma".
        tile: What is compiled in.
        group_m: Rows of tiles that are walked together.
        splits: Programs that share a tile.
        per_sm: Programs on an SM, where their number is fixed; else 0.
    """

    kind: str
    tile: Tile
    group_m: int = 8
    splits: int = 1
    per_sm: int = 0


class Variant(NamedTuple):
    """Machine code: what of a shape and a config is compiled in."""

    kind: str
    tile: Tile
    dtype: str
    layout: str
    epilogue: str
    even_k: bool
    aligned: tuple[bool, bool, bool]


_SMALL = (
    Tile(16, 32, 256, 3, 4), Tile(16, 64, 128, 4, 4), Tile(16, 64, 256, 3, 4), Tile(16, 128, 128, 3, 4),
    Tile(16, 128, 64, 5, 8), Tile(32, 32, 128, 4, 4), Tile(32, 64, 128, 4, 4), Tile(32, 128, 64, 4, 4),
    Tile(32, 128, 128, 3, 8),
)  # fmt: skip
_LARGE = (
    Tile(64, 32, 128, 4, 4), Tile(64, 64, 64, 4, 4), Tile(64, 64, 128, 3, 4), Tile(64, 128, 64, 4, 4),
    Tile(64, 128, 128, 3, 4), Tile(64, 256, 64, 3, 4), Tile(128, 64, 64, 4, 4), Tile(128, 64, 128, 3, 8),
    Tile(128, 128, 32, 4, 4), Tile(128, 128, 64, 3, 4), Tile(128, 128, 64, 4, 8), Tile(128, 256, 64, 3, 8),
    Tile(128, 256, 64, 4, 8), Tile(256, 128, 64, 3, 8), Tile(256, 64, 64, 4, 8),
)  # fmt: skip
_SPLIT = (
    _SMALL[0],
    _SMALL[1],
    _SMALL[3],
    _SMALL[5],
    _SMALL[6],
    _SMALL[7],
    *(_LARGE[i] for i in (1, 3, 6, 9, 11)),
)
_PERSISTENT = tuple(_LARGE[i] for i in (3, 6, 9, 10, 11, 13))
_STREAM = (_SMALL[1], _SMALL[6], *(_LARGE[i] for i in (1, 3, 6, 9, 11)))
_TMA = tuple(_LARGE[i] for i in (3, 6, 9, 10, 12))
_16_BITS = {
    "plain": _SMALL + _LARGE, "split-k": _SPLIT, "persistent": _PERSISTENT, "stream-k": _STREAM, "tma": _TMA,
}  # fmt: skip
# Elements twice as wide: half the slab. On CUDA cores (float32) no large tiles: they unroll too far.
_TF32_PLAIN = (
    Tile(16, 32, 128, 3, 4), Tile(16, 64, 64, 4, 4), Tile(16, 128, 64, 3, 4), Tile(32, 64, 64, 4, 4),
    Tile(64, 64, 32, 4, 4), Tile(64, 64, 64, 3, 4), Tile(64, 128, 32, 4, 4), Tile(128, 64, 32, 4, 4),
    Tile(128, 128, 32, 3, 4), Tile(128, 128, 32, 4, 8), Tile(128, 256, 32, 3, 8), Tile(256, 64, 32, 4, 8),
)  # fmt: skip
_TF32 = {
    "plain": _TF32_PLAIN, "split-k": tuple(_TF32_PLAIN[i] for i in (1, 3, 4, 6, 8)),
    "persistent": tuple(_TF32_PLAIN[i] for i in (6, 9)), "stream-k": tuple(_TF32_PLAIN[i] for i in (4, 6, 8)),
    "tma": tuple(_TF32_PLAIN[i] for i in (6, 9)),
}  # fmt: skip
_F32_PLAIN = (
    Tile(16, 32, 32, 3, 4), Tile(16, 64, 32, 3, 4), Tile(32, 32, 32, 3, 4), Tile(32, 64, 32, 3, 4),
    Tile(64, 64, 16, 3, 4), Tile(64, 64, 16, 3, 8), Tile(64, 128, 16, 3, 8), Tile(128, 64, 16, 3, 8),
    Tile(128, 128, 16, 3, 8),
)  # fmt: skip
_F32 = {
    "plain": _F32_PLAIN, "split-k": tuple(_F32_PLAIN[i] for i in (1, 3, 4, 6)),
    "stream-k": tuple(_F32_PLAIN[i] for i in (4,)),
}  # fmt: skip
_8_BITS = {
    "plain": (
        Tile(32, 64, 128, 4, 4), Tile(32, 128, 128, 4, 4), Tile(64, 64, 128, 4, 4), Tile(64, 128, 128, 4, 4),
        Tile(64, 256, 128, 3, 8), Tile(128, 64, 128, 4, 4), Tile(128, 128, 128, 3, 4),
        Tile(128, 128, 128, 4, 8), Tile(128, 256, 128, 3, 8), Tile(256, 128, 64, 4, 8),
    ),
    "split-k": (Tile(32, 64, 128, 4, 4), Tile(64, 128, 128, 4, 4), Tile(128, 128, 128, 3, 4)),
    "persistent": (Tile(64, 128, 128, 4, 4), Tile(128, 128, 128, 4, 8)),
    "tma": (Tile(64, 128, 128, 4, 4), Tile(128, 128, 128, 4, 8), Tile(128, 256, 128, 3, 8)),
}  # fmt: skip
_KINDS = {
    "float16": _16_BITS, "bfloat16": _16_BITS, "tfloat32": _TF32, "float32": _F32,
    "float8_e4m3": _8_BITS, "int8": _8_BITS,
}  # fmt: skip
WIDTH = {"float16": 2, "bfloat16": 2, "tfloat32": 4, "float32": 4, "float8_e4m3": 1, "int8": 1}
_SHARED_BYTES = 232448
_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32)


def tiles_of(shape: Shape, tile: Tile) -> int:
    """How many tiles cover the results."""
    return shape.batch * -(-shape.m // tile.block_m) * -(-shape.n // tile.block_n)


def list_configs(shape: Shape, sms: int) -> Iterator[Config]:
    """List the candidates of a shape on some SMs."""
    rows = -(-shape.m // 16) * 16
    for kind, tiles in _KINDS[shape.dtype].items():
        for tile in tiles:
            if _fits(shape, kind, tile, rows):
                yield from _ways(shape, kind, tile, sms)


def _fits(shape: Shape, kind: str, tile: Tile, rows: int) -> bool:
    """Whether a tile is not mostly outside of the results, or so small that nobody would take it."""
    if (
        tile.block_m >= 2 * rows
        or tile.block_n >= 2 * max(shape.n, 32)
        or tile.block_k >= 2 * max(shape.k, 64)
    ):
        return False
    if (shape.m > 512 and tile.block_m <= 16) or (shape.m > 2048 and tile.block_m <= 32):
        return False
    if kind == "tma":
        strides = aligned(shape)
        return shape.batch == 1 and strides[0] and strides[1]
    # Copies of single elements gain nothing from the others, and each is to be compiled.
    return kind in ("plain", "split-k") or all(aligned(shape))


def _ways(shape: Shape, kind: str, tile: Tile, sms: int) -> Iterator[Config]:
    tiles, slabs = tiles_of(shape, tile), -(-shape.k // tile.block_k)
    if kind == "plain":
        yield Config(kind, tile)
        if tile.block_m * tile.block_n >= 16384 and tile.warps == 8 and shape.m > 4 * tile.block_m:
            yield from (Config(kind, tile, group_m=group) for group in (1, 4))
    elif kind == "split-k":
        most = min(slabs // 2, max(4 * sms // tiles, 2))
        useful = [splits for splits in _SPLITS if splits <= most and tiles * splits <= 1056]
        nearest = sorted(useful, key=lambda splits: abs(_uneven(tiles * splits, sms)))[:2]
        yield from (Config(kind, tile, splits=splits) for splits in nearest)
    elif kind == "stream-k":
        programs = _per_sm(tile, shape.dtype) * sms
        if tiles * slabs >= 2 * programs and tiles % sms:
            yield Config(kind, tile, per_sm=programs // sms)
    elif tiles > sms:
        yield Config(kind, tile, per_sm=_per_sm(tile, shape.dtype))


def _uneven(programs: int, sms: int) -> float:
    """How much of the last wave is idle, and a little for each wave."""
    waves = -(-programs // sms)
    return waves * sms / programs - 1 + 0.05 * waves


def _per_sm(tile: Tile, dtype: str) -> int:
    """Programs that an SM holds by shared memory and registers, at most two."""
    staged = tile.stages * (tile.block_m + tile.block_n) * tile.block_k * WIDTH[dtype]
    sums = tile.block_m * tile.block_n / (32 * tile.warps)
    return 2 if 2 * staged <= _SHARED_BYTES and (sums + 60) * 64 * tile.warps <= 65536 else 1


def strides(shape: Shape) -> tuple[int, int, int]:
    """Leading dimensions of A, B and C."""
    return (
        shape.m if shape.layout[0] == "t" else shape.k,
        shape.k if shape.layout[1] == "t" else shape.n,
        shape.n,
    )


def aligned(shape: Shape) -> tuple[bool, bool, bool]:
    """Which leading dimensions 16 divides, by which Triton compiles other code."""
    a, b, c = strides(shape)
    return a % 16 == 0, b % 16 == 0, c % 16 == 0


def variant_of(shape: Shape, config: Config) -> Variant:
    """Machine code that a candidate runs; copies by descriptors need no even sizes."""
    even = config.kind == "tma" or shape.k % config.tile.block_k == 0
    return Variant(config.kind, config.tile, shape.dtype, shape.layout, shape.epilogue, even, aligned(shape))


def list_variants(shapes: list[Shape], budgets: tuple[int, ...]) -> list[tuple[Variant, int]]:
    """Every variant that the shapes need with how many need it, most needed first."""
    counts: dict[Variant, int] = {}
    for shape in shapes:
        for variant in {variant_of(shape, config) for sms in budgets for config in list_configs(shape, sms)}:
            counts[variant] = counts.get(variant, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
