"""A finding: something about files of measurements that the reader should know before learning from them."""

from enum import StrEnum

import msgspec

MOST_EXAMPLES = 3


class Severity(StrEnum):
    """Severity of a finding, from the most to the least severe.

    An error would enter the dataset and teach something false. A warning means that something is missing or
    was left out. A note means that something was recognised and corrected.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong with a file, or worth knowing about it.

    Attributes:
        kind: Kind of finding, such as ``unit`` or ``partial space``.
        severity: How severe the finding is.
        concerns: The file, device or workload concerned; there may be several.
        count: Number of entries, configs, records or tasks; the message says which.
        message: What must hold, what was found, and what to do.
        examples: A few of those counted.
    """

    kind: str
    severity: Severity
    concerns: str
    count: int
    message: str
    examples: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, str, str]:
        """Return the sort key: severity (the most severe first), then kind and what is concerned."""
        return list(Severity).index(self.severity), self.kind, self.concerns


def some(texts: list[str]) -> tuple[str, ...]:
    """The first few as examples."""
    return tuple(texts[:MOST_EXAMPLES])
