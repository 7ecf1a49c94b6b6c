"""A program of a MetaSchedule database: each trace that schedules it is a candidate."""

import zlib
from dataclasses import dataclass
from typing import Any

from costmodel.dataset.importers.metaschedule._kernels import ForeignKernels, OurKernels
from costmodel.dataset.importers.metaschedule._trace import config_of_trace
from costmodel.records._candidate import SKETCH, Candidate, Config

# Records of a program whose traces are replayed to verify what was read: the first, and of all one in.
FIRST, ONE_IN = 3, 50


class ReplayDiffersError(Exception):
    """TVM applies other decisions than a trace says. The message says which."""


@dataclass
class Program:
    """A program, and how the traces that schedule it are read.

    Attributes:
        foreign: As a program of others.
        ours: As a workload of ours, where it is known as one.
        lower_foreign: Whether to lower each foreign trace, for what its kernels launch.
        lower_ours: Whether to lower each of ours.
        records: How many were read.
    """

    foreign: ForeignKernels
    ours: OurKernels | None
    lower_foreign: bool
    lower_ours: bool
    records: int = 0

    def candidate(self, trace: Any, line: bytes) -> Candidate:
        """The candidate of a trace: one of our space where it follows a sketch of that, else a foreign one.

        Args:
            trace: The trace in JSON.
            line: The record that it is in; the sample that is verified is chosen by it.

        Raises:
            EntryError: It is no trace.
            ReplayDiffersError: It is of the sample, and TVM applies other decisions.
        """
        named = config_of_trace(trace)  # also keeps what is no trace away from TVM
        self.records += 1
        is_sampled = self.records <= FIRST or zlib.crc32(line) % ONE_IN == 0
        config = self.ours.read(trace, named.decisions[SKETCH]) if self.ours else None
        if self.ours and config:
            if is_sampled:
                _check(config, self.ours.applied(trace))
            return self.ours.candidate(config, lower=self.lower_ours)
        if is_sampled:
            _check(named, self.foreign.applied(trace, named))
        return self.foreign.candidate(named, trace, lower=self.lower_foreign)


def _check(read: Config, applied: Config | None) -> None:
    """Raise an error where TVM applies something else than was read."""
    if applied is None:
        raise ReplayDiffersError("its instructions are those of a sketch, but TVM cannot apply them")
    one, other = read.decisions, applied.decisions
    if one != other:
        names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        raise ReplayDiffersError(
            "; ".join(f"{name} is {one.get(name)} there and {other.get(name)} once applied" for name in names)
        )
