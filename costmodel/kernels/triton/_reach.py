"""How far the tiles of a kernel reach: not every choice of its parameters does the work that it is for.

A tile may be too small for the rows that it must cover, or leave the arrays that it is of. What tells is read
from the first dialect: a tile of indices that nothing moves and that ends before the bound it is compared
with, and addresses outside of an array. What reads as it should may still be wrong.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.kernels.triton._ir import IrOperation, Module
from costmodel.kernels.triton._values import Array, ReadLaunch, Rules, Value
from costmodel.kernels.triton._walk import Walk

_MASKS = {"tt.load": 1, "tt.store": 2}  # which operand is the mask
# Comparisons of indices with a bound, and what it includes; the other way round they say the same of a bound.
_BELOW = {"slt": 0, "ult": 0, "sle": 1, "ule": 1}
_ABOVE = {"sgt": "slt", "ugt": "ult", "sge": "sle", "uge": "ule"}
_KEEPS = ("arith.andi", "tt.splat")  # what needs a truth to hold


def find_fault(module: Module, launch: ReadLaunch) -> str:
    """Tell why a kernel cannot be right, by its first and last program; empty if nothing says so."""
    for place in (0, 1):
        x, y, z = ((size - 1) * place for size in launch.grid)
        counter = _ReachCounter()
        Walk(module, launch.arguments, Rules(launch.grid, (x, y, z)), counter).run()
        if counter.is_short:
            return "A tile ends before the bound that it is compared with."
        if counter.leaves:
            return "Tiles leave the arrays that they are of."
    return ""


@dataclass
class _ReachCounter:
    """Looks at how far the tiles of a program reach.

    Attributes:
        reached: Where tiles of indices end that nothing moves, by their size and the bound of the comparison.
            What is unrolled has several.
        alone: Names of truths that hold where 0 is below a bound of more than 1: a tile of one index is 0.
        is_alone: Whether one of them is of a tile that is one wide.
        leaves: Whether an access leaves its array.
    """

    reached: defaultdict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    alone: set[str] = field(default_factory=set)
    is_alone: bool = False
    leaves: bool = False

    @property
    def is_short(self) -> bool:
        """Whether a tile ends before its bound."""
        return self.is_alone or any(end < bound for (_, bound), end in self.reached.items())

    def count(
        self, operation: IrOperation, operands: Sequence[Value], results: Sequence[Value], walk: Walk
    ) -> None:
        """Look at an operation."""
        if operation.name == "arith.cmpi":
            self._compare(operation, operands)
        elif operation.name in _KEEPS and self.alone.intersection(operation.operands):
            self.alone.update(operation.results)
            self.is_alone |= operation.name == "tt.splat" and 1 in results[0].type.shape
        if operation.name in _MASKS:
            self.leaves |= _leaves(operands, _MASKS[operation.name], walk)

    def enter_loop(self, operation: IrOperation, carried: Sequence[Value], trips: float, walk: Walk) -> None:
        """Nothing is looked at of loops."""

    def facts(self, walk: Walk) -> dict[str, float]:
        """Nothing is a fact of it."""
        return {}

    def _compare(self, operation: IrOperation, operands: Sequence[Value]) -> None:
        sign = operation.text.split(",", 1)[0].strip()
        indices, bound = operands if sign in _BELOW else reversed(operands)
        sign = _ABOVE.get(sign, sign)
        is_moved = any(each.by_program or each.is_guess or each.depth for each in (indices, bound))
        if sign not in _BELOW or is_moved or indices.number is None or bound.number is None:
            return
        if np.size(bound.number) == 1:
            least = int(np.max(bound.number)) + _BELOW[sign]
            if np.size(indices.number) > 1:
                key = np.size(indices.number), least
                self.reached[key] = max(self.reached[key], int(np.max(indices.number)) + 1)
            elif least > 1 and np.max(indices.number) == 0:
                self.alone.update(operation.results)


def _leaves(operands: Sequence[Value], mask_at: int, walk: Walk) -> bool:
    """Tell whether an access leaves its array, as far as addresses are known."""
    pointer, mask = operands[0], operands[mask_at] if mask_at < len(operands) else None
    kind, array = pointer.type.pointee, pointer.array
    given = walk.arguments[array] if 0 <= array < len(walk.arguments) else None
    if not isinstance(given, Array) or not given.bytes or pointer.number is None or pointer.is_guess:
        return False
    offsets = np.broadcast_to(np.asarray(pointer.number), kind.shape)
    if mask is not None and mask.type.element == "i1":
        if mask.is_guess or mask.number is None:
            return False
        offsets = offsets[np.broadcast_to(np.asarray(mask.number), kind.shape).astype(bool)]
    return bool(offsets.size) and bool(offsets.min() < 0 or (offsets.max() + 1) * kind.bits / 8 > given.bytes)
