"""How long the stages of tuning take, as they were measured, and what tunes and campaigns take of them."""

from collections import deque
from dataclasses import dataclass
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.random import Generator as Random

from costmodel.errors import CostModelError, did_you_mean
from costmodel.reading import is_file, read_json
from costmodel.search._search import batches_in_flight

if TYPE_CHECKING:
    from simpy import Container, Event

    from costmodel.service._machines import KernelWork, Machines, Process


_SHIPPED = "times"


class StageTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Measured seconds of each stage of tuning. A simulation draws from these and invents none.

    Attributes:
        source: Where and how the times were measured.
        build_s: Seconds of a builder core per kernel, with all cores of its machine busy.
        measure_s: Seconds of a device per kernel, loading and checking included.
        propose_s: Seconds in which a tune learns from a batch and proposes another.
        start_s: Seconds until a tune proposes its first batch.
        engine_s: Seconds of the engine per job. It handles one job at a time.
        lane_slowdown: By number of kernels measured at once on one device, the latency of a kernel divided by
            its latency alone.
    """

    source: str
    build_s: tuple[float, ...]
    measure_s: tuple[float, ...]
    propose_s: tuple[float, ...] = (0.0,)
    start_s: tuple[float, ...] = (0.0,)
    engine_s: tuple[float, ...] = (0.0,)
    lane_slowdown: dict[int, float] = {}

    def __post_init__(self) -> None:
        """Check what the types cannot say, also when a file is decode_job."""
        for name in ("build_s", "measure_s", "propose_s", "start_s", "engine_s"):
            seconds: tuple[float, ...] = getattr(self, name)
            if not seconds or not all(isfinite(each) and each >= 0.0 for each in seconds):
                raise ValueError(f"{name} must be one or more finite numbers of at least 0")
        if not all(lanes > 1 and slowdown >= 1.0 for lanes, slowdown in self.lane_slowdown.items()):
            raise ValueError(f"lane_slowdown must be 1 or more for 2 lanes or more, got {self.lane_slowdown}")

    def slowdown(self, lanes: int) -> float:
        """Return the slowdown of a kernel next to those in the other lanes of its device.

        Raises:
            CostModelError: If it was not measured.
        """
        known = {1: 1.0, **self.lane_slowdown}
        if lanes not in known:
            raise CostModelError(
                f"Lanes of a device must be a number that was measured, {sorted(known)}, but got {lanes}. "
                "Measure how much kernels slow each other down, and add it to lane_slowdown."
            )
        return known[lanes]

    def per_second(self, builders: int, gpus: int, lanes: int = 1) -> dict[str, float]:
        """Return each part's maximum kernels per second, by its name; infinite if it takes no time."""
        parts: dict[str, tuple[float, Any]] = {
            "builders": (builders, self.build_s),
            "GPUs": (gpus * lanes / self.slowdown(lanes), self.measure_s),
            "engine": (1, self.engine_s),
        }
        means = {name: (count, float(np.mean(seconds))) for name, (count, seconds) in parts.items()}
        return {name: count / mean if mean else float("inf") for name, (count, mean) in means.items()}


def load_times(file: Path | str) -> StageTimes:
    """Load times from the path of a JSON file, or by the name of shipped times: ``h100`` or ``cpu``.

    Raises:
        CostModelError: If there is no such file, or it does not contain times.
    """
    folder = files("costmodel.service") / _SHIPPED
    shipped = {Path(each.name).stem: each for each in folder.iterdir()}
    found = shipped.get(str(file)) or Path(file)
    if not is_file(str(found)):
        raise CostModelError(
            f"Times must be a JSON file, or one of {', '.join(sorted(shipped))}, but there is no {file}."
            f"{did_you_mean(str(file), shipped)}"
        )
    return read_json(str(found), StageTimes, "measured times of the stages of tuning")


def draw_seconds(seconds: tuple[float, ...], count: int, rng: np.random.Generator) -> list[float]:
    """Draw so many of the measured seconds, with replacement."""
    return [float(each) for each in rng.choice(seconds, count)]


@dataclass(frozen=True)
class TuneWork:
    """A tune: batches are proposed, built, measured on one GPU, and learned from.

    Attributes:
        trials: Number of kernels to measure.
        batch: Number of kernels proposed at once. Default: as in ``costmodel.search.Search`` when it has all
            builders.
        batches: Number of batches in flight; with two, one is built while the other is measured. Default: as
            in ``Search``.
    """

    trials: int = 128
    batch: int | None = None
    batches: int | None = None

    @property
    def kernels(self) -> int:
        """Number of kernels that are measured."""
        return self.trials

    def run(self, machines: "Machines", times: StageTimes, rng: Random) -> "Process":
        """Make all trials."""
        env, gpu = machines.env, machines.next_gpu()
        batch, batches = batches_in_flight(1 + machines.places["builders"], self.trials, self.batch)
        (start_s,), propose_s = (
            draw_seconds(times.start_s, 1, rng),
            draw_seconds(times.propose_s, self.trials, rng),
        )
        left = machines.work(self.trials, rng)
        in_flight: deque[list[tuple[KernelWork, Event]]] = deque()
        yield env.timeout(start_s)  # with the first proposal in it
        for proposal in range(-(-self.trials // batch)):
            if proposal:
                yield env.timeout(propose_s[proposal])
            proposed, left = left[:batch], left[batch:]
            in_flight.append([(work, env.process(machines.build(work))) for work in proposed])
            if len(in_flight) == (self.batches or batches):
                yield self._measured(machines, gpu, in_flight.popleft())
        for built in in_flight:
            yield self._measured(machines, gpu, built)

    @staticmethod
    def _measured(machines: "Machines", gpu: "Container", batch: "list[tuple[KernelWork, Event]]") -> "Event":
        """When a batch is measured, each of its kernels as soon as it is built."""
        env = machines.env
        return env.all_of([env.process(machines.measure([work], [built], gpu)) for work, built in batch])


@dataclass(frozen=True)
class CampaignWork:
    """A campaign. All kernels are known when it begins, and each workload has its GPU.

    Attributes:
        workloads: Number of workloads.
        kernels_each: Number of kernels of each workload.
        side_by_side: Number of kernels of a workload that are measured together, once all of them are built.
    """

    workloads: int = 8
    kernels_each: int = 128
    side_by_side: int = 8

    @property
    def kernels(self) -> int:
        """Number of kernels that are measured."""
        return self.workloads * self.kernels_each

    def run(self, machines: "Machines", times: StageTimes, rng: Random) -> "Process":
        """Build and measure all kernels."""
        del times  # nothing is proposed
        env, measured = machines.env, []
        for _ in range(self.workloads):
            gpu, kernels = machines.next_gpu(), machines.work(self.kernels_each, rng)
            for first in range(0, self.kernels_each, self.side_by_side):
                together = kernels[first : first + self.side_by_side]
                built = [env.process(machines.build(work)) for work in together]
                measured.append(env.process(machines.measure(together, built, gpu)))
        yield env.all_of(measured)
