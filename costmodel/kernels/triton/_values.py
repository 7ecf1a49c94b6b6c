"""What is known of the values of Triton's IR, before a kernel runs.

What is computed from arguments and the program's place in the grid is known; so are addresses, as offsets of
elements. What is loaded is not: it is guessed, and so is what follows from it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.kernels.triton._ir import IrOperation, Type
from costmodel.kernels.triton._numbers import Number, compute, constant_of
from costmodel.kernels.triton.accesses._alignment import (
    Alignment,
    align_argument,
    align_constant,
    align_result,
)

_SPREAD = 7919  # elements between those that are gathered: none shares a sector with the next
_AXES = "xyz"
_FLOATS = ("f", "bf", "tf")


@dataclass(frozen=True)
class Array:
    """An argument that is a pointer.

    Attributes:
        bytes: Size of the array; 0 if it is not known.
    """

    bytes: int = 0


Argument = Array | int | float | None


@dataclass(frozen=True)
class ReadLaunch:
    """How a kernel is launched whose facts are read.

    Attributes:
        arguments: What it is called with, without what is compiled in, in order.
        grid: Programs along each axis.
        warps: Warps of a program.
    """

    arguments: Sequence[Argument]
    grid: tuple[int, int, int]
    warps: int


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of a value.

    Attributes:
        type: Its type.
        number: Its value, or for pointers the offset in elements; None if it is unknown.
        array: Position of the argument that it points into; -1 if it is no pointer or into anything.
        depth: How many of the loops around it it varies in.
        is_guess: Whether data decide the number.
        share: Probability that a truth decided by data holds.
        waits: Loads that follow one another before it is known.
        is_counter: Whether it is what an atomic addition found.
        by_program: Whether it depends on the program's place in the grid.
        alignment: What the compiler knows of neighbours; None where that is not followed.
    """

    type: Type
    number: Number | None = None
    array: int = -1
    depth: int = 0
    is_guess: bool = False
    share: float = 1.0
    waits: float = 0.0
    is_counter: bool = False
    by_program: bool = False
    alignment: Alignment | None = None


@dataclass(frozen=True)
class Rules:
    """What operations make of what is known.

    Attributes:
        grid: Programs along each axis.
        program: Place of the program in the grid.
        follows_alignment: Whether what the compiler knows of neighbours is followed, which tells how much a
            thread accesses at once.
    """

    grid: tuple[int, int, int]
    program: tuple[int, int, int]
    follows_alignment: bool = False

    def result(self, operation: IrOperation, kind: Type, operands: Sequence[Value]) -> Value:
        """Return what is known of a result of an operation, of this type."""
        depth = max((each.depth for each in operands), default=0)
        waits = max((each.waits for each in operands), default=0.0)
        guess = any(each.is_guess for each in operands)
        by_program = any(each.by_program for each in operands)
        told = self._alignment(operation, kind, operands)
        known = Value(kind, None, -1, depth, guess, waits=waits, by_program=by_program, alignment=told)
        rule = _RULES.get(operation.name, Rules._arithmetic)
        return rule(self, operation, kind, known, operands)

    def _alignment(self, operation: IrOperation, kind: Type, operands: Sequence[Value]) -> Alignment | None:
        """Return what the compiler knows of neighbours in a result, where that is followed."""
        if operation.name == "tt.addptr":
            kind = operands[0].type
        if not self.follows_alignment or kind.element.startswith(_FLOATS):
            return None
        if operation.name == "arith.constant":
            return align_constant(constant_of(operation.text), kind)
        return align_result(operation, kind, [each.alignment for each in operands])

    def _constant(self, operation: IrOperation, kind: Type, known: Value, _: Sequence[Value]) -> Value:
        number = constant_of(operation.text)
        shaped = number if number is None or not kind.shape else np.full((1,) * len(kind.shape), number)
        return replace(known, number=shaped)

    def _place(self, operation: IrOperation, _: Type, known: Value, __: Sequence[Value]) -> Value:
        """Where the program is in the grid, or how large that is."""
        axis = _AXES.index(operation.text.split(":")[0].strip())
        is_program = operation.name == "tt.get_program_id"
        return replace(known, number=(self.program if is_program else self.grid)[axis], by_program=is_program)

    def _reduced(self, _: IrOperation, kind: Type, known: Value, __: Sequence[Value]) -> Value:
        return replace(known, is_guess=True, number=_zeros(kind)) if kind.is_integer else known

    def _arithmetic(
        self, operation: IrOperation, kind: Type, known: Value, operands: Sequence[Value]
    ) -> Value:
        return replace(known, number=self._computed(operation, kind, operands))

    def _computed(self, operation: IrOperation, kind: Type, operands: Sequence[Value]) -> Number | None:
        with np.errstate(all="ignore"):
            return compute(operation, [each.number for each in operands], kind.shape)

    def _loaded(self, operation: IrOperation, kind: Type, known: Value, operands: Sequence[Value]) -> Value:
        """What is in memory is unknown; whole numbers are taken to be far apart."""
        kind = kind.pointee if operation.name == "tt.load" else kind
        is_memory = operation.name != "ttg.local_load"
        known = replace(known, type=kind, waits=known.waits + is_memory)
        if not kind.is_integer:
            return known
        number: Number | None = 0
        if kind.shape:
            number = _scattered(kind)
        return replace(known, number=number, is_guess=True, is_counter="atomic" in operation.name)

    def _moved(self, operation: IrOperation, kind: Type, known: Value, operands: Sequence[Value]) -> Value:
        """Pointers keep their array; the offset of one is added to."""
        arrays = [each.array for each in operands if each.array >= 0]
        number: Number | None
        if operation.name == "arith.select" and takes_last(operands):
            last = operands[2]
            return replace(known, number=last.number, array=last.array, is_guess=last.is_guess)
        if operation.name == "tt.addptr":
            kind = operands[0].type if not operation.types else operation.types[0]
            a, b = operands[0].number, operands[1].number
            number = None if a is None or b is None else a + b
        elif operation.name == "tt.bitcast":
            number = operands[0].number
        else:
            number = self._computed(operation, kind, operands)
        return replace(known, type=kind, number=number, array=arrays[-1] if arrays else -1)

    def _compared(self, operation: IrOperation, kind: Type, known: Value, operands: Sequence[Value]) -> Value:
        number = self._computed(operation, kind, operands)
        if not known.is_guess:
            return replace(known, type=Type(kind.shape, "i1", kind.layout), number=number)
        share = 1.0
        limit = operands[1].number
        if operands[0].is_counter and isinstance(limit, int) and limit > 0 and " eq," in f" {operation.text}":
            share = 1.0 / (limit + 1)  # the last of those who arrive
        truth = None if number is None else np.ones_like(number) if np.ndim(number) else 1
        return replace(known, type=Type(kind.shape, "i1", kind.layout), number=truth, share=share)


_RULES: Mapping[str, Callable[[Rules, IrOperation, Type, Value, Sequence[Value]], Value]] = {
    "arith.constant": Rules._constant,
    **dict.fromkeys(("tt.get_program_id", "tt.get_num_programs"), Rules._place),
    **dict.fromkeys(
        ("tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_load", "tt.descriptor_gather"),
        Rules._loaded,
    ),
    "ttg.local_load": Rules._loaded,
    **dict.fromkeys(
        (
            *("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.bitcast", "arith.select"),
            *("tt.make_tensor_descriptor", "tt.reinterpret_tensor_descriptor"),
        ),
        Rules._moved,
    ),
    "arith.cmpi": Rules._compared,
    **dict.fromkeys(("tt.reduce", "tt.scan", "tt.histogram", "tt.gather"), Rules._reduced),
}


def takes_last(operands: Sequence[Value]) -> bool:
    """Whether a choice is by data between scalars: the last is taken, as what is found early is rare."""
    return operands[0].is_guess and not operands[0].type.shape


def passed_value(position: int, kind: Type, given: Argument) -> Value:
    """What a kernel is told of an argument; an unknown number is a guess."""
    told = align_argument(kind, given)
    if kind.is_pointer or kind.shape:
        return Value(kind, 0, position, alignment=told)
    number = given if isinstance(given, int) else None
    return Value(kind, number, is_guess=number is None and kind.is_integer, alignment=told)


def _scattered(kind: Type) -> Number:
    return (np.arange(kind.size, dtype=np.int64) * _SPREAD).reshape(kind.shape)


def _zeros(kind: Type) -> Number:
    return np.zeros((1,) * len(kind.shape), np.int64) if kind.shape else 0
