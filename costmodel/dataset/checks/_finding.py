"""A finding: something about files of measurements that the reader should know before learning from them."""

from enum import StrEnum

import msgspec

MOST_EXAMPLES = 3


class Severity(StrEnum):
    """How bad it is, the worst first.

    An error enters the dataset and would teach what is not so; a warning is something that is missing or was
    left out; a note is something that was understood and set right.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True):
    """What is wrong or worth knowing.

    Attributes:
        kind: Family, such as ``unit`` or ``partial space``.
        severity: How bad it is.
        concerns: File, device or workload, or several of them.
        count: How many entries, configs, records or tasks; the message says which.
        message: What must hold, what was found, what to do.
        examples: A few of those that are counted.
    """

    kind: str
    severity: Severity
    concerns: str
    count: int
    message: str
    examples: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, str, str]:
        """Sort key: the worst first, then by kind and what it concerns."""
        return list(Severity).index(self.severity), self.kind, self.concerns


def some(texts: list[str]) -> tuple[str, ...]:
    """The first few as examples."""
    return tuple(texts[:MOST_EXAMPLES])
