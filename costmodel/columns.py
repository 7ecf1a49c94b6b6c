"""Meaning of the columns of a feature table, and how a learner selects them.

The code that builds a table gives each column a group and tags. Learners select columns by these, never by
name or position. An unknown group or tag is an error; a table without a column of a known one is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Group = Literal["workload", "platform", "config", "launch"]
Tag = Literal[
    "lower_bound",  # log2 of a lower bound on the latency in seconds
    "component_time",  # log2 of the time of one resource over that bound
    "launches",  # kernels that are launched one after the other
    "sms",  # grows with the SMs granted
    "kernel",  # of group launch, and the same on every platform
    "any_sms",  # of groups platform and launch, and the same on any number of SMs of a device
    "machine",  # of group platform, and the same for every workload: tells platforms apart
    "interval",  # SM budget, device and family of kernels, by which intervals are calibrated
    "device",  # of group platform: tells devices apart on any number of their SMs
    "architecture",  # of group platform: what an SM holds, the same for all devices of an architecture
]

_GROUPS, _TAGS = frozenset(get_args(Group)), frozenset(get_args(Tag))


@dataclass(frozen=True)
class Column:
    """One column of a feature table.

    Attributes:
        name: Short unique name.
        unit: Unit of the number; "1" for a ratio or count, "log2(...)" for a logarithm.
        group: What it describes. ``workload`` and ``platform`` columns are constant within a task, ``config``
            and ``launch`` columns are not.
        tags: What learners may use it for.
    """

    name: str
    unit: str
    group: Group
    tags: frozenset[Tag] = frozenset()

    def __post_init__(self) -> None:
        """Refuse what no learner would ever find.

        Raises:
            ValueError: The group or a tag is unknown.
        """
        _check({self.group}, _GROUPS)
        _check(self.tags, _TAGS)


def positions(columns: Sequence[Column], *groups: Group, tags: Sequence[Tag] = ()) -> tuple[int, ...]:
    """Return the ascending positions of the columns with any of these groups or tags; there may be none.

    Raises:
        ValueError: If a group or a tag is unknown.
    """
    _check(groups, _GROUPS)
    _check(tags, _TAGS)
    return tuple(
        i for i, each in enumerate(columns) if each.group in groups or not each.tags.isdisjoint(tags)
    )


def position(columns: Sequence[Column], tag: Tag) -> int:
    """Return the position of the one column with this tag.

    Raises:
        ValueError: If the tag is unknown, or no column or several columns have it.
    """
    found = positions(columns, tags=(tag,))
    if len(found) != 1:
        raise ValueError(f"one column must be tagged {tag!r}, but {len(found)} of {len(columns)} are")
    return found[0]


def _check(given: Sequence[str] | set[str] | frozenset[str], known: frozenset[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"groups and tags of columns must be among {sorted(known)}, but got {unknown}")
