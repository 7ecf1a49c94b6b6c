"""What decisions mean for a program: loops, tiles, what it stages, and the kernels that it launches."""

from costmodel.kernels.metaschedule.launches._epilogue import epilogue_costs
from costmodel.kernels.metaschedule.launches._estimate import estimate_launches
from costmodel.kernels.metaschedule.launches._loops import level, loop_tiles, product, within
from costmodel.kernels.metaschedule.launches._step import Step, step_of
from costmodel.kernels.metaschedule.launches._tiles import (
    contiguous,
    operand_loads,
    operand_loops,
    thread_part,
    unfolded,
)

__all__ = [
    "Step",
    "contiguous",
    "epilogue_costs",
    "estimate_launches",
    "level",
    "loop_tiles",
    "operand_loads",
    "operand_loops",
    "product",
    "step_of",
    "thread_part",
    "unfolded",
    "within",
]
