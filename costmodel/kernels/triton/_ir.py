"""The text of Triton's IR, in either of its dialects, as operations with names, types and regions.

A parser of what MLIR prints, one operation a line, and of no more than the walk needs: what it does not know
it keeps as text.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

_NAMES = re.compile(r"%[\w$.-]+(?:#\d+)?")
_HEADER = re.compile(r'(?:(%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)*) = )?"?([a-z_]\w*(?:\.\w+)*)"?')
_TYPES = re.compile(
    r"(?:tensor|!tt\.tensordesc|!ttg\.memdesc|(?<=-> ))<(?:tensor<)?((?:\d+x)*)(!tt\.ptr<[^<>]*>|[a-z]\w*)"
    r"(?:, (#[\w.]+))?[^<>]*>+|(!tt\.ptr<[^<>]*>|\b(?:[iu]\d+|f\d+\w*|bf16|tf32|index)\b)"
)
_SLICE = re.compile(r"#ttg\.slice<\{dim = (\d+), parent = (#[\w.]+)\}>")
_OPERAND = re.compile(r"#ttg\.dot_op<\{opIdx = (\d), parent = (#[\w.]+)(?:, kWidth = \d+)?\}>")
_ATTRIBUTES = re.compile(r"<?\{[^{}]*\}>?")
_BITS = {"index": 64, "bf16": 16, "tf32": 32}
_POINTER_BITS = 64
# What is made again where it is used, and so takes nothing.
_FREE = frozenset(("arith.constant", "tt.splat", "tt.make_range", "tt.broadcast", "tt.expand_dims"))


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value.

    Attributes:
        shape: Size along each axis; empty for a scalar.
        element: Type of an element, such as ``f16`` or ``!tt.ptr<f16>``.
        layout: Name of its layout, with ``.s<dim>`` for a slice of one and ``.d<operand>`` for an operand
            of a product; empty if it has none.
    """

    shape: tuple[int, ...]
    element: str
    layout: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_pointer(self) -> bool:
        """Whether the elements are addresses."""
        return self.element.startswith("!tt.ptr")

    @property
    def is_integer(self) -> bool:
        """Whether the elements are whole numbers."""
        return self.element[0] in "iu"

    @property
    def pointee(self) -> "Type":
        """What the elements point to, with the same shape and layout."""
        match = re.match(r"!tt\.ptr<(\w+)", self.element)
        return Type(self.shape, match[1], self.layout) if match else self

    @property
    def bits(self) -> int:
        """Bits of an element."""
        if self.is_pointer:
            return _POINTER_BITS
        if self.element in _BITS:
            return _BITS[self.element]
        digits = re.search(r"\d+", self.element)  # f8E5M2 has 8
        return int(digits[0]) if digits else 32

    @property
    def bytes(self) -> float:
        """Bytes of all elements."""
        return self.size * self.bits / 8


@dataclass(frozen=True)
class Region:
    """Operations that another one runs, and the names of what it passes to them."""

    arguments: tuple[str, ...]
    operations: "tuple[IrOperation, ...]"


@dataclass(frozen=True)
class IrOperation:
    """One operation.

    Attributes:
        results: Names of what it gives.
        name: Its name with its dialect, such as ``tt.load``.
        text: Its line, without the results.
        regions: Operations in it.
        tail: The line that ends the last region; empty without regions.
    """

    results: tuple[str, ...]
    name: str
    text: str
    regions: tuple[Region, ...] = ()
    tail: str = ""

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Names in its line, in order."""
        return tuple(_NAMES.findall(self.text))

    @cached_property
    def names(self) -> frozenset[str]:
        """Names that it and all in it use."""
        inner = (each.names for region in self.regions for each in region.operations)
        return frozenset(self.operands).union(*inner)

    @cached_property
    def free_names(self) -> frozenset[str]:
        """Names that it and all in it use, of what is defined before it."""
        defined = set(re.findall(r"(%[\w$.-]+) = ", self.text))
        for region in self.regions:
            defined.update(region.arguments, *(each.results for each in region.operations))
        inner = (each.free_names for region in self.regions for each in region.operations)
        return frozenset(self.operands).union(*inner) - defined

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """Types behind its colon, operands' before results'."""
        return tuple(types_in(self._signature))

    @cached_property
    def result_types(self) -> tuple[Type, ...]:
        """A type for each result; the last that is said stands for those that are not."""
        said = tuple(types_in(self._signature.rpartition("->")[2])) or self.types or (Type((), "none"),)
        if "->" not in self._signature and len(self.results) < len(said):
            said = said[-1:]
        return (said + said[-1:] * len(self.results))[: max(1, len(self.results))]

    @cached_property
    def _signature(self) -> str:
        """What stands behind the colon that is not part of an attribute."""
        if self.name in ("scf.if", "scf.for"):
            return self.text
        text = _ATTRIBUTES.sub("", self.tail if self.tail.startswith("})") else self.text)
        return " " + text.partition(" : ")[2]

    def number(self, attribute: str) -> int | None:
        """Return the value of an attribute that is a whole number; None if it is not said."""
        match = re.search(rf"\b{re.escape(attribute)} = (-?\d+)", f"{self.text} {self.tail}")
        return int(match[1]) if match else None

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """Return the values of an attribute that is a list of whole numbers; empty if it is not said."""
        match = re.search(rf"\b{re.escape(attribute)} = (?:array<i\d+: |\[)([-\d, ]*)", self.text)
        return tuple(int(each) for each in match[1].split(",") if each.strip()) if match else ()

    def inside(self) -> "Iterator[IrOperation]":
        """Yield all operations in it, however deep."""
        for region in self.regions:
            for each in region.operations:
                yield each
                yield from each.inside()


@dataclass(frozen=True)
class Module:
    """A kernel and the functions that it calls.

    Attributes:
        functions: By name.
        kernel: The one that is launched.
        layouts: Text of each layout by name.
    """

    functions: dict[str, IrOperation]
    kernel: IrOperation
    layouts: dict[str, str] = field(default_factory=dict)


def parameters_of(function: IrOperation) -> list[tuple[str, Type]]:
    """Return name and type of each parameter of a function."""
    found = re.findall(
        r"(%[\w$.-]+): (!tt\.ptr<[^<>]*>|!tt\.tensordesc<(?:tensor<)?[^<>]*>+|tensor<[^()]*?>(?=[,)])|\w+)",
        function.text,
    )
    return [(name, next(types_in(kind), Type((), kind))) for name, kind in found]


def types_in(text: str) -> Iterator[Type]:
    """Yield the types in a text, in order."""
    for shape, element, layout, scalar in _TYPES.findall(text):
        if scalar:
            yield Type((), scalar)
        else:
            yield Type(tuple(int(size) for size in shape.split("x") if size), element, layout)


def parse_ir(text: str) -> Module:
    """Parse a module.

    Raises:
        ValueError: It has no kernel.
    """
    layouts = dict(re.findall(r"^(#\w+) = #(.*)$", text, re.MULTILINE))
    text = _flatten_layouts(text)
    lines = [line.strip() for line in text.splitlines()]
    top = _Parser([line for line in lines if line and not line.startswith(("#", "//"))]).region()
    functions = {
        match[1]: each
        for module in top.operations
        for each in (module, *module.inside())
        if each.name == "tt.func" and (match := re.search(r"@([\w.$-]+|\"[^\"]+\")", each.text))
    }
    kernels = [each for each in functions.values() if " public " in f" {each.text}"]
    if not kernels:
        raise ValueError("a module must have a public function, but has none")
    return Module(functions, kernels[0], layouts)


def _flatten_layouts(text: str) -> str:
    """Write layouts that are made of others in one word, such as ``#blocked.s1`` for a slice along axis 1."""
    before = ""
    while text != before:
        before = text
        text = _OPERAND.sub(r"\2.d\1", _SLICE.sub(r"\2.s\1", text))
    return text


class _Parser:
    """Reads lines from the first to the last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines, self._at = lines, 0
        self.last = ""

    def region(self) -> Region:
        """Read up to the line that ends the region, which is then ``last``."""
        arguments: tuple[str, ...] = ()
        operations: list[IrOperation] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line.startswith("}"):
                self.last = line
                break
            if line.startswith("^"):
                arguments = tuple(re.findall(r"(%[\w$.-]+):", line))
            else:
                operations.append(self._operation(line))
        return Region(arguments, tuple(operations))

    def _operation(self, line: str) -> IrOperation:
        match = _HEADER.match(line)
        if match is None:
            return IrOperation((), "", line)
        regions, tail = [], line
        while tail.endswith("{"):
            regions.append(self.region())
            tail = self.last
        text = line[match.end() :]
        return IrOperation(_results(match[1]), match[2], text, tuple(regions), tail if regions else "")


def _results(text: str | None) -> tuple[str, ...]:
    found: list[str] = []
    for each in (text or "").split(", ") if text else ():
        name, _, count = each.partition(":")
        found += [f"{name}#{i}" for i in range(int(count))] if count else [name]
    return tuple(found)


def most_live(function: IrOperation, size_of: Callable[[Type], float]) -> float:
    """Return the most that tiles alive at once in a function take.

    Args:
        function: The function.
        size_of: What a value of a type takes.
    """
    return max((_most_in(region, 0.0, size_of) for region in function.regions), default=0.0)


def _most_in(region: Region, around: float, size_of: Callable[[Type], float]) -> float:
    last = {name: i for i, each in enumerate(region.operations) for name in each.names}
    live: dict[str, float] = {}
    most = around
    for i, operation in enumerate(region.operations):
        held = around + sum(live.values())
        if operation.name.startswith("scf."):
            most = max([most, *(_most_in(inner, held, size_of) for inner in operation.regions)])
        if operation.name not in _FREE:
            for name, kind in zip(operation.results, operation.result_types, strict=False):
                if kind.shape and last.get(name, -1) > i and not kind.is_pointer:
                    live[name] = size_of(kind)
        most = max(most, around + sum(live.values()))
        for name in [name for name in live if last.get(name, -1) <= i]:
            del live[name]
    return most
