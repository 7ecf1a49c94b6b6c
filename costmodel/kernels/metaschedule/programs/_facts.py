"""What a tensor program computes, read from its blocks: iteration domains, reads, writes and operations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi

from costmodel.errors import CostModelError
from costmodel.kernels.metaschedule._lowered import operations_of
from costmodel.kernels.metaschedule._shared_memory import bytes_of
from costmodel.records._program_facts import FAMILIES, ProgramFacts
from costmodel.records._workload import Workload


def program_workload(module: Any) -> Workload:
    """The workload that a module of one unscheduled function ``main`` is.

    Raises:
        CostModelError: It is not made of blocks over arrays whose sizes are known.
    """
    key = f"{int(tvm_ffi.structural_hash(module)) & (1 << 64) - 1:016x}"
    try:
        blocks = read_blocks(module)
        facts, dtype = _facts(module["main"], blocks), blocks[_anchor(blocks)].operand_dtype
    except Exception as error:
        raise CostModelError(
            "A program must be one function of blocks over arrays whose sizes are known, as TE and TVMScript "
            f"make it, but got one that cannot be read: {error}."
        ) from error
    return Workload.of_program(key, facts, dtype)


@dataclass(frozen=True)
class Block:
    """A block of an unscheduled program.

    Attributes:
        block: The ``SBlock``.
        loops: Names of its loops, in order.
    """

    block: Any
    loops: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name, unique in the program."""
        return str(self.block.name_hint)

    @cached_property
    def variables(self) -> list[Any]:
        """Its iteration variables, in order."""
        return [axis.var for axis in self.block.iter_vars]

    @cached_property
    def extents(self) -> list[int]:
        """Iterations of each variable."""
        return [int(axis.dom.extent) for axis in self.block.iter_vars]

    @cached_property
    def spatial(self) -> list[int]:
        """Positions of the variables that one result each is computed for."""
        return [i for i, axis in enumerate(self.block.iter_vars) if axis.iter_type == axis.DataPar]

    @cached_property
    def reduced(self) -> list[int]:
        """Positions of the variables that a result accumulates over."""
        return [i for i in range(len(self.extents)) if i not in self.spatial]

    def size(self, positions: Sequence[int]) -> int:
        """Product of the extents of these variables."""
        return math.prod(self.extents[i] for i in positions)

    @cached_property
    def flops(self) -> int:
        """Operations of all iterations."""
        return operations_of(self.block.body) * math.prod(self.extents)

    @cached_property
    def operands(self) -> list[Any]:
        """Regions that it reads of other buffers than those that it writes."""
        written = [region.source for region in self.block.writes]
        return [read for read in self.block.reads if not any(read.source.same_as(one) for one in written)]

    @property
    def operand_dtype(self) -> str:
        """Element type of its first operand; empty without one."""
        return str(self.operands[0].source.dtype) if self.operands else ""

    def coefficients(self, index: Any) -> list[int]:
        """Coefficient of each variable in an index; none where it is not affine."""
        *found, _ = tvm.sym.detect_linear_equation(index, self.variables) or [0]
        return [int(coefficient) for coefficient in found]

    def indexing(self, region: Any) -> set[int]:
        """Positions of the variables that a region depends on."""
        rows = [self.coefficients(index.min) for index in region.region]
        return {i for row in rows for i, coefficient in enumerate(row) if coefficient}

    @property
    def last_axis(self) -> set[int]:
        """Positions of the variables that the last axis of its results depends on."""
        row = self.coefficients(self.block.writes[0].region[-1].min)
        return {i for i, coefficient in enumerate(row) if coefficient}

    def windows(self, region: Any) -> list[tuple[int, int, int]]:
        """Axes along which a window slides: the spatial variable, its coefficient, the window's extent."""
        found = []
        for index in region.region:
            row = self.coefficients(index.min)
            moved = [i for i in self.spatial if row and row[i]]
            across = [i for i in self.reduced if row and row[i]]
            if len(moved) == len(across) == 1:
                found.append((moved[0], abs(row[moved[0]]), self.extents[across[0]]))
        return found


def read_blocks(module: Any) -> list[Block]:
    """The blocks of an unscheduled module, in order."""
    schedule = tvm.s_tir.Schedule(module)
    return [
        Block(
            schedule.get(block),
            tuple(str(schedule.get(loop).loop_var.name) for loop in schedule.get_loops(block)),
        )
        for block in schedule.get_child_blocks(schedule.get_sblock("root"))
    ]


def _anchor(blocks: Sequence[Block]) -> int:
    """Position of the heaviest block, of those that accumulate if any does; of equal ones the first."""
    return max(
        range(len(blocks)),
        key=lambda i: (bool(blocks[i].reduced), blocks[i].flops, math.prod(blocks[i].extents), -i),
    )


def _facts(function: Any, blocks: Sequence[Block]) -> ProgramFacts:
    at = _anchor(blocks)
    anchor, behind = blocks[at], blocks[at + 1 :]
    products = _products(anchor)
    results = anchor.size(anchor.spatial)
    epilogue = [block for block in behind if math.prod(block.extents) == results] if products else []
    arrays = [parameter for parameter in function.params if hasattr(parameter, "shape")]
    inputs = [
        read
        for block in epilogue
        for read in block.operands
        if any(read.source.same_as(array) for array in arrays)
    ]
    return ProgramFacts(
        flops=max(1, sum(block.flops for block in blocks)),
        min_bytes=max(1, sum(math.prod(map(int, a.shape)) * bytes_of(a.dtype) for a in arrays)),
        reduction=anchor.size(anchor.reduced),
        **_sides(anchor, products),
        element_bytes=max(1, bytes_of(anchor.operand_dtype or "float32")),
        epilogue_flops=sum(block.flops for block in epilogue) // results,
        epilogue_loads=len(inputs),
        family=_family(blocks, anchor, products, has_epilogue=bool(epilogue)),
        **_masks(anchor, products),
    )


def _products(anchor: Block) -> list[Any]:
    """The two operands whose products are summed up, the one that a window slides over first; or none."""
    reduced = set(anchor.reduced)
    summed = [read for read in anchor.operands if anchor.indexing(read) & reduced]
    if len(summed) < 2:
        return []
    return sorted(summed[:2], key=lambda read: not anchor.windows(read))


def _sides(anchor: Block, products: Sequence[Any]) -> dict[str, int]:
    """Sides of the matrix products that the anchor is, and window and stride of a convolution."""
    if not products:
        if anchor.reduced:
            return {"rows": anchor.size(anchor.spatial), "columns": anchor.size(anchor.reduced)}
        return {"rows": anchor.size(anchor.spatial[:-1]), "columns": anchor.size(anchor.spatial[-1:])}
    first, second = (anchor.indexing(operand) for operand in products)
    windows = anchor.windows(products[0])
    slid = {spatial for spatial, _, _ in windows}
    rows = [i for i in anchor.spatial if (i in slid if slid else i in first - second)]
    instances = [i for i in anchor.spatial if (i in first - second - slid if slid else i in first & second)]
    columns = [i for i in anchor.spatial if i not in {*rows, *instances}]
    sides = {
        "instances": anchor.size(instances),
        "rows": anchor.size(rows),
        "columns": anchor.size(columns),
    }
    if not windows:
        return sides
    return {
        **sides,
        "window": max(extent for _, _, extent in windows),
        "stride": max(stride for _, stride, _ in windows),
        "channels_last": int(anchor.last_axis <= set(columns)),
    }


def _family(blocks: Sequence[Block], anchor: Block, products: Sequence[Any], *, has_epilogue: bool) -> int:
    """Position in ``FAMILIES``, from 1, of the family that the anchor is most like; 0 for none."""
    if not anchor.reduced:
        return 0
    if not products:
        exponential = any("exp(" in str(block.block.body) for block in blocks)
        return FAMILIES.index("softmax" if exponential else "layer_norm") + 1
    first, second = (anchor.indexing(operand) for operand in products)
    shared = first & second & set(anchor.spatial)
    if anchor.windows(products[0]):
        return FAMILIES.index("depthwise_conv2d" if shared else "conv2d") + 1
    if shared:
        return FAMILIES.index("batch_matmul") + 1
    return FAMILIES.index("fused_matmul" if has_epilogue else "matmul") + 1


def _masks(anchor: Block, products: Sequence[Any]) -> dict[str, int]:
    """Which spatial loops index each of the two operands."""
    masks = [
        sum(1 << bit for bit, i in enumerate(anchor.spatial) if i in anchor.indexing(operand))
        for operand in products
    ]
    return dict(zip(("first_operand", "second_operand"), masks, strict=False))
