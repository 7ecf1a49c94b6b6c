"""What formulas may be made of: Python's operators and functions within bounds, checked when one is read."""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from costmodel.errors import CostModelError, did_you_mean, shorten

Value = Any  # a number, a text, a list or tuple of values, or a (n,) column

MOST_ITEMS = 65_536  # of a list
LARGEST = 2**62  # of a whole number: columns hold 64 bits
_LARGEST_EXPONENT = 64


def to_plain(value: Value) -> Value:
    """Return a number of NumPy as Python's."""
    return (
        value.item()
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
        else value
    )


def to_truth(value: Value) -> Any:
    """Tell whether a value counts as true; a column of it."""
    if not isinstance(value, np.ndarray):
        return bool(value)
    return value != "" if value.dtype.kind == "U" else value.astype(bool)


def compare_values(holds: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    """Return a comparison of two numbers or two texts; a number is never equal to a text."""
    if _is_text(left) == _is_text(right) and not isinstance(left, list) and not isinstance(right, list):
        return holds(left, right)
    if holds not in (operator.eq, operator.ne):
        raise TypeError("only two numbers or two texts can be compared")
    rows = np.broadcast(np.asarray(_first(left)), np.asarray(_first(right))).shape
    unequal = holds is operator.ne
    return np.full(rows, unequal) if rows else unequal


def contains(items: Value, value: Value) -> Value:
    """Tell whether a list has a value."""
    if not isinstance(items, list | tuple):
        raise TypeError("`in` needs a list at its right")
    return reduce(np.logical_or, (compare_values(operator.eq, value, each) for each in items), _no(value))


def _no(value: Value) -> Value:
    return np.zeros(value.shape, dtype=bool) if isinstance(value, np.ndarray) else False


def _first(value: Value) -> Value:
    return 0 if isinstance(value, list | tuple) else value


def _is_text(value: Value) -> bool:
    return value.dtype.kind in "UO" if isinstance(value, np.ndarray) else isinstance(value, str)


def _number(value: Value) -> Any:
    """Return a number, or a column of numbers, with truth as 0 and 1."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise TypeError("it needs numbers, but got texts")
        return value.astype(np.int64) if value.dtype.kind in "biu" else value
    if not isinstance(value, int | float | np.number | np.bool_):
        raise TypeError(f"it needs numbers, but got {shorten(repr(value))}")
    number = to_plain(value)
    return int(number) if isinstance(number, bool) else number


def _is_whole(value: Any) -> bool:
    return value.dtype.kind == "i" if isinstance(value, np.ndarray) else isinstance(value, int)


def _any(mask: Any) -> bool:
    return bool(np.any(mask))


def _within(value: Any) -> Any:
    """Return a whole number that is not too large."""
    if _any(np.abs(value) >= float(LARGEST)):
        raise OverflowError("a whole number is larger than 2^62")
    return value


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    """Return sum, difference or product; of whole numbers exactly."""

    def operate(left: Value, right: Value) -> Value:
        a, b = _number(left), _number(right)
        if not (_is_whole(a) and _is_whole(b)):
            with np.errstate(all="ignore"):
                return compute(a, b)
        _within(compute(_as_float(a), _as_float(b)))
        return _within(compute(a, b))

    return operate


def _as_float(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) else float(value)


def _add(left: Value, right: Value) -> Value:
    if isinstance(left, list) and isinstance(right, list):
        return _listed([*left, *right])
    return _sum(left, right)


def _divided(compute: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    """Return a quotient or remainder."""

    def operate(left: Value, right: Value) -> Value:
        a, b = _number(left), _number(right)
        if _any(b == 0):
            raise ZeroDivisionError("division by zero")
        with np.errstate(all="ignore"):
            return compute(a, b)

    return operate


def _power(left: Value, right: Value) -> Value:
    a, b = _number(left), _number(right)
    if _any(np.abs(b) > _LARGEST_EXPONENT):
        raise OverflowError(f"an exponent is larger than {_LARGEST_EXPONENT}")
    if _any((a == 0) & (b < 0)):
        raise ZeroDivisionError("division by zero")
    if _any((a < 0) & (b != np.floor(b))):
        raise ArithmeticError("a root of a negative number")
    whole = _is_whole(a) and _is_whole(b) and not _any(b < 0)
    with np.errstate(all="ignore"):
        power = np.power(_as_float(a), _as_float(b))
    if not whole:
        if _any(np.isinf(power) & np.isfinite(_as_float(a))):
            raise OverflowError("a power is too large")
        return to_plain(power)
    _within(power)
    return a**b


def _round_by(round_: Callable[[Any], Any]) -> Callable[[Value], Value]:
    """Return a function that makes whole numbers."""

    def operate(value: Value) -> Value:
        number = _number(value)
        if _is_whole(number):
            return number
        if _any(~np.isfinite(number)):
            raise ArithmeticError("infinity and NaN are no whole numbers")
        rounded = _within(round_(number))
        return rounded.astype(np.int64) if isinstance(rounded, np.ndarray) else int(rounded)

    return operate


def _extreme(pick: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    """Return the smallest or largest of the arguments, or of a list."""

    def operate(*arguments: Value) -> Value:
        items = arguments[0] if len(arguments) == 1 else arguments
        if not isinstance(items, list | tuple) or not items:
            raise TypeError("it needs several numbers, or a list of them")
        return to_plain(reduce(pick, map(_number, items)))

    return operate


def _absolute(value: Value) -> Value:
    return abs(_number(value))


def _float(value: Value) -> Value:
    return _as_float(_number(value))


def _range(*bounds: Value) -> list[int]:
    numbers = [to_plain(bound) for bound in bounds]
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError("range needs whole numbers")
    return _listed(range(*numbers))


def _listed(items: Any) -> list[Any]:
    if not isinstance(items, list | tuple | range):
        raise TypeError("it needs a list or a range")
    if len(items) > MOST_ITEMS:
        raise ValueError(f"a list has at most {MOST_ITEMS} items")
    return list(items)


def _length(items: Value) -> int:
    return len(_listed(items))


def _sum_of(items: Value) -> Value:
    summands = _listed(items)
    if all(type(each) is int for each in summands):  # ten times faster
        return _within(sum(summands))
    return reduce(_sum, summands, 0)


_sum = _arithmetic(operator.add)

OPERATORS: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: _add,
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _divided(operator.truediv),
    ast.FloorDiv: _divided(operator.floordiv),
    ast.Mod: _divided(operator.mod),
    ast.Pow: _power,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": _absolute,
    "ceil": _round_by(np.ceil),
    "float": _float,
    "floor": _round_by(np.floor),
    "int": _round_by(np.trunc),
    "len": _length,
    "list": _listed,
    "max": _extreme(np.maximum),
    "min": _extreme(np.minimum),
    "range": _range,
    "round": _round_by(np.rint),
    "sum": _sum_of,
}


_MOST_CHARACTERS = 4096


class FormulaError(CostModelError):
    """A formula that is not understood, or that has no value."""


_NODES = (
    *(ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript),
    *(ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.Call),
)


def parse(text: str) -> ast.expr:
    """Return the expression, once every node of it is known."""
    if len(text) > _MOST_CHARACTERS:
        raise FormulaError(f"A formula must have at most {_MOST_CHARACTERS} characters, but got {len(text)}.")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        said = error.msg if isinstance(error, SyntaxError) else error
        raise FormulaError(f"The formula {text!r} must be a Python expression, but{where}: {said}.") from None
    except (RecursionError, MemoryError):
        raise FormulaError(f"The formula {text[:40]!r}... must be less deeply nested.") from None
    _check(node, text.strip())
    return node


def _check(root: ast.expr, text: str) -> None:
    for node in ast.walk(root):
        if isinstance(node, ast.expr) and (refused := _refused(node)):
            part = ast.get_source_segment(text, node) or text
            raise FormulaError(f"The formula {text!r} cannot have {part!r}: {refused}.{_meant(node)}")


def _refused(node: ast.expr) -> str:
    """Tell why a node is no part of a formula; empty if it is."""
    why = ""
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            pass
        case ast.Call(func=ast.Name()):
            why = f"it may call {', '.join(FUNCTIONS)}, without names of arguments"
        case ast.Constant(value=value) if not isinstance(value, int | float | str):
            why = "constants are numbers and texts"
        case ast.Constant(value=int(value)) if value >= LARGEST:
            why = "whole numbers are below 2^62"
        case ast.BinOp(op=operator) if type(operator) not in OPERATORS:
            why = "operators are + - * / // % **"
        case ast.UnaryOp(op=ast.Invert()):
            why = "operators before a value are - + and not"
        case ast.Compare(ops=ops) if any(isinstance(each, ast.Is | ast.IsNot) for each in ops):
            why = "values are compared by == != < <= > >= and in"
        case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops) if any(
            loop.is_async or not isinstance(loop.target, ast.Name) for loop in loops
        ):
            why = "a comprehension binds one name at a time"
        case node if not isinstance(node, _NODES):
            why = "it is neither a number, a name, arithmetic, a comparison, a condition, a list nor a call"
    return why


def _meant(node: ast.expr) -> str:
    """Return a question where a call has a name near one that there is."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name not in FUNCTIONS:
            return did_you_mean(name, FUNCTIONS)
    return ""


def free_names(node: ast.expr) -> tuple[str, ...]:
    """Return the names that stand for values from outside."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in found if isinstance(each.ctx, ast.Store)}
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return tuple(dict.fromkeys(each.id for each in found if each.id not in bound and id(each) not in called))


def check_names(text: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Check that a formula uses known names only.

    Raises:
        FormulaError: It uses another.
    """
    there = sorted(known)
    for name in names:
        if name not in there:
            raise FormulaError(
                f"The formula {text!r} must use the names {', '.join(there) or '(none)'}, but it uses "
                f"{name!r}.{did_you_mean(name, there)}"
            )
