"""What Triton's compiler knows of neighbours in a tile of whole numbers, truths or addresses.

It decides how many elements a thread loads or stores at once: as many as are contiguous, aligned and masked
alike, as far as can be told without the arguments' values but for whether 16 divides them (Triton,
``lib/Analysis/AxisInfo.cpp``, whose rules these are, of operations that kernels compute addresses with).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from costmodel.kernels.triton._ir import IrOperation, Type

_ANY = 1 << 30  # what divides 0
_HINTED = 16  # what Triton asks of arguments
_HINT = re.compile(r"tt\.(contiguity|divisibility|constancy) = dense<\[?([\d, ]+)")


@dataclass(frozen=True, slots=True)
class Axis:
    """What is known along one axis.

    Attributes:
        run: Elements that follow one another by one.
        divisor: Power of two that divides the first of each run; of addresses in bytes.
        alike: Neighbours that are equal.
    """

    run: int = 1
    divisor: int = 1
    alike: int = 1


Alignment = tuple[Axis, ...]  # along each axis; a scalar has one
_UNKNOWN = Axis()


def align_argument(kind: Type, given: object) -> Alignment:
    """Return what the compiler is told of an argument; arrays are aligned."""
    is_hinted = kind.is_pointer or (isinstance(given, int) and given % _HINTED == 0)
    return (Axis(divisor=_HINTED if is_hinted else 1),)


def align_constant(number: float | None, kind: Type) -> Alignment:
    """Return what is known of a constant, alike all over a tile."""
    divisor = (min(_ANY, number & -number) or _ANY) if isinstance(number, int) else 1
    return tuple(Axis(divisor=divisor, alike=size) for size in kind.shape or (1,))


def align_counter(low: Alignment, step: Alignment) -> Alignment:
    """Return what is known of a loop's counter."""
    return (Axis(divisor=gcd(low[0].divisor, step[0].divisor)),)


def align_result(operation: IrOperation, kind: Type, known: Sequence[Alignment | None]) -> Alignment:
    """Return what is known of a result of this type.

    Args:
        operation: The operation.
        kind: Type of the result.
        known: What is known of its operands; None for such as are no whole numbers.
    """
    told = [each or (_UNKNOWN,) for each in known]
    rank = len(kind.shape) or 1
    found: Alignment = ()
    if operation.name in _SHAPED:
        found = _SHAPED[operation.name](operation, kind, told)
    elif operation.name in _COMBINED and len(told) > 1 and len(told[0]) == len(told[1]):
        scale = max(1, kind.pointee.bits // 8) if operation.name == "tt.addptr" else 1
        second = [replace(each, divisor=min(_ANY, each.divisor * scale)) for each in told[1]]
        found = tuple(map(_COMBINED[operation.name], told[0], second))
    if len(found) != rank:  # unknown, or operands are not as the rule has them
        found = (_UNKNOWN,) * rank
    return _believed(operation, found) if "dense<" in operation.text else found


def _believed(operation: IrOperation, found: Alignment) -> Alignment:
    """Believe what the kernel's author says of a value."""
    said: dict[str, list[int]] = {}
    for name, numbers in _HINT.findall(operation.text):
        each = [int(number) for number in numbers.split(",")]
        said[name] = each * (len(found) if len(each) == 1 else 1)
    return tuple(
        Axis(
            max([axis.run, *said.get("contiguity", [])[i : i + 1]]),
            max([axis.divisor, *said.get("divisibility", [])[i : i + 1]]),
            max([axis.alike, *said.get("constancy", [])[i : i + 1]]),
        )
        for i, axis in enumerate(found)
    )


def _range(operation: IrOperation, kind: Type, _: Sequence[Alignment]) -> Alignment:
    return (Axis(kind.size, align_constant(operation.number("start") or 0, kind)[0].divisor),)


def _splat(_: IrOperation, kind: Type, told: Sequence[Alignment]) -> Alignment:
    return tuple(Axis(divisor=told[0][0].divisor, alike=size) for size in kind.shape)


def _expand(operation: IrOperation, _: Type, told: Sequence[Alignment]) -> Alignment:
    at, before = operation.number("axis") or 0, told[0]
    has_runs = any(axis.run > 1 for axis in before)
    new = Axis(divisor=1 if has_runs else min(axis.divisor for axis in before))
    return (*before[:at], new, *before[at:])


def _broadcast(operation: IrOperation, kind: Type, told: Sequence[Alignment]) -> Alignment:
    return tuple(
        replace(axis, alike=size) if before == 1 and size > 1 else axis
        for axis, before, size in zip(told[0], operation.types[0].shape, kind.shape, strict=False)
    )


def _transposed(operation: IrOperation, _: Type, told: Sequence[Alignment]) -> Alignment:
    order = operation.numbers("order")
    return tuple(told[0][i] for i in order if i < len(told[0]))


def _choice(_: IrOperation, kind: Type, told: Sequence[Alignment]) -> Alignment:
    """Runs and neighbours that are alike go no further than the truth that chooses does."""
    truth, *of = told[:3]
    is_whole = not kind.shape or len(truth) != len(kind.shape)
    limits = [0 if is_whole else axis.alike for axis in truth] * (len(of[0]) if is_whole else 1)
    return tuple(
        Axis(gcd(a.run, b.run, most), gcd(a.divisor, b.divisor), gcd(a.alike, b.alike, most))
        for a, b, most in zip(*of, limits, strict=False)
    )


def _sum(a: Axis, b: Axis) -> Axis:
    run = max(gcd(a.alike, b.run), gcd(a.run, b.alike))
    return Axis(run, gcd(a.divisor, b.divisor), gcd(a.alike, b.alike))


def _difference(a: Axis, b: Axis) -> Axis:
    return replace(_sum(a, b), run=gcd(a.run, b.alike))


def _product(a: Axis, b: Axis) -> Axis:
    divisor = (a.divisor if a.run == 1 else 1) * (b.divisor if b.run == 1 else 1)
    return Axis(1, min(_ANY, divisor), gcd(a.alike, b.alike))


def _quotient(a: Axis, b: Axis) -> Axis:
    of_run = gcd(a.run, a.divisor, b.divisor) if b.alike > 1 else a.alike
    return Axis(alike=max(of_run, gcd(a.alike, b.alike)))


def _remainder(a: Axis, b: Axis) -> Axis:
    run = gcd(a.run, a.divisor, b.divisor, b.alike)
    return Axis(run, gcd(a.divisor, b.divisor), gcd(a.alike, b.alike))


def _comparison(a: Axis, b: Axis) -> Axis:
    """Truths are alike up to where a run may cross what it is compared with."""
    steps = gcd(a.divisor, b.divisor)
    return Axis(alike=max(gcd(a.alike, b.alike), gcd(a.run, b.alike, steps), gcd(a.alike, b.run, steps)))


def _logic(a: Axis, b: Axis) -> Axis:
    return Axis(alike=gcd(a.alike, b.alike))


_SHAPED: Mapping[str, Callable[[IrOperation, Type, Sequence[Alignment]], Alignment]] = {
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.expand_dims": _expand,
    "tt.broadcast": _broadcast,
    "tt.trans": _transposed,
    "arith.select": _choice,
    **dict.fromkeys(
        (
            *("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui"),
            *("ttg.convert_layout", "tt.bitcast"),
        ),
        lambda _, __, told: told[0],
    ),
}
_COMBINED: Mapping[str, Callable[[Axis, Axis], Axis]] = {
    "arith.addi": _sum,
    "tt.addptr": _sum,
    "arith.subi": _difference,
    "arith.muli": _product,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.cmpi": _comparison,
    "arith.andi": _logic,
    "arith.ori": _logic,
    "arith.xori": _logic,
}
