"""Errors in a trace, counted, and how they were handled."""

from collections import Counter
from dataclasses import dataclass, field

# What can be wrong, and what is done: nothing of it is believed.
RULES = {
    "truncated": "the file ends, or cannot be read, before its end: what stands before is used",
    "malformed": "an event without a name, track or fields that must be there: left out",
    "unreadable_time": "a start or duration that is missing or not a finite number: left out",
    "negative_duration": "left out",
    "clock_jump": "nothing runs for ten times as long as all else takes, and over a minute: cut out",
    "outlasts_successor": "it ends after the next task of its stream starts: ends there",
    "runs_inside_another": "it lies within another task of its stream, which ends where it starts",
    "crosses_on_thread": "a call ends after the call that made it: ends with it",
    "missing_launch": "a kernel or copy whose correlation no call has: waits for its stream alone",
    "graph_without_launch": "the same of kernels of a CUDA graph",
    "missing_kernel": "a launch whose correlation no kernel or copy has: kept as host work",
    "duplicate_correlation": "calls share one, or kernels outside of CUDA graphs do: the first has it",
    "dangling_flow": "an arrow between a call and a kernel of which one end is not there: left out",
    "starts_before_launch": "it waits for its launch all the same, and so starts later than recorded",
    "waits_in_circles": "waits of streams, threads or events that form a circle: left out",
    "waited_too_short": "a wait that ended before what it waited for: left out",
}


@dataclass(frozen=True)
class Inspection:
    """Contents of a trace, and what was wrong with it.

    Attributes:
        events: Number of events in the file.
        tasks: Number of tasks made from them.
        counts: Number of violations by rule of ``RULES``, for the rules that were violated.
        unknown: What is not wrong, but not known either, in sentences.
    """

    events: int
    tasks: int
    counts: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not self.counts

    def sentences(self) -> list[str]:
        """Return one sentence per finding, with its count and rule, followed by what is unknown."""
        found = [
            f"{count:,} x {name.replace('_', ' ')}: {RULES[name]}." for name, count in self.counts.items()
        ]
        return [*found, *self.unknown]


@dataclass
class Findings:
    """Counts while a trace is read."""

    counts: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)

    def add(self, name: str, count: int = 1) -> None:
        """Count what one of ``RULES`` names."""
        if name not in RULES:
            raise ValueError(f"findings must be among {sorted(RULES)}, but got {name!r}")
        if count:
            self.counts[name] += int(count)

    def inspection(self, events: int, tasks: int) -> Inspection:
        """What was found, in the order of ``RULES``."""
        counts = {name: self.counts[name] for name in RULES if name in self.counts}
        return Inspection(events, tasks, counts, tuple(self.unknown))
