"""Workloads: operators with concrete shapes and dtypes, and kernels of other suites."""

import re
from functools import cached_property
from typing import Self

import msgspec

from costmodel.arguments import check_text, check_whole
from costmodel.errors import CostModelError, InvalidArgumentError, shorten
from costmodel.records._operators import ANCHORS, EPILOGUES, OPERATORS, Operator
from costmodel.records._program_facts import ProgramFacts

DTYPE_BYTES = {"float32": 4, "float16": 2}

# <suite>.<kernel>, and more parts if the suite has several kernels of that name; a dot is in no operator.
_FOREIGN_KIND = re.compile(r"[a-z]\w*(\.\w+)+", re.ASCII)
# Suite of tensor programs that are no operator: ``tir.<hash of the program>``.
_PROGRAMS = "tir"
_MOST_KIND = 150  # characters: the name of a workload is part of names of files


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


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """An operator with concrete shapes and dtypes, or a kernel of another suite.

    A foreign kernel is a kernel of another suite. Models can learn from it, but it cannot be built: only its
    name and sizes are known. A tensor program (``is_program``) is a foreign kernel whose sizes are its
    ``ProgramFacts``; it can be built where the program itself is available.

    Attributes:
        kind: Operator kind, a key of ``OPERATORS``; for a foreign kernel, ``<suite>.<kernel>``.
        dims: Size of each dimension of the operator kind. A foreign kernel may have any dimensions named by
            one letter.
        dtype: Element type of inputs and output. Empty for a foreign kernel, and for a program whose anchor
            reads another type.

    Example:
        >>> Workload.parse("matmul-m128-n768-k3072").flops
        603979776
    """

    kind: str
    dims: dict[str, int]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        """Check kind, dimensions and dtype, also when a file is decoded."""
        check_text("kind", self.kind, _MOST_KIND)
        for dim, size in self.dims.items():
            check_whole(f"dim {shorten(dim)}", size, 1, 2**63 - 1)
        if self.kind not in OPERATORS and not self.is_foreign:
            raise InvalidArgumentError(
                f"operator kind must be an anchor and an epilogue, but got {self.kind!r}"
            )
        expected = tuple(self.dims) if self.is_foreign else self.operator.dims
        if tuple(self.dims) != expected:
            raise InvalidArgumentError(f"{self.kind} must have positive dims {expected}, but got {self.dims}")
        if self.is_program and not {"f", "b"} <= self.dims.keys():
            raise InvalidArgumentError(
                f"{self.kind} must say its flops and bytes (f and b), but got {self.dims}"
            )
        if not all(re.fullmatch("[a-z]", dim) for dim in self.dims):
            raise InvalidArgumentError(f"each dimension of {self.kind} must be a letter, but got {self.dims}")
        dtypes = [""] * self.is_foreign + sorted(DTYPE_BYTES) * (self.is_program or not self.is_foreign)
        if self.dtype not in dtypes:
            raise InvalidArgumentError(
                f"dtype of {self.kind} must be one of {dtypes}, but got {self.dtype!r}"
            )

    def __hash__(self) -> int:
        """Hash of the name; the generated hash would need hashable dims."""
        return hash(self.name)

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse the name of a workload; the inverse of ``name``.

        Raises:
            CostModelError: This is not the name of a workload.
        """
        kind, *parts = check_text("workload", name).split("-")
        default = "" if _FOREIGN_KIND.fullmatch(kind) else "float32"
        dtype = parts.pop() if parts and parts[-1] in DTYPE_BYTES else default
        matches = [re.fullmatch(r"([a-z])([0-9]{1,19})", part) for part in parts]
        dims = {found[1]: int(found[2]) for found in matches if found}
        try:
            if len(dims) != len(parts):
                raise ValueError(  # noqa: TRY301 (told below like what the constructor finds)
                    "each part after the kind must be a letter and a number, as in m128"
                )
            return cls(kind, dims, dtype)
        except ValueError as error:
            said = str(error).rstrip(".")
            raise CostModelError(f"Unknown workload {shorten(repr(name))}: {said}. {_spelling()}") from None

    @property
    def is_foreign(self) -> bool:
        """Whether the workload is a kernel of another suite."""
        return bool(_FOREIGN_KIND.fullmatch(self.kind))

    @property
    def is_opaque(self) -> bool:
        """Whether only its name and sizes are known: a kernel of another suite, but no tensor program."""
        return self.is_foreign and not self.is_program

    @property
    def is_program(self) -> bool:
        """Whether it is a tensor program but no operator, with its ``ProgramFacts`` as ``dims``."""
        return self.kind.startswith(f"{_PROGRAMS}.")

    @classmethod
    def of_program(cls, key: str, facts: ProgramFacts, dtype: str = "") -> Self:
        """Make the workload of a tensor program.

        Args:
            key: Identifier of the program, such as a hash.
            facts: Facts about the program.
            dtype: Element type that its anchor reads; ignored if no operator supports it.
        """
        return cls(f"{_PROGRAMS}.{key}", facts.dims, dtype if dtype in DTYPE_BYTES else "")

    @property
    def operator(self) -> Operator:
        """The operator: shapes and arithmetic as functions of ``dims``.

        Raises:
            CostModelError: The workload is a kernel of another suite, for which these are unknown.
        """
        if self.is_foreign:
            raise CostModelError(
                f"{self.name} must be an operator, but it is a kernel of another suite, which models can "
                "learn from but which cannot be built. `costmodel workloads list` shows operators."
            )
        return OPERATORS[self.kind]

    @cached_property
    def name(self) -> str:
        """Short unique name, such as ``matmul-m128-n768-k3072``."""
        usual = "" if self.is_foreign else "float32"
        suffix = f"-{self.dtype}" if self.dtype != usual else ""
        return "-".join([self.kind, *(f"{dim}{size}" for dim, size in self.dims.items())]) + suffix

    @property
    def shape(self) -> Shape:
        """Shape shared with workloads of other dtypes, layouts and epilogues.

        Example:
            >>> Workload.parse("conv2d_nhwc_bias-n1-c64-h56-w56-o64-k3-s1-float16").shape.name
            'conv2d-n1-c64-h56-w56-o64-k3-s1'
        """
        family = self.kind if self.is_foreign else self.operator.family
        if family == "batch_matmul" and self.dims["b"] == 1:
            return Shape("matmul", {dim: size for dim, size in self.dims.items() if dim != "b"})
        return Shape(family, self.dims)

    @property
    def flops(self) -> int:
        """Arithmetic operations per run; a fused multiply-add counts as two. 0 if unknown."""
        if self.is_program:
            return ProgramFacts.of(self.dims).flops
        return 0 if self.is_foreign else self.operator.flops(self.dims)

    @property
    def min_bytes(self) -> int:
        """Least bytes of device memory traffic per run, with inputs and outputs moved once. 0 if unknown."""
        if self.is_program:
            return ProgramFacts.of(self.dims).min_bytes
        return 0 if self.is_foreign else self.operator.elements(self.dims) * DTYPE_BYTES[self.dtype]


def _spelling() -> str:
    """Explain how to spell the name of a workload."""
    anchors = ", ".join("-".join([name, *map(str.upper, anchor.dims)]) for name, anchor in ANCHORS.items())
    fusing = ", ".join(name for name, anchor in ANCHORS.items() if anchor.takes_epilogue)
    epilogues = ", ".join("_" + "_".join(epilogue) for epilogue in EPILOGUES if epilogue)
    return (
        f"Spell it as one of {anchors}, in lower case, with a number after each letter. Any of {fusing} "
        f"may be followed by one of {epilogues}. Append -float16 for this dtype instead of float32. Examples "
        "are matmul-m128-n768-k3072 and conv2d_bias_relu-n1-c64-h56-w56-o64-k3-s1-float16."
    )
