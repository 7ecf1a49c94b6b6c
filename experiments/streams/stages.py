"""Stages that are measured, as IOS finds them: see ``references.best_stages``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import monotonic
from typing import Any

from facts import forked
from references import Lines, best_stages
from runs import Captured, Program, Streams, captured, launched_in_s, seconds

from costmodel.planner.whatif._schedule import Kernels

# How often a stage follows itself in a CUDA graph, and how often that is timed.
_REPEATS, _ROUNDS = 8, 5


@dataclass
class MeasuredStages:
    """Finds the best stages of a network, and runs them.

    Attributes:
        program: The network.
        streams: Of the device.
        end: When measuring must be over, on the monotonic clock.
        values: What the nodes compute.
        measured: How many stages were measured.
    """

    program: Program
    streams: Streams
    end: float
    values: dict[str, Any] = field(init=False)
    measured: int = 0

    def __post_init__(self) -> None:
        self.values = self.program.run(self.program.in_turn, self.streams)

    def best(self, kernels: Kernels) -> list[list[list[str]]]:
        """Nodes of the groups of each stage.

        Raises:
            TimeoutError: The time is over.
        """
        names = [kernels.graph.scopes[scope] for scope in kernels.graph.scope_ids.tolist()]

        def named(lines: Lines) -> list[list[str]]:
            return [[names[task] for task in line] for line in lines]

        return [named(stage) for stage in best_stages(kernels, lambda lines: self.stage_s(named(lines)))]

    def stage_s(self, lines: Sequence[Sequence[str]]) -> float:
        """Measured seconds of a stage, with what it takes to begin the next."""
        if monotonic() > self.end:
            raise TimeoutError(f"The time was over after {self.measured} stages.")
        self.measured += 1
        if not self.streams.is_cuda:
            return self.once_s(lines, repeats=1, rounds=1)
        return self.once_s(lines, repeats=_REPEATS, rounds=_ROUNDS)

    def once_s(self, lines: Sequence[Sequence[str]], *, repeats: int, rounds: int) -> float:
        """The same for so many in a CUDA graph, in the median of so many launches."""
        way = self.captured([lines] * repeats)
        launch_s = launched_in_s(way.replay, self.streams)
        return median(seconds(way.replay, self.streams, launch_s) for _ in range(rounds)) / repeats

    def captured(self, stages: Sequence[Sequence[Sequence[str]]]) -> Captured:
        """Stages one after the other, the lines of each on a stream of their own."""

        def run_line(line: Sequence[str], values: dict[str, Any]) -> None:
            for name in line:
                values[name] = self.program.call(self.program.nodes[name], values)

        def run() -> dict[str, Any]:
            values = dict(self.values)
            for lines in stages:
                calls = [partial(run_line, line, values) for line in lines]
                if self.streams.is_cuda:
                    forked(self.streams, calls)
                else:
                    for call in calls:
                        call()
            return values

        return captured(run, self.streams)
