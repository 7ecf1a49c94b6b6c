"""What does not enter: rows with reasons, which become objects where someone asks for them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from costmodel.dataset.importers import Reject
from costmodel.dataset.table import Records


class Rejects(Sequence[Reject]):
    """What does not enter: of each file, then of all together.

    Args:
        of_files: What their readers rejected.
    """

    def __init__(self, of_files: Sequence[Reject] = ()) -> None:
        self._of_files = of_files
        self._parts: list[tuple[Records, list[str]]] = []

    def add(self, records: Records, reasons: list[str]) -> None:
        """Add records, each with its reason."""
        if reasons:
            self._parts.append((records, reasons))

    def counts(self) -> Counter[str]:
        """How many there are of each reason."""
        counts = Counter(reject.reason for reject in self._of_files)
        for _, reasons in self._parts:
            counts.update(reasons)
        return counts

    @overload
    def __getitem__(self, position: int) -> Reject: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Reject, ...]: ...
    def __getitem__(self, position: int | slice) -> Reject | tuple[Reject, ...]:
        if isinstance(position, slice):
            return tuple(self)[position]
        return next(islice(self, range(len(self))[position], None))

    def __len__(self) -> int:
        return len(self._of_files) + sum(len(reasons) for _, reasons in self._parts)

    def __iter__(self) -> Iterator[Reject]:
        """Each of them, made one by one."""
        yield from self._of_files
        for records, reasons in self._parts:
            yield from map(Reject, reasons, records.measurements())
