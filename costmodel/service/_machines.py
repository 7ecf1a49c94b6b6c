"""Builders, GPUs and the engine between them, as resources of a simulation."""

from collections.abc import Generator, Sequence
from itertools import count
from typing import Any, NamedTuple

import simpy
from numpy.random import Generator as Random

from costmodel.service._stage_times import StageTimes, draw_seconds

Process = Generator[simpy.Event, Any, None]


class KernelWork(NamedTuple):
    """What one kernel costs.

    Attributes:
        engine_s: Seconds of the engine.
        build_s: Seconds of a builder core.
        measure_s: Seconds of a GPU that measures nothing else.
    """

    engine_s: float
    build_s: float
    measure_s: float


class Machines:
    """What jobs share. Each part serves who came first.

    Args:
        times: How long everything takes.
        builders: Builder cores.
        gpus: GPUs.
        lanes: Kernels that a GPU measures at once.

    Attributes:
        env: Keeps the simulated time.
        builders: Builder cores.
        engine: Gives jobs to builders, one after the other.
        gpus: GPUs, each with its lanes.
        places: What builders, GPUs and engine can do at once.
        busy_s: Seconds that builders, GPUs and engine were taken, summed up.
    """

    def __init__(self, times: StageTimes, builders: int, gpus: int, lanes: int) -> None:
        self.env = simpy.Environment()
        # Containers of what is free: a Resource searches all of its users for the one that leaves.
        self.builders, self.engine = self._free(builders), self._free(1)
        self.gpus = [self._free(lanes) for _ in range(gpus)]
        self.places = {"builders": builders, "GPUs": lanes * gpus, "engine": 1}
        self.busy_s = dict.fromkeys(self.places, 0.0)
        self._times, self._slowdown = times, times.slowdown(lanes)
        self._tasks = count()

    def next_gpu(self) -> simpy.Container:
        """The GPU of another task: they take turns."""
        return self.gpus[next(self._tasks) % len(self.gpus)]

    def work(self, kernels: int, rng: Random) -> list[KernelWork]:
        """Draw what kernels cost beforehand, so that the same job is the same work on other machines."""
        times = self._times
        columns = [
            draw_seconds(each, kernels, rng) for each in (times.engine_s, times.build_s, times.measure_s)
        ]
        return [KernelWork(*row) for row in zip(*columns, strict=True)]

    def build(self, work: KernelWork) -> Process:
        """Have a kernel built."""
        yield from self._taken("engine", self.engine, work.engine_s)
        yield from self._taken("builders", self.builders, work.build_s)

    def measure(
        self, work: Sequence[KernelWork], built: Sequence[simpy.Event], gpu: simpy.Container
    ) -> Process:
        """Measure kernels together on a GPU, as soon as all are built."""
        yield self.env.all_of(built)
        yield from self._taken("GPUs", gpu, self._slowdown * sum(each.measure_s for each in work))

    def _taken(self, name: str, part: simpy.Container, seconds: float) -> Process:
        yield part.get(1)
        yield self.env.timeout(seconds)
        part.put(1)
        self.busy_s[name] += seconds

    def _free(self, places: int) -> simpy.Container:
        return simpy.Container(self.env, capacity=places, init=places)
