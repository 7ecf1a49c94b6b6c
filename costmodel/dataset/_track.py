"""Progress reports of long work."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Track(Protocol):
    """Shows on a terminal how far a loop is."""

    def __call__(self, items: Iterable[T], what: str, total: int, /) -> Iterable[T]:
        """The items, one by one.

        Args:
            items: What is gone through.
            what: What is done with them.
            total: About how many there are.
        """
        ...


def untracked(items: Iterable[T], what: str, total: int, /) -> Iterable[T]:
    """The items; nothing is shown."""
    return items
