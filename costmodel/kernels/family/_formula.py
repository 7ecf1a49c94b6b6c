"""Formulas of a description: Python expressions in text, over many configs at once.

They come from files of others, so that nothing of them reaches ``eval``: what is evaluated here are the nodes
below, and sizes are bounded, so that no text can hang or fill memory. A name stands for a number, a text, a
list, or a ``(n,)`` column with the value of each config; what Python would give for each config alone is what
a column gives at its row. As in Python ``and``, ``or``, ``if`` and chained comparisons look at their right
side only where they have to, so that ``tile == 0 or size % tile == 0`` divides by no zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import shorten
from costmodel.kernels.family._evaluation import Evaluation, Scope, Value
from costmodel.kernels.family._grammar import FormulaError, check_names, free_names, parse
from costmodel.kernels.family._operators import plain, truth


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
        """What it gives with these values of its names.

        Raises:
            FormulaError: A name is unknown, or it has no value, as a division by zero.
        """
        try:
            return Evaluation(self.text).visit(self._node, Scope(values))
        except RecursionError:
            raise FormulaError(f"The formula {self.text!r} must be less deeply nested.") from None

    def column(self, values: Mapping[str, Value], rows: int) -> NDArray[Any]:
        """``(rows,)`` numbers.

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
        """``(rows,)`` whether it holds.

        Raises:
            FormulaError: As ``value``.
        """
        return np.broadcast_to(np.asarray(truth(self.value(values))), (rows,))

    def whole_number(self, values: Mapping[str, Value]) -> int:
        """The whole number that it gives where no name is a column.

        Raises:
            FormulaError: As ``value``; or it gives something else.
        """
        found = plain(self.value(values))
        if not isinstance(found, int | float) or not isfinite(found) or found != int(found):
            raise FormulaError(
                f"The formula {self.text!r} must give a whole number, but it gives {shorten(repr(found))}."
            )
        return int(found)


def all_hold(formulas: Sequence[Formula], values: Mapping[str, Value], rows: int) -> NDArray[np.bool_]:
    """``(rows,)`` whether every formula holds."""
    masks = (formula.mask(values, rows) for formula in formulas)
    return reduce(np.logical_and, masks, np.ones(rows, dtype=bool))
