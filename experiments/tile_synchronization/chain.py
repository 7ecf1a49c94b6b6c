"""Chains of matrix products: one kernel after the other, or one launch whose tiles wait for tiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from kernel import products

POLICIES = ("row", "tile", "strided")
# Columns of the table that tells the kernel of its products.
FIELDS = 8


@dataclass(frozen=True)
class Tile:
    """Config of a product's blocks."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


class Chain:
    """Products ``x @ w1 @ w2 ...`` of so many tokens, in float16, with the buffers that they need."""

    def __init__(self, tokens: int, widths: Sequence[int], tile: Tile, device: str) -> None:
        """Draw the input and the weights.

        Args:
            tokens: Rows of the input.
            widths: Columns of the input, then of each product; all multiples of twice a tile's columns.
            tile: Config of all products.
            device: ``cuda`` or, with Triton's interpreter, ``cpu``.
        """
        self.tile, self.tokens, self.widths = tile, tokens, tuple(widths)
        sizes = [tokens * width for width in widths]
        weights = [a * b for a, b in pairwise(widths)]
        torch.manual_seed(0)
        self.data = torch.randn(sum(sizes) + sum(weights), device=device, dtype=torch.float16)
        starts = torch.tensor([0, *sizes, *weights]).cumsum(0).tolist()
        self._values, self._weights = starts[: len(sizes)], starts[len(sizes) :]
        for start, size, width in zip(self._weights[:-1], weights, widths, strict=False):
            self.data[start : start + size] /= width**0.5
        rows, first, flag, table = tokens // tile.rows, 0, 2, []
        for i, (reduced, columns) in enumerate(pairwise(widths)):
            before = flag - rows * (reduced // tile.columns) if i else 0
            table.append(
                [
                    first,
                    self._values[i],
                    self._weights[i],
                    self._values[i + 1],
                    reduced,
                    columns,
                    flag,
                    before,
                ]
            )
            first += rows * (columns // tile.columns)
            flag += rows * (columns // tile.columns)
        self.grids = [(rows, columns // tile.columns) for columns in widths[1:]]
        self._table = torch.tensor(table, device=device, dtype=torch.int64)
        self._alone = [torch.tensor([[0, *each[1:]]], device=device) for each in table]
        self._flags = torch.zeros(flag, device=device, dtype=torch.int32)
        self.tiles = first

    def output(self) -> torch.Tensor:
        """``(tokens, columns)`` of the last product."""
        return self.data[self._values[-1] :][: self.tokens * self.widths[-1]].view(self.tokens, -1)

    def expected(self) -> torch.Tensor:
        """What PyTorch makes of the same input and weights."""
        x = self.data[: self.tokens * self.widths[0]].view(self.tokens, -1)
        for start, (a, b) in zip(self._weights[:-1], pairwise(self.widths), strict=True):
            x = x @ self.data[start : start + a * b].view(a, b)
        return x

    def in_stream(self) -> object:
        """Launch one product after the other; the kernel that Triton compiled."""
        for i in range(len(self.grids)):
            found = self.alone(i)
        return found

    def alone(self, product: int) -> object:
        """Launch one of the products."""
        rows, columns = self.grids[product]
        return self._launch(rows * columns, self._alone[product], 1, "stream")

    def synchronised(self, policy: str) -> object:
        """Launch all products at once; tiles wait as a policy says."""
        return self._launch(self.tiles, self._table, len(self.grids), policy)

    def _launch(self, blocks: int, table: torch.Tensor, n_products: int, policy: str) -> object:
        tile = self.tile
        return products[(blocks,)](
            self.data,
            table,
            self._flags,
            n_products,
            len(self._flags),
            POLICY=policy,
            FIELDS=FIELDS,
            BM=tile.rows,
            BN=tile.columns,
            BK=tile.depth,
            CLEARED=1024,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
