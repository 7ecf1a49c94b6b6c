"""Rows of which a GPU decides: what is expected to be the fastest, timed beside the framework's default."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._devices import CudaRunner
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels._design_space import DesignSpace
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Outcome
from costmodel.records._platform import Device
from costmodel.serving._kernel import Kernel, Row

_SLOWER = 1.01  # times as long as a row the default must take, both times that they are timed
_GROUPS = (64, 32, 16, 8, 1)


class TimedRow(NamedTuple):
    """A row that was timed beside the default.

    Attributes:
        config: The row; the default's where no other was surely faster.
        gain: Seconds of the default over those of the row when both were timed again, and the lesser and the
            greater of this ratio and the first.
    """

    config: Row
    gain: tuple[float, float, float]


class _Entry(NamedTuple):
    row: Row
    candidates: tuple[Candidate, ...]


class RowTimer:
    """Times rows on the GPU that they are for.

    Args:
        runner: What times them.
        device: The GPU.
        sms: SMs that kernels will have. Default: all.
        timings: Rows that are timed of each number of tokens.

    Raises:
        CostModelError: The runner has another GPU, or cannot grant so many SMs.
    """

    def __init__(self, runner: Runner, device: Device, sms: int | None, timings: int) -> None:
        self._runner, self._timings = runner, timings
        self._platform = runner.platform(sms)
        if self._platform.device.name != device.name:
            raise CostModelError(
                f"Rows must be timed on the GPU that they are for, but that is {device.name} and this is "
                f"{self._platform.device.name}. Run it there, or leave timings out."
            )

    def choose(self, kernel: Kernel, offered: Mapping[int, Sequence[Row]]) -> dict[int, TimedRow]:
        """Return the fastest row of each number of tokens whose default can be timed.

        Args:
            kernel: What for; a kernel of our own stands for it.
            offered: The default of each number of tokens, then other rows, the most promising first.
        """
        entries = {tokens: self._entries(kernel, tokens, rows) for tokens, rows in offered.items()}
        promising = [entry for each in entries.values() for entry in each]
        self._runner.prefetch([each for entry in promising for each in entry.candidates])
        found = {tokens: self._fastest(each) for tokens, each in entries.items() if each}
        return {tokens: row for tokens, row in found.items() if row}

    def _entries(self, kernel: Kernel, tokens: int, rows: Sequence[Row]) -> list[_Entry]:
        """The first rows of which there are kernels; none where there is none of the default."""
        found: dict[tuple[str, ...], _Entry] = {}
        with suppress(CostModelError):  # no kernel has these sizes
            spaces = [TritonSource().space(each, "cuda") for each in kernel.workloads(tokens)]
            for row in rows:
                candidates = tuple(filter(None, (candidate_of(space, row) for space in spaces)))
                if len(candidates) == len(spaces):
                    found.setdefault(tuple(each.candidate_id for each in candidates), _Entry(row, candidates))
                elif not found:
                    break
                if len(found) == self._timings:
                    break
        return [*found.values()]

    def _fastest(self, entries: Sequence[_Entry]) -> TimedRow | None:
        default, seconds = entries[0], self._seconds(entries)
        best = int(np.argmin(seconds))
        if not np.isfinite(seconds[0]):
            return None
        if best:
            again = self._seconds([default, entries[best]], visit=1)
            first, second = float(seconds[0] / seconds[best]), float(again[0] / again[1])
            if min(first, second) > _SLOWER and np.isfinite(second):
                return TimedRow(entries[best].row, (second, min(first, second), max(first, second)))
        return TimedRow(default.row, (1.0, 1.0, 1.0))

    def _seconds(self, entries: Sequence[_Entry], visit: int = 0) -> FloatArray:
        """Return ``(n,)`` seconds of all products of each row; infinite where one failed."""
        total = np.zeros(len(entries))
        for candidates in zip(*(entry.candidates for entry in entries), strict=True):
            measured = self._runner.measure(candidates, self._platform, visit=visit)
            total += [each.latency_s if each.outcome is Outcome.OK else np.inf for each in measured]
        return total


def candidate_of(space: DesignSpace, row: Row) -> Candidate | None:
    """Return the candidate of a row, with a smaller group where tiles are few; None if there is none."""
    decisions = {name.replace("_SIZE", ""): value for name, value in row.items()}
    for group in _GROUPS:
        if group <= decisions["GROUP_M"]:
            with suppress(InvalidConfigError):
                return space.candidate(Config({**decisions, "GROUP_M": group}))
    return None


@contextmanager
def open_timer(device: Device, sms: int | None, timings: int, on: Runner | None) -> Iterator[RowTimer]:
    """Open what times rows.

    Args:
        device: The GPU that they are for.
        sms: SMs that kernels will have. Default: all.
        timings: Rows that are timed of each number of tokens.
        on: What times them. Default: the first GPU of this machine.
    """
    if on:
        yield RowTimer(on, device, sms, timings)
    else:
        with CudaRunner(sources=[TritonSource()]) as runner:
            yield RowTimer(runner, device, sms, timings)
