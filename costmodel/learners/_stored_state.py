"""Learned state out of a file that nobody vouches for: each value is checked when it is taken."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray

# A length, or a letter for one that other arrays of the state share.
Length: TypeAlias = int | str


class StoredState:
    """The state of a learner, of which each value is taken by its kind and shape.

    Code that runs on a state must be able to rely on it: an index out of range, or arrays whose lengths
    disagree, end in an IndexError long after the file was read or, in native code, in the end of the process.

    A letter stands for a length. The first array that has it decides, and all others must agree:

    >>> stored = StoredState({"weights": np.ones(3), "rows": np.ones((3, 2))})
    >>> stored.floats("weights", "n").shape, stored.floats("rows", "n", "d").shape, stored.length("d")
    ((3,), (3, 2), 2)

    Args:
        state: What ``Storable.state`` gave, or what a file says that it gave.
        lengths: Lengths that are known already, by letter.
    """

    def __init__(self, state: Mapping[str, Any], lengths: Mapping[str, int] | None = None) -> None:
        _require(isinstance(state, Mapping), "its parts must be tables of values")
        self._state = state
        self._lengths = dict(lengths or {})

    def __contains__(self, name: str) -> bool:
        return name in self._state

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def length(self, letter: str) -> int:
        """Return the length that this letter stands for, once an array has decided it."""
        return self._lengths[letter]

    def part(self, name: str) -> dict[str, Any]:
        """Return the state of a part."""
        part = self._state[name]
        _require(isinstance(part, dict), f"{name} must be a table of values")
        return dict(part)

    def count(self, name: str) -> int:
        """Return a whole number, at least 0."""
        value = self._state[name]
        _require(isinstance(value, int) and value >= 0, f"{name} must be a whole number, at least 0")
        return int(value)

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self._state[name]
        _require(isinstance(value, int | float) and math.isfinite(value), f"{name} must be a finite number")
        return float(value)

    def bytes(self, name: str) -> bytes:
        """Return bytes, which are for others to check."""
        value = self._state[name]
        _require(isinstance(value, bytes), f"{name} must be bytes")
        return bytes(value)

    def floats(self, name: str, *shape: Length, missing: bool = False, infinite: bool = False) -> FloatArray:
        """Return an array of floats.

        Args:
            name: Its name.
            shape: Its shape.
            missing: Whether it may hold NaN.
            infinite: Whether it may hold infinities.
        """
        values = self._array(name, "f", shape)
        _require(missing or not np.isnan(values).any(), f"{name} must not hold NaN")
        _require(infinite or not np.isinf(values).any(), f"{name} must be finite")
        return values

    def integers(self, name: str, *shape: Length, low: int, below: Length) -> NDArray[Any]:
        """Return an array of whole numbers in ``[low, below)``."""
        values = self._array(name, "iu", shape)
        end = self._lengths[below] if isinstance(below, str) else below
        _require(
            not values.size or (values.min() >= low and values.max() < end),
            f"{name} must lie between {low} and {end - 1}",
        )
        return values

    def flags(self, name: str, *shape: Length) -> NDArray[np.bool_]:
        """Return an array of truth values."""
        return self._array(name, "b", shape)

    def _array(self, name: str, kinds: str, shape: tuple[Length, ...]) -> NDArray[Any]:
        values = self._state[name]
        _require(isinstance(values, np.ndarray), f"{name} must be an array")
        _require(values.dtype.kind in kinds, f"{name} must not be of type {values.dtype}")
        _require(values.ndim == len(shape), f"{name} must have {len(shape)} dimensions, not {values.ndim}")
        for length, has in zip(shape, values.shape, strict=True):
            expected = self._lengths.setdefault(length, has) if isinstance(length, str) else length
            _require(has == expected, f"{name} must have length {expected}, but has {has}")
        return np.asarray(values)


def check_positions(width: int, *positions: int | None) -> None:
    """Raise ValueError unless all positions of columns, None for no column, are within a width."""
    _require(
        all(at is None or 0 <= at < width for at in positions),
        f"columns must be at positions below {width}, but are at {positions}",
    )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"in the learned state, {what}")
