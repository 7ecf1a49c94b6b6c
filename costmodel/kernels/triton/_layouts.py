"""How Triton spreads a tile over threads: elements of one, and lanes and warps along an axis."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from costmodel.kernels.triton._ir import Type

WARP_THREADS = 32
_LANES_OF_PRODUCT = (8, 4)  # along rows and columns of what a warp's products give
_ALONE = (16, 8)  # rows and columns that a warp's product gives
_UNSPREAD = (1, 1)


@dataclass(frozen=True)
class AxisSpread:
    """How a tile is spread along one axis.

    Attributes:
        elements: Neighbours that a thread holds.
        lanes: Lanes of a warp along the axis.
        warps: Warps along the axis.
    """

    elements: int
    lanes: int
    warps: int

    def of_thread(self, size: int) -> float:
        """Elements that a thread holds of so many, repeats included."""
        return float(-(-size // (self.elements * self.lanes * self.warps)) * self.elements)


@dataclass(frozen=True)
class Layouts:
    """The layouts of a module.

    Attributes:
        texts: Text of each by name.
        warps: Warps of a program.
    """

    texts: Mapping[str, str]
    warps: int

    def of_thread(self, kind: Type) -> float:
        """Elements of a tile that a thread holds, at least one."""
        spreads = self.spreads(kind)
        if spreads is None:
            registers = self._registers(kind)
            return max(1.0, registers or kind.size / (WARP_THREADS * self.warps))
        return float(
            math.prod(spread.of_thread(size) for spread, size in zip(spreads, kind.shape, strict=True))
        )

    def words_of_thread(self, kind: Type) -> float:
        """Words of 4 bytes of a tile that a thread holds."""
        return self.of_thread(kind) * kind.bits / 32

    def along(self, kind: Type, axis: int) -> tuple[int, int]:
        """Warps and lanes along an axis."""
        spreads = self.spreads(kind)
        if spreads is None or axis >= len(spreads):
            return _UNSPREAD
        return spreads[axis].warps, spreads[axis].lanes

    def vector(self, kind: Type) -> int:
        """Elements next to one another that a thread holds, along the axis that changes fastest."""
        spreads = self.spreads(kind)
        if spreads is None or self.text_of(kind)[2] is not None:
            return 1
        fastest = self.fastest(kind)
        return min(spreads[fastest].elements, kind.shape[fastest])

    def fastest(self, kind: Type) -> int:
        """The axis that changes fastest among neighbours in a thread."""
        text, cuts, _ = self.text_of(kind)
        order = list_in(text, "order")
        return order[0] if order and not cuts and order[0] < len(kind.shape) else len(kind.shape) - 1

    def text_of(self, kind: Type) -> tuple[str, list[int], int | None]:
        """Text of a tile's layout, the axes that slices cut, and the operand that it is of a product."""
        base, cuts, operand = self._parts(kind.layout)
        return self.texts.get(base, ""), cuts, operand

    def is_product(self, kind: Type) -> bool:
        """Whether a tile is laid out as Tensor Cores give it."""
        return "mma" in self.texts.get(self._parts(kind.layout)[0], "").partition("<")[0]

    def group_products(self, kind: Type) -> bool:
        """Whether it is as groups of warps give it."""
        return self.is_product(kind) and "versionMajor = 3" in self.texts[self._parts(kind.layout)[0]]

    def spreads(self, kind: Type) -> tuple[AxisSpread, ...] | None:
        """How a tile is spread along each axis; None if its layout does not tell."""
        if kind.layout not in self._spread:
            self._spread[kind.layout] = self._look_up(kind.layout)
        found = self._spread[kind.layout]
        return found if found and len(found) == len(kind.shape) else None

    def _look_up(self, layout: str) -> tuple[AxisSpread, ...]:
        base, cuts, operand = self._parts(layout)
        found = list(_spreads(self.texts.get(base, ""), operand))
        for cut in cuts:
            if cut < len(found):
                del found[cut]
        return tuple(found)

    @cached_property
    def _spread(self) -> dict[str, tuple[AxisSpread, ...]]:
        return {}

    def _registers(self, kind: Type) -> float:
        """Elements of a thread by a linear layout; 0 if it is none."""
        text = self.texts.get(self._parts(kind.layout)[0], "")
        registers = re.search(r"register = \[((?:\[[^\]]*\],? ?)*)\]", text)
        return 2.0 ** registers[1].count("[") if registers else 0.0

    @staticmethod
    def _parts(layout: str) -> tuple[str, list[int], int | None]:
        """Name of a layout, the axes that slices cut, and the operand that it is of a product."""
        base, *parts = layout.split(".")
        cuts = [int(each[1:]) for each in parts if each[0] == "s"]
        operands = [int(each[1:]) for each in parts if each[0] == "d"]
        return base, cuts, operands[0] if operands else None

    @cached_property
    def threads(self) -> int:
        """Threads of a program."""
        return WARP_THREADS * self.warps


@cache
def _spreads(text: str, operand: int | None) -> tuple[AxisSpread, ...]:
    """How a layout spreads two axes, or as many as it says."""
    warps = list_in(text, "warpsPerCTA")
    if text.startswith("ttg.blocked"):
        sizes, lanes = list_in(text, "sizePerThread"), list_in(text, "threadsPerWarp")
        return tuple(map(AxisSpread, sizes, lanes, warps))
    if "mma" not in text.partition("<")[0] or len(warps) < 2:
        return ()
    if operand is not None:  # each warp holds what it multiplies, all along the depth
        rows = [AxisSpread(2, 8, warps[0]), AxisSpread(4, 4, 1)]
        return tuple(rows if operand == 0 else [AxisSpread(4, 4, 1), AxisSpread(1, 8, warps[-1])])
    height, width = [*list_in(text, "instrShape"), *_ALONE][:2]
    return (
        AxisSpread(max(1, height // _LANES_OF_PRODUCT[0]), _LANES_OF_PRODUCT[0], warps[-2]),
        AxisSpread(max(1, width // _LANES_OF_PRODUCT[1]), _LANES_OF_PRODUCT[1], warps[-1]),
    )


def list_in(text: str, name: str) -> list[int]:
    """Return the numbers that a layout has under a name."""
    match = re.search(name + r" = \[([\d, ]+)\]", text)
    return [int(each) for each in match[1].split(",")] if match else []
