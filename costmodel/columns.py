"""The columns of a feature table, and how a learner finds the columns that it needs.

The builder of a table gives each column a group and tags. Learners select columns by group and tag, never by
name or position. An unknown group or tag is an error; a table without columns of a known one is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Group = Literal["workload", "platform", "config", "launch", "ir", "compiled"]
Tag = Literal[
    "lower_bound",  # log2 of a lower bound on the latency in seconds
    "component_time",  # log2 of the time of one resource over that bound
    "launches",  # number of kernels launched one after another
    "sms",  # grows with the SMs granted
    "kernel",  # of group launch, and the same on every platform
    "any_sms",  # of groups platform and launch, and the same on any number of SMs of a device
    "machine",  # of group platform, and the same for every workload: identifies a platform
    "interval",  # SM budget, device and family of kernels, by which intervals are calibrated
    "device",  # of group platform: identifies a device on any number of its SMs
    "architecture",  # of group platform: what an SM holds, the same for all devices of an architecture
]

_GROUPS, _TAGS = frozenset(get_args(Group)), frozenset(get_args(Tag))


@dataclass(frozen=True)
class Column:
    """One column of a feature table.

    Attributes:
        name: Short unique name.
        unit: Unit of the number; "1" for a ratio or count, "log2(...)" for a logarithm.
        group: What the column describes. ``workload`` and ``platform`` columns are constant within a task,
            ``config`` and ``launch`` columns are not.
        tags: What learners may use the column for. Default: no tags.
    """

    name: str
    unit: str
    group: Group
    tags: frozenset[Tag] = frozenset()

    def __post_init__(self) -> None:
        """Reject a group or tag that no learner would find.

        Raises:
            ValueError: The group or a tag is unknown.
        """
        _check({self.group}, _GROUPS)
        _check(self.tags, _TAGS)


def positions(columns: Sequence[Column], *groups: Group, tags: Sequence[Tag] = ()) -> tuple[int, ...]:
    """Return the ascending positions of columns with any of these groups or tags; empty if there are none.

    Raises:
        ValueError: A group or a tag is unknown.
    """
    _check(groups, _GROUPS)
    _check(tags, _TAGS)
    return tuple(
        i for i, each in enumerate(columns) if each.group in groups or not each.tags.isdisjoint(tags)
    )


def position(columns: Sequence[Column], tag: Tag) -> int:
    """Return the position of the only column with this tag.

    Raises:
        ValueError: The tag is unknown, or not exactly one column has it.
    """
    found = positions(columns, tags=(tag,))
    if len(found) != 1:
        raise ValueError(f"one column must be tagged {tag!r}, but {len(found)} of {len(columns)} are")
    return found[0]


def _check(given: Sequence[str] | set[str] | frozenset[str], known: frozenset[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"groups and tags of columns must be among {sorted(known)}, but got {unknown}")
