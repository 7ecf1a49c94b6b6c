"""What cuBLASLt's numbers of tiles and stages mean: its algorithms are described before they run."""

from functools import cache

from costmodel.products._product import OPERAND_BYTES, Kernel, Product

# ``cublasLtMatmulTile_t`` of ``cublasLt.h``: the first by name; from 36 on every eighth row by every 64th
# column up to 48 x 1024 results, then every 64th row by every eighth column up to 64 x 1024, without those
# before.
_FIRST = (
    (8, 8), (8, 16), (16, 8), (8, 32), (16, 16), (32, 8), (8, 64), (16, 32), (32, 16), (64, 8), (32, 32),
    (32, 64), (64, 32), (32, 128), (64, 64), (128, 32), (64, 128), (128, 64), (64, 256), (128, 128),
    (256, 64), (64, 512), (128, 256), (256, 128), (512, 64), (64, 96), (96, 64), (96, 128), (128, 160),
    (160, 128), (192, 128), (128, 192), (128, 96), (32, 256), (256, 32),
)  # fmt: skip
_LONGEST = 768
# ``cublasLtMatmulStages_t``: 1 to 24 are slabs of 16, 32, 64 or 128, one to six of them in flight; of the
# others, which have as many in flight as fit, the slab.
_SLABS = (16, 32, 64, 128)
_AUTO = {32: 8, 33: 16, 34: 32, 35: 64, 36: 128}
_STAGED_BYTES, _MOST_STAGES = 200 << 10, 8


@cache
def tile_sizes() -> dict[int, tuple[int, int]]:
    """Return rows and columns of each tile, by its number, of matrices that are stored by columns."""
    found = dict(enumerate(_FIRST, 1))
    for row_step, column_step, largest in ((8, 64, 48 << 10), (64, 8, 64 << 10)):
        known = set(found.values())
        every = (
            (rows, columns)
            for rows in range(row_step, _LONGEST + 1, row_step)
            for columns in range(column_step, _LONGEST + 1, column_step)
        )
        new = [tile for tile in every if tile[0] * tile[1] <= largest and tile not in known]
        found |= dict(enumerate(new, len(found) + 1))
    return found


def describe_algorithm(product: Product, kind: str, position: int, config: dict[str, int]) -> Kernel:
    """Return an algorithm that cuBLASLt's heuristics offer as a kernel of a product that is stored by rows.

    Args:
        product: The product.
        kind: "told" its SMs, or ``""``.
        position: In the heuristics' order.
        config: The algorithm's configuration: ``id``, ``tile``, ``stages``, ``splits``, ``custom``,
            ``cluster``; -1 where it says none.
    """
    columns, rows = tile_sizes().get(config["tile"], (0, 0))  # C is stored by rows: a tile is turned
    if not rows:
        return Kernel("cublaslt", kind, position=position)
    width, stages = OPERAND_BYTES[product.dtype], config["stages"]
    if 1 <= stages <= 24:
        block_k, depth = _SLABS[(stages - 1) // 6], (stages - 1) % 6 + 1
    else:
        block_k = _AUTO.get(stages, 64)
        depth = max(2, min(_MOST_STAGES, _STAGED_BYTES // ((rows + columns) * block_k * width)))
    return Kernel(
        "cublaslt",
        kind,
        rows,
        columns,
        block_k,
        depth,
        warps=8 if rows * columns > 128 * 64 else 4,
        splits=max(config["splits"], 0),
        position=position,
        algorithm=config["id"],
        option=max(config["custom"], 0),
        cluster=max(config["cluster"], 0),
    )
