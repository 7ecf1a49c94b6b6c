"""Objects that repeat, looked at once."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def distinct(objects: Sequence[T]) -> tuple[list[T], NDArray[np.intp]]:
    """The distinct objects by identity in order of appearance, and each row's position among them."""
    position: dict[int, int] = {}
    row = [position.setdefault(id(item), len(position)) for item in objects]
    first = dict(zip(reversed(row), reversed(objects), strict=True))
    return [first[i] for i in range(len(position))], np.array(row, dtype=np.intp)
