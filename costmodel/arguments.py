"""Checks of what callers give, made before any work: a wrong seed must not end a search after an hour."""

from numbers import Integral, Real

from costmodel.errors import CostModelError, shorten

# What every generator of random numbers takes.
MOST_SEED = 2**32 - 1


def check_whole(name: str, value: object, least: int = 0, most: int = 2**31 - 1) -> int:
    """Check that an argument is a whole number in a range.

    Args:
        name: Name of the argument.
        value: What was given: an integer of Python or NumPy.
        least: The least that it may be.
        most: The most that it may be.

    Raises:
        CostModelError: It is not.

    Example:
        >>> check_whole("trials", 16, 1)
        16
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise CostModelError(
            f"{name} must be a whole number from {least:,} to {most:,}, but got {shorten(repr(value))}."
        )
    return int(value)


def check_seed(value: object) -> int:
    """Check that an argument is the seed of random draws; see ``check_whole``."""
    return check_whole("seed", value, 0, MOST_SEED)


def check_number(name: str, value: object, least: float = 0.0, most: float = 1e18) -> float:
    """Check that an argument is a finite number in a range; see ``check_whole``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) <= most:
        raise CostModelError(
            f"{name} must be a number from {least:g} to {most:g}, but got {shorten(repr(value))}."
        )
    return float(value)


def check_share(name: str, value: object) -> float:
    """Check that an argument is a share above 0 and below 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise CostModelError(f"{name} must be a share above 0 and below 1, but got {shorten(repr(value))}.")
    return float(value)
