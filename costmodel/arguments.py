"""Checks of what callers give, made before any work: a wrong seed must not end a search after an hour."""

from collections.abc import Iterable, Mapping
from math import inf
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any

from costmodel.errors import InvalidArgumentError, shorten

# What every generator of random numbers takes.
MOST_SEED = 2**32 - 1
# What fits an array of 32-bit integers.
MOST_COUNT = 2**31 - 1


def check_whole(name: str, value: object, least: int = 0, most: int = MOST_COUNT) -> int:
    """Check that an argument is a whole number in a range.

    Args:
        name: Name of the argument.
        value: What was given: an integer of Python or NumPy.
        least: The least that it may be.
        most: The most that it may be.

    Raises:
        InvalidArgumentError: It is not.

    Example:
        >>> check_whole("trials", 16, 1)
        16
    """
    if type(value) is int and least <= value <= most:  # what decoding a record asks for a dozen times
        return value
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        goes_without_saying = most == MOST_COUNT and not (isinstance(value, Integral) and int(value) > most)
        limits = f"of at least {least:,}" if goes_without_saying else f"from {least:,} to {most:,}"
        raise InvalidArgumentError(f"{name} must be a whole number {limits}, but got {shorten(repr(value))}.")
    return int(value)


def check_wholes(name: str, value: object, least: int = 0) -> tuple[int, ...]:
    """Check that an argument is a whole number, several, or None for none, and give them in a tuple."""
    return tuple(check_whole(name, each, least) for each in _values(value))


def check_seed(value: object) -> int:
    """Check that an argument is the seed of random draws; see ``check_whole``."""
    return check_whole("seed", value, 0, MOST_SEED)


def check_budgets(value: object) -> tuple[int, ...]:
    """Check that an argument is a number of SMs, several distinct ones, or None for the whole device.

    Returns:
        The numbers; none for the whole device.
    """
    budgets = check_wholes("sms", value, 1)
    if len(set(budgets)) < len(budgets):
        raise InvalidArgumentError(f"sms must be distinct numbers of SMs, but got {shorten(budgets)}.")
    return budgets


def check_kind(name: str, value: object, kind: type | UnionType, what: str) -> None:
    """Check that an argument is of a type.

    Args:
        name: Name of the argument.
        value: What was given.
        kind: The type, or several.
        what: What it must be, as a user would say it, such as ``a SearchSettings``.

    Raises:
        InvalidArgumentError: It is of another type.
    """
    if not isinstance(value, kind):
        raise InvalidArgumentError(f"{name} must be {what}, but got {shorten(repr(value))}.")


def check_items(name: str, value: Any, kind: type | UnionType, what: str) -> tuple[Any, ...]:
    """Check that an argument is several values of a type, in a list or the like, and give them in a tuple.

    Args:
        name: Name of the argument.
        value: What was given.
        kind: Type of each of the values.
        what: What they must be, as a user would say it, such as ``measurements``.

    Raises:
        InvalidArgumentError: It cannot be iterated, or something in it is of another type.
    """
    is_several = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    items = tuple(value) if is_several else (value,)
    wrong = [each for each in items if not isinstance(each, kind)]
    if wrong or not is_several:
        got = shorten(repr(wrong[0] if wrong else value))
        raise InvalidArgumentError(f"{name} must be a list of {what}, but got {got}.")
    return items


def check_texts(name: str, value: object) -> tuple[str, ...]:
    """Check that an argument is a name, several, or None for none, and give them in a tuple."""
    return tuple(check_text(name, each) for each in _values(value))


def check_text(name: str, value: object, most: int = 1000) -> str:
    """Check that an argument is a text of bounded length; see ``check_whole``."""
    if not isinstance(value, str) or len(value) > most or not is_text(value):
        raise InvalidArgumentError(
            f"{name} must be a text of at most {most:,} whole characters, but got {shorten(repr(value))}."
        )
    return value


def is_text(value: str) -> bool:
    """Tell whether UTF-8 can hold a text: one that was the name of a file may have halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_path(name: str, value: object) -> Path:
    """Check that an argument is a path, and give it as one; see ``check_whole``.

    Linux allows bytes in it that are no text, but Arrow, databases and records do not; NUL ends a name there.
    """
    if not isinstance(value, str | PathLike):
        raise InvalidArgumentError(f"{name} must be a path, but got {shorten(repr(value))}.")
    path = Path(value)
    if not is_text(str(path)) or "\0" in str(path):
        shown = shorten(repr(str(path)))
        raise InvalidArgumentError(
            f"{name} must be a path in UTF-8 and without null, but got {shown}: rename it."
        )
    return path


def check_paths(name: str, value: object) -> tuple[Path, ...]:
    """Check that an argument is a path, several, or None for none, and give them in a tuple."""
    return tuple(check_path(name, each) for each in _values(value))


def check_number(name: str, value: object, least: float = 0.0, most: float = 1e18) -> float:
    """Check that an argument is a finite number in a range; see ``check_whole``."""
    if type(value) is float and least <= value <= most:
        return value
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        limits = "" if least == -inf and most == inf else f" from {least:g} to {most:g}"
        raise InvalidArgumentError(f"{name} must be a number{limits}, but got {shorten(repr(value))}.")
    return float(value)  # type: ignore[arg-type]


def check_numbers(name: str, value: object) -> tuple[float, ...]:
    """Check that an argument is a finite number, several, or None for none, and give them in a tuple."""
    return tuple(check_number(name, each) for each in _values(value))


def check_share(name: str, value: object) -> float:
    """Check that an argument is a share above 0 and below 1."""
    if not 0.0 < check_number(name, value) < 1.0:
        raise InvalidArgumentError(f"{name} must be a share above 0 and below 1, but got {value}.")
    return float(value)  # type: ignore[arg-type]


def _values(value: object) -> tuple[object, ...]:
    """The values of an argument that is one, several, or None for none."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
