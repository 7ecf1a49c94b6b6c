"""A workload: an operator with concrete shapes and dtypes."""

import re
from typing import Self

import msgspec

from costmodel.errors import CostModelError
from costmodel.records._operators import OPERATORS

DTYPE_BYTES = {"float32": 4, "float16": 2}


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator with concrete shapes and dtypes.

    Attributes:
        kind: Operator kind, a key of ``OPERATORS``.
        dims: Size of each dimension that the kind names.
        dtype: Element type of inputs and output.

    Example:
        >>> Workload.parse("matmul-m128-n768-k3072").flops
        603979776
    """

    kind: str
    dims: dict[str, int]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        """Check kind, dimensions and dtype, also when a file is decoded."""
        if self.kind not in OPERATORS:
            raise ValueError(f"operator kind must be one of {sorted(OPERATORS)}, but got {self.kind!r}")
        expected = OPERATORS[self.kind].dims
        if tuple(self.dims) != expected or any(size < 1 for size in self.dims.values()):
            raise ValueError(f"{self.kind} must have positive dims {expected}, but got {self.dims}")
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"dtype must be one of {sorted(DTYPE_BYTES)}, but got {self.dtype!r}")

    def __hash__(self) -> int:
        """Hash of the name; the generated hash would need hashable dims."""
        return hash(self.name)

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a workload from its name, the inverse of ``name``.

        Raises:
            CostModelError: The name is not that of a workload.
        """
        kind, *parts = name.split("-")
        dtype = parts.pop() if parts and parts[-1] in DTYPE_BYTES else "float32"
        matches = [re.fullmatch(r"([a-z])([0-9]+)", part) for part in parts]
        dims = {found[1]: int(found[2]) for found in matches if found}
        try:
            if len(dims) != len(parts):
                raise ValueError(  # noqa: TRY301 (told below like what the constructor finds)
                    "each part after the kind must be a letter and a number, as in m128"
                )
            return cls(kind, dims, dtype)
        except ValueError as error:
            spelled = ", ".join(
                "-".join([kind, *(f"{dim.upper()}" for dim in op.dims)]) for kind, op in OPERATORS.items()
            )
            raise CostModelError(
                f"Unknown workload {name!r}: {error}. Spell it as one of {spelled} with a number behind each "
                "letter, in lower case, for example matmul-m128-n768-k3072."
            ) from None

    @property
    def name(self) -> str:
        """Short unique name, such as ``matmul-m128-n768-k3072``."""
        suffix = "" if self.dtype == "float32" else f"-{self.dtype}"
        return "-".join([self.kind, *(f"{dim}{size}" for dim, size in self.dims.items())]) + suffix

    @property
    def flops(self) -> int:
        """Arithmetic operations of one run; a fused multiply-add counts as two."""
        return OPERATORS[self.kind].flops(self.dims)

    @property
    def min_bytes(self) -> int:
        """Fewest bytes through device memory: each input read once, each output written once."""
        return OPERATORS[self.kind].elements(self.dims) * DTYPE_BYTES[self.dtype]
