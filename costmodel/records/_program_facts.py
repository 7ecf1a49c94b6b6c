"""What is known of a tensor program that is no operator: the sizes that its workload is named by."""

from collections.abc import Mapping
from typing import Self

import msgspec

# What a program counts as where that is told by its structure: see ``WorkloadFacts.family``.
FAMILIES = ("matmul", "fused_matmul", "batch_matmul", "conv2d", "depthwise_conv2d", "softmax", "layer_norm")
# Letter of each field in the name of a workload.
_LETTERS = {
    "flops": "f",
    "min_bytes": "b",
    "reduction": "k",
    "instances": "i",
    "rows": "m",
    "columns": "n",
    "window": "w",
    "stride": "s",
    "channels_last": "c",
    "element_bytes": "e",
    "epilogue_flops": "g",
    "epilogue_loads": "l",
    "family": "a",
    "first_operand": "x",
    "second_operand": "y",
}


class ProgramFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tensor program computes, as far as a model of other programs can use it.

    The heaviest of its blocks, the one with the most operations, is the anchor.

    Attributes:
        flops: Operations of one run of the program as it is written; at least 1.
        min_bytes: Fewest bytes through device memory: inputs read once, outputs written once.
        reduction: Length that one result of the anchor accumulates over.
        instances: Matrix products that the anchor is: images of a convolution.
        rows: Rows of each, pixels of a convolution.
        columns: Columns of each, channels of a convolution.
        window: Side of a convolution's window; 1 where there is none.
        stride: Its stride.
        channels_last: 1 where the channels of a convolution are the last axis.
        element_bytes: Bytes of an element that the anchor reads.
        epilogue_flops: Operations for one result behind the anchor.
        epilogue_loads: Elements of inputs loaded for one result behind the anchor.
        family: Position in ``FAMILIES``, counted from 1; 0 for none.
        first_operand: Bit i is set if the anchor's spatial loop i indexes its first operand.
        second_operand: The same of its second operand; 0 where there is none.

    Example:
        >>> facts = ProgramFacts(flops=8192, min_bytes=3072, reduction=16, rows=16, columns=16)
        >>> facts.dims
        {'f': 8192, 'b': 3072, 'k': 16, 'm': 16, 'n': 16}
        >>> ProgramFacts.of(facts.dims) == facts
        True
    """

    flops: int
    min_bytes: int
    reduction: int = 1
    instances: int = 1
    rows: int = 1
    columns: int = 1
    window: int = 1
    stride: int = 1
    channels_last: int = 0
    element_bytes: int = 4
    epilogue_flops: int = 0
    epilogue_loads: int = 0
    family: int = 0
    first_operand: int = 0
    second_operand: int = 0

    @classmethod
    def of(cls, dims: Mapping[str, int]) -> Self:
        """The facts that these dimensions spell, the inverse of ``dims``."""
        return cls(**{field: dims[letter] for field, letter in _LETTERS.items() if letter in dims})

    @property
    def dims(self) -> dict[str, int]:
        """A letter and a size for each fact that is not the usual one."""
        return {_LETTERS[field]: size for field, size in msgspec.to_builtins(self).items()}

    def operand_loops(self) -> tuple[tuple[int, ...], ...]:
        """For each operand of the anchor, the positions of the spatial loops that index it."""
        masks = [mask for mask in (self.first_operand, self.second_operand) if mask]
        return tuple(tuple(i for i in range(mask.bit_length()) if mask >> i & 1) for mask in masks)
