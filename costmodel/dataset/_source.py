"""What was read from one file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from costmodel.dataset._validate import Reject
from costmodel.records import Measurement


@dataclass(frozen=True)
class Source:
    """What was read from one file.

    Attributes:
        path: The file.
        measurements: What can be believed so far.
        rejects: What cannot.
        configs: By name of a workload whose space the file claims to cover, the configs that it has.
    """

    path: Path
    measurements: Sequence[Measurement]
    rejects: Sequence[Reject] = ()
    configs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, path: Path, entries: Iterable[Measurement | Reject], configs: Mapping[str, int] | None = None
    ) -> Self:
        """Read all that an importer yields."""
        measurements: list[Measurement] = []
        rejects: list[Reject] = []
        for entry in entries:
            if isinstance(entry, Reject):
                rejects.append(entry)
            else:
                measurements.append(entry)
        return cls(path, measurements, rejects, configs or {})
