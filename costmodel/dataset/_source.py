"""What was read from one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
        repairs: What was read otherwise than it is written, or left out of what was read; how often.
        closed: Whether whoever wrote it came to the end.
    """

    path: Path
    measurements: Sequence[Measurement]
    rejects: Sequence[Reject] = ()
    configs: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    closed: bool = True
