"""What decisions mean for a program: loops, tiles, what it stages, and the kernels that it launches."""

from costmodel.features.launches._epilogue import epilogue_costs
from costmodel.features.launches._estimate import estimate_launches
from costmodel.features.launches._loops import level, loop_tiles, product, within
from costmodel.features.launches._tiles import contiguous, operand_loads, thread_part, unfolded

__all__ = [
    "contiguous",
    "epilogue_costs",
    "estimate_launches",
    "level",
    "loop_tiles",
    "operand_loads",
    "product",
    "thread_part",
    "unfolded",
    "within",
]
