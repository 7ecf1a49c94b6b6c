"""CUDA graphs of a network on parts of a GPU, timed in turns."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any, Protocol

import torch
from parts import GpuParts

from costmodel.integrations.inductor._timer import elapsed_ms

_ROUND_S, _MOST_REPLAYS = 2e-3, 50

Replay = Callable[[], Any]


class Graphs(Protocol):
    """Where networks run.

    Attributes:
        device: Its name.
        granted: SMs of each part, the whole device last.
    """

    device: str
    granted: Sequence[int]

    def enter(self, sms: int) -> AbstractContextManager[Any]:
        """Let what is launched run on a part."""
        ...

    def capture(self, sms: int, run: Replay) -> Replay:
        """Return something that runs the same on a part, as a graph."""
        ...

    def time(self, sms: int, replays: Mapping[str, Replay], rounds: int) -> dict[str, float]:
        """Return the median seconds of each on a part, all of them in turns."""
        ...

    def wait(self) -> None:
        """Wait for what was launched."""
        ...


class GpuGraphs(GpuParts):
    """Graphs on parts of the first GPU, with whatever L2 holds."""

    def __init__(self, sms: Sequence[int]) -> None:
        super().__init__(sms)
        self.device = torch.cuda.get_device_name()

    def capture(self, sms: int, run: Replay) -> Replay:
        with self.enter(sms):
            for _ in range(3):
                run()
            self.wait()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._streams[sms], capture_error_mode="relaxed"):
                kept = run()
            graph.replay()
            self.wait()
        return lambda: (graph.replay(), kept)[0]

    def time(self, sms: int, replays: Mapping[str, Replay], rounds: int) -> dict[str, float]:
        with self.enter(sms):
            once = {name: self._seconds(replay, 1) for name, replay in replays.items()}
            runs = {
                name: min(_MOST_REPLAYS, max(1, math.ceil(_ROUND_S / each))) for name, each in once.items()
            }
            times: dict[str, list[float]] = {name: [] for name in replays}
            for _ in range(rounds):
                for name, replay in replays.items():
                    times[name].append(self._seconds(replay, runs[name]))
        return {name: median(each) for name, each in times.items()}

    def _seconds(self, replay: Replay, runs: int) -> float:
        def run() -> None:
            for _ in range(runs):
                replay()

        replay()
        return elapsed_ms(run) * 1e-3 / runs


class CpuGraphs:
    """This CPU, as if it had parts, to rehearse the experiment."""

    device = "cpu"

    def __init__(self, sms: Sequence[int]) -> None:
        self.granted = tuple(sms)

    def enter(self, sms: int) -> AbstractContextManager[Any]:
        return nullcontext(sms)

    def capture(self, sms: int, run: Replay) -> Replay:
        del sms
        return run

    def time(self, sms: int, replays: Mapping[str, Replay], rounds: int) -> dict[str, float]:
        del sms
        times: dict[str, list[float]] = {name: [] for name in replays}
        for _ in range(rounds):
            for name, replay in replays.items():
                start = time.perf_counter()
                replay()
                times[name].append(time.perf_counter() - start)
        return {name: median(each) for name, each in times.items()}

    def wait(self) -> None:
        """Everything is done when it returns."""
