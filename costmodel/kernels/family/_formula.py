"""Formulas of a description: Python expressions in text, over many configs at once.

They come from files of others, so that nothing of them reaches ``eval``: what is evaluated here are the nodes
below, and sizes are bounded, so that no text can hang or fill memory. A name stands for a number, a text, a
list, or a ``(n,)`` column with the value of each config; what Python would give for each config alone is what
a column gives at its row. As in Python ``and``, ``or``, ``if`` and chained comparisons look at their right
side only where they have to, so that ``tile == 0 or size % tile == 0`` divides by no zero.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import shorten
from costmodel.kernels.family._grammar import (
    COMPARISONS,
    FUNCTIONS,
    MOST_ITEMS,
    OPERATORS,
    FormulaError,
    Value,
    check_names,
    compare_values,
    contains,
    free_names,
    parse,
    to_plain,
    to_truth,
)

Expression = int | float | str  # what a formula is written as

# What one evaluation may take, in rows of columns of numbers: they stay below a gigabyte, even if all of them
# are kept, and what costs Python as much time or memory counts as many rows.
_MOST_ROWS = 100_000 * 1024
_ROWS_OF_A_STEP = 1024  # to visit a node; a comprehension visits some for each item
_ROWS_OF_AN_ITEM = 256  # of a list


@dataclass(frozen=True)
class Scope:
    """Values by name, of all rows or of some."""

    values: Mapping[str, Value]
    rows: NDArray[np.intp] | None = None

    def __getitem__(self, name: str) -> Value:
        value = self.values[name]
        return _at(value, self.rows) if self.rows is not None else value

    def at(self, rows: NDArray[np.intp]) -> "Scope":
        """Return the same with these of its rows."""
        return Scope(self.values, rows if self.rows is None else self.rows[rows])

    def with_value(self, name: str, value: Value) -> "Scope":
        """Return the same with one more name, whose value is no column."""
        return Scope({**self.values, name: value}, self.rows)


class Evaluation:
    """One evaluation: visits nodes, and counts them and the size of what they give.

    What a node gives is counted before another takes it, so that whoever adds up or compares all items, and
    all rows of each, has been paid for.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MOST_ROWS

    def visit(self, node: ast.expr, scope: Scope) -> Value:
        """Tell what a node gives."""
        self._pay(_ROWS_OF_A_STEP, node)
        try:
            value = getattr(self, f"_{type(node).__name__.lower()}")(node, scope)
        except (ArithmeticError, ValueError, TypeError, IndexError) as error:
            raise self._error(node, f"has no value: {shorten(error)}") from None
        self._pay(_weight(value, self._left), node)
        return value

    def _pay(self, rows: int, node: ast.expr) -> None:
        self._left -= rows
        if self._left < 0:
            raise self._error(node, "takes too many steps")

    def _constant(self, node: ast.Constant, _: Scope) -> Value:
        return node.value

    def _name(self, node: ast.Name, scope: Scope) -> Value:
        check_names(self._text, [node.id], scope.values)
        return scope[node.id]

    def _binop(self, node: ast.BinOp, scope: Scope) -> Value:
        return OPERATORS[type(node.op)](self.visit(node.left, scope), self.visit(node.right, scope))

    def _unaryop(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.visit(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return np.logical_not(to_truth(value)) if isinstance(value, np.ndarray) else not to_truth(value)
        return OPERATORS[ast.Mult](value, -1 if isinstance(node.op, ast.USub) else 1)

    def _boolop(self, node: ast.BoolOp, scope: Scope) -> Value:
        value = self.visit(node.values[0], scope)
        for other in node.values[1:]:
            goes_on = to_truth(value) == isinstance(node.op, ast.And)
            value = self._choose(goes_on, scope, partial(self.visit, other), value)
        return value

    def _compare(self, node: ast.Compare, scope: Scope) -> Value:
        value: Value = True
        sides = pairwise([node.left, *node.comparators])
        for (left, right), by in zip(sides, node.ops, strict=True):
            value = self._choose(to_truth(value), scope, partial(self._compared, by, left, right), value)
        return value

    def _compared(self, by: ast.cmpop, left: ast.expr, right: ast.expr, scope: Scope) -> Value:
        a, b = self.visit(left, scope), self.visit(right, scope)
        if isinstance(b, list | tuple):  # each item is compared with each row
            self._pay(len(b) * np.size(a), right)
        if isinstance(by, ast.In):
            return contains(b, a)
        if isinstance(by, ast.NotIn):
            return np.logical_not(contains(b, a))
        return compare_values(COMPARISONS[type(by)], a, b)

    def _ifexp(self, node: ast.IfExp, scope: Scope) -> Value:
        condition = to_truth(self.visit(node.test, scope))
        no = self._choose(np.logical_not(condition), scope, partial(self.visit, node.orelse), 0)
        return self._choose(condition, scope, partial(self.visit, node.body), no)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        whole, index = self.visit(node.value, scope), to_plain(self.visit(node.slice, scope))
        if not isinstance(whole, list | tuple) or not isinstance(index, int):
            raise TypeError("only a list can be indexed, by a whole number")
        return whole[index]

    def _list(self, node: ast.List | ast.Tuple, scope: Scope) -> Value:
        return [self.visit(item, scope) for item in node.elts]

    _tuple = _list

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> Value:
        return self._items(node.elt, node.generators, scope)

    _generatorexp = _listcomp

    def _items(self, item: ast.expr, loops: Sequence[ast.comprehension], scope: Scope) -> list[Value]:
        if not loops:
            return [self.visit(item, scope)]
        loop, *inner = loops
        assert isinstance(loop.target, ast.Name)  # checked when parsed
        items = self.visit(loop.iter, scope)
        if not isinstance(items, list | tuple):
            raise TypeError("a comprehension goes over a list or a range")
        found: list[Value] = []
        for each in items:
            within = scope.with_value(loop.target.id, each)
            if all(to_truth(to_plain(self.visit(condition, within))) for condition in loop.ifs):
                found += self._items(item, inner, within)
            if len(found) > MOST_ITEMS:
                raise ValueError(f"a list has at most {MOST_ITEMS} items")
        return found

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        assert isinstance(node.func, ast.Name)  # checked when parsed
        return FUNCTIONS[node.func.id](*(self.visit(argument, scope) for argument in node.args))

    def _choose(self, mask: Value, scope: Scope, new: Callable[[Scope], Value], otherwise: Value) -> Value:
        """Tell what ``new`` gives where the mask holds, and is asked for there alone; else what there is."""
        if not isinstance(mask, np.ndarray):
            return new(scope) if mask else otherwise
        rows = np.flatnonzero(mask)
        if not rows.size:
            return otherwise
        chosen = _column(new(scope.at(rows)))
        old = np.broadcast_to(_column(otherwise), mask.shape)
        if rows.size == mask.size:
            return np.broadcast_to(chosen, mask.shape)
        merged = old.astype(np.result_type(old, chosen))
        merged[rows] = chosen
        return merged

    def _error(self, node: ast.expr, what: str) -> FormulaError:
        part = ast.get_source_segment(self._text, node) or self._text
        where = f", in {self._text!r}" if part != self._text else ""
        return FormulaError(f"The formula {part!r}{where} {what}.")


def _column(value: Value) -> NDArray[Any]:
    """Return a value as a column; texts as references, as each row would take the room of the longest."""
    if isinstance(value, list | tuple):
        raise TypeError("a list cannot be chosen for some of the configs")
    column = np.asarray(value)
    return column.astype(object) if column.dtype.kind == "U" else column


def _weight(value: Value, most: int) -> int:
    """Return rows that a value counts as: those of a column, or of the widest item for each item of a list.

    Args:
        value: What a node gives; lists may hold lists.
        most: Whatever weighs more may be told to weigh a little more than this.
    """
    if isinstance(value, np.ndarray):
        return value.size
    items, widest, open_ = 0, 0, [value]
    while open_ and items * max(widest, _ROWS_OF_AN_ITEM) <= most:
        each = open_.pop()
        if isinstance(each, list | tuple):
            items += len(each)
            open_.extend(each)
        else:
            widest = max(widest, np.size(each))
    return items * max(widest, _ROWS_OF_AN_ITEM)


def _at(value: Value, rows: NDArray[np.intp]) -> Value:
    """Return a value at these rows; columns may stand in a list."""
    if isinstance(value, list | tuple):
        return [_at(each, rows) for each in value]
    return value[rows] if isinstance(value, np.ndarray) else value


class Formula:
    """One expression.

    Args:
        text: A Python expression, or a number.

    Attributes:
        text: The expression.
        names: The names that it needs, each once.

    Raises:
        FormulaError: It is no expression, or does what formulas cannot do.

    Example:
        >>> Formula("block_size_x * block_size_y <= 1024").mask({"block_size_x": 32, "block_size_y": 64}, 1)
        array([False])
    """

    def __init__(self, text: str | float) -> None:
        self.text = str(text)
        self._node = parse(self.text)
        self.names = free_names(self._node)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def check_names(self, known: Iterable[str]) -> None:
        """Check that it uses known names only.

        Raises:
            FormulaError: It uses another.
        """
        check_names(self.text, self.names, known)

    def value(self, values: Mapping[str, Value]) -> Value:
        """Tell what it gives with these values of its names.

        Raises:
            FormulaError: A name is unknown, or it has no value, as a division by zero.
        """
        try:
            return Evaluation(self.text).visit(self._node, Scope(values))
        except RecursionError:
            raise FormulaError(f"The formula {self.text!r} must be less deeply nested.") from None

    def column(self, values: Mapping[str, Value], rows: int) -> NDArray[Any]:
        """Return ``(rows,)`` numbers.

        Raises:
            FormulaError: As ``value``; or it gives no numbers.
        """
        found = self.value(values)
        column = np.asarray(None if isinstance(found, list) else found)
        if column.dtype.kind not in "biuf" or column.ndim > 1:
            raise FormulaError(
                f"The formula {self.text!r} must give a number, but gives {shorten(repr(found))}."
            )
        return np.broadcast_to(column, (rows,))

    def mask(self, values: Mapping[str, Value], rows: int) -> NDArray[np.bool_]:
        """Return ``(rows,)`` whether it holds.

        Raises:
            FormulaError: As ``value``.
        """
        return np.broadcast_to(np.asarray(to_truth(self.value(values))), (rows,))

    def whole_number(self, values: Mapping[str, Value]) -> int:
        """Return the whole number that it gives where no name is a column.

        Raises:
            FormulaError: As ``value``; or it gives something else.
        """
        found = to_plain(self.value(values))
        if not isinstance(found, int | float) or not isfinite(found) or found != int(found):
            raise FormulaError(
                f"The formula {self.text!r} must give a whole number, but it gives {shorten(repr(found))}."
            )
        return int(found)


def all_hold(formulas: Sequence[Formula], values: Mapping[str, Value], rows: int) -> NDArray[np.bool_]:
    """Return ``(rows,)`` whether every formula holds."""
    masks = (formula.mask(values, rows) for formula in formulas)
    return reduce(np.logical_and, masks, np.ones(rows, dtype=bool))
