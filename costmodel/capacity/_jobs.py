"""Jobs that share builders and GPUs, as processes of a simulation."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.random import Generator as Random

from costmodel.capacity._times import StageTimes, drawn
from costmodel.search._batch import batches_in_flight

if TYPE_CHECKING:
    from simpy import Container, Event

    from costmodel.capacity._machines import KernelWork, Machines, Process


@dataclass(frozen=True)
class Tune:
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
        (start_s,), propose_s = drawn(times.start_s, 1, rng), drawn(times.propose_s, self.trials, rng)
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
class Campaign:
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
