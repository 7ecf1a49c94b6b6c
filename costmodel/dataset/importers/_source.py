"""What was read from one file, and what of it was not."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from costmodel.dataset.importers._spool import RecordSpool
from costmodel.records import Measurement


class Reject(msgspec.Struct, frozen=True):
    """A record that does not enter.

    Attributes:
        reason: What must hold and does not.
        record: The measurement; of a foreign file, the entry and where it is from.
    """

    reason: str
    record: Measurement | dict[str, Any]


@dataclass(frozen=True)
class Repair:
    """What an importer did not read as it is written.

    Attributes:
        reason: A clause.
        count: In how many entries.
    """

    reason: str
    count: int = 1


@dataclass(frozen=True)
class Source:
    """What was read from one file.

    Attributes:
        path: The file.
        measurements: What can be believed so far.
        rejects: What cannot.
        configs: By name of a workload whose space the file claims to cover, the configs that it has.
        repairs: What was read otherwise than it is written, or left out of what was read; how often.
        closed: Whether whoever wrote it came to the end.
    """

    path: Path
    measurements: RecordSpool
    rejects: Sequence[Reject] = ()
    configs: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    closed: bool = True

    @classmethod
    def of(
        cls,
        path: Path,
        entries: Iterable[Measurement | Reject | Repair],
        configs: Mapping[str, int] | None = None,
        *,
        closed: bool = True,
    ) -> Self:
        """Keep all that an importer yields."""
        measurements = RecordSpool()
        rejects: list[Reject] = []
        repairs = Counter[str]()
        for entry in entries:
            if isinstance(entry, Repair):
                repairs[entry.reason] += entry.count
            elif isinstance(entry, Reject):
                rejects.append(entry)
            else:
                measurements.append(entry)
        return cls(path, measurements, rejects, configs or {}, repairs, closed)
