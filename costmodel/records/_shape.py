"""What kernels of any dtype, layout and epilogue share: a family of operators, and sizes."""

import re
from typing import Self

import msgspec

from costmodel.errors import CostModelError
from costmodel.records._operators import OPERATORS


class Shape(msgspec.Struct, frozen=True):
    """A family of operators with sizes, all of them or some.

    Kernels that differ in dtype, layout or epilogue alone are siblings: one tells much of the other.

    Attributes:
        family: Name of the anchor without its layout, such as ``conv2d``; of a foreign kernel its kind.
        dims: Size of each dimension that is named.
    """

    family: str
    dims: dict[str, int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a shape as ``name`` spells it; dimensions may be left out.

        Example:
            >>> Shape.parse("conv2d-c192-k1").dims
            {'c': 192, 'k': 1}

        Raises:
            CostModelError: It is not the shape of an operator.
        """
        family, *parts = text.split("-")
        operator = OPERATORS.get(family)
        sizes = [re.fullmatch(r"([a-z])([0-9]+)", part) for part in parts]
        dims = {found[1]: int(found[2]) for found in sizes if found}
        is_whole = operator is not None and operator.family == family and not operator.epilogue
        if (
            operator is None
            or not is_whole
            or len(dims) != len(parts)
            or not dims.keys() <= set(operator.dims)
        ):
            raise CostModelError(
                f"A shape must be an operator without layout and epilogue, and sizes, such as "
                f"matmul-m128-n768-k3072 or conv2d-c192-k1, but got {text!r}."
            )
        return cls(family, dims)

    @property
    def name(self) -> str:
        """Short name, such as ``matmul-m128-n768-k3072``."""
        return "-".join([self.family, *(f"{dim}{size}" for dim, size in self.dims.items())])

    def includes(self, other: "Shape") -> bool:
        """Whether the other is of this family and has the sizes that this one names.

        Example:
            >>> Shape.parse("conv2d-c192-k1").includes(Shape.parse("conv2d-n8-c192-h28-w28-o64-k1-s1"))
            True
        """
        return self.family == other.family and self.dims.items() <= other.dims.items()

    def is_near(self, other: "Shape", factor: float) -> bool:
        """Whether the other is of this family and differs in no size that both name by more than a factor.

        Example:
            >>> Shape.parse("matmul-m128-n768-k768").is_near(Shape.parse("matmul-m128-n768-k720"), 1.1)
            True
        """
        both = self.dims.keys() & other.dims.keys()
        pairs = [sorted((self.dims[dim], other.dims[dim])) for dim in both]
        return self.family == other.family and all(high <= factor * low for low, high in pairs)
