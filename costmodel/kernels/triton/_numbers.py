"""Numbers that Triton's IR computes places of: scalars, and tensors as arrays before they are broadcast.

Whole numbers, and others on the way to them: a row by a square root, a pixel between two.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._ir import IrOperation

Number = int | float | NDArray[Any]
Numbers = Sequence[Any]


def _quotient(a: Any, b: Any) -> Any:
    """Divide towards zero, as C does; by zero gives what is divided."""
    b = np.where(np.asarray(b) == 0, 1, b)
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def _remainder(a: Any, b: Any) -> Any:
    return a - _quotient(a, b) * np.where(np.asarray(b) == 0, 1, b)


def _shift_left(a: Any, b: Any) -> Any:
    return np.left_shift(np.asarray(a, np.int64), np.clip(b, 0, 63))


def _shift_right(a: Any, b: Any) -> Any:
    return np.right_shift(np.asarray(a, np.int64), np.clip(b, 0, 63))


_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": np.minimum,
    "arith.maxui": np.maximum,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.floordivsi": lambda a, b: np.floor_divide(a, np.where(np.asarray(b) == 0, 1, b)),
    "arith.ceildivsi": lambda a, b: -np.floor_divide(-np.asarray(a), np.where(np.asarray(b) == 0, 1, b)),
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf"), np.maximum),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf"), np.minimum),
}
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("arith.sitofp", "arith.uitofp"), lambda a: np.asarray(a, np.float64)),
    **dict.fromkeys(("arith.fptosi", "arith.fptoui"), lambda a: np.nan_to_num(np.trunc(a)).astype(np.int64)),
    "math.absi": np.abs,
    "math.absf": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.sqrt": np.sqrt,
}
_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    **{f"{sign}lt": np.less for sign in "su"},
    **{f"{sign}le": np.less_equal for sign in "su"},
    **{f"{sign}gt": np.greater for sign in "su"},
    **{f"{sign}ge": np.greater_equal for sign in "su"},
}
_SAME = (
    *("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui"),
    *("tt.broadcast", "ttg.convert_layout"),
)
_TEXTS = {"true": 1, "false": 0}


def constant_of(text: str) -> int | float | None:
    """Return the value of an ``arith.constant`` that is a number or a truth; None if it is told in bits."""
    match = re.match(r"\s*(?:\{.*?\} )?(?:dense<)?([-\w.+]+)", text)
    word = match[1] if match else ""
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    return float(word) if re.fullmatch(r"-?\d+\.\d+(?:e[-+]\d+)?", word) else _TEXTS.get(word)


def compute(
    operation: IrOperation, numbers: Sequence[Number | None], shape: tuple[int, ...]
) -> Number | None:
    """Return what numbers give; None where it is unknown, or computed by something else.

    Args:
        operation: The operation.
        numbers: Its operands.
        shape: Shape of its result; arrays may have 1 in place of a size.
    """
    if operation.name == "tt.make_range":
        return np.arange(operation.number("start") or 0, operation.number("end"), dtype=np.int64)
    if not numbers or any(number is None for number in numbers):
        return None
    known = _RULES.get(operation.name)
    return None if known is None else _plain(known(operation, numbers, shape))


def _plain(number: Any) -> Number:
    """Return a scalar as a number of Python, whose whole numbers do not overflow."""
    if np.ndim(number) == 0:
        return float(number) if np.asarray(number).dtype.kind == "f" else int(number)
    return np.asarray(number)


def _reshape(operation: IrOperation, numbers: Numbers, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.asarray(numbers[0]), operation.types[0].shape).reshape(shape)


def _combine(operation: IrOperation, numbers: Numbers, _: tuple[int, ...]) -> Any:
    return _BINARY[operation.name](numbers[0], numbers[1])


def _apply(operation: IrOperation, numbers: Numbers, _: tuple[int, ...]) -> Any:
    return _UNARY[operation.name](numbers[0])


def _compare(operation: IrOperation, numbers: Numbers, _: tuple[int, ...]) -> Any:
    return _COMPARED[operation.text.split(",", 1)[0].strip()](numbers[0], numbers[1])


_RULES: Mapping[str, Callable[[IrOperation, Numbers, tuple[int, ...]], Any]] = {
    **dict.fromkeys(_BINARY, _combine),
    **dict.fromkeys(_UNARY, _apply),
    **dict.fromkeys(_SAME, lambda _, n, __: n[0]),
    "arith.cmpi": _compare,
    "arith.select": lambda _, n, __: np.where(n[0], n[1], n[2]),
    "tt.splat": lambda _, n, shape: np.asarray(n[0]).reshape((1,) * len(shape)),
    "tt.expand_dims": lambda operation, n, _: np.expand_dims(n[0], operation.number("axis") or 0),
    "tt.trans": lambda operation, n, _: np.transpose(n[0], operation.numbers("order")),
    "tt.reshape": _reshape,
}
