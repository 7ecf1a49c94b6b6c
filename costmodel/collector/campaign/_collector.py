"""What a campaign needs: something that measures, and something that chooses what to measure."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from costmodel.collector.runners._base import Request
from costmodel.kernels._base import KernelSource
from costmodel.kernels._design_space import sample_from_starts
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Isolation, Platform, TargetKind
from costmodel.records._workload import Workload


class Collector(Protocol):
    """A runner that can also draw candidates: ``CudaRunner`` and ``CpuRunner`` are such."""

    def platform(self, sms: int | None = None, isolation: Isolation | None = None) -> Platform:
        """See ``DeviceRunner.platform``."""
        ...

    def submit(self, requests: Sequence[Request]) -> Future[list[Measurement]]:
        """See ``DeviceRunner.submit``."""
        ...

    def draw(
        self,
        function: Callable[..., list[Candidate]],
        workload: Workload,
        count: int,
        seed: int,
        **options: Any,
    ) -> Future[list[Candidate]]:
        """See ``DeviceRunner.draw``. The future raises ``WorkerDiedError`` if the process died that drew."""
        ...


class Draw(Protocol):
    """Chooses what to measure next; called in another process."""

    def __call__(  # noqa: PLR0913 (a worker's job says everything it needs)
        self,
        workload: Workload,
        kind: TargetKind,
        count: int,
        seed: int,
        *,
        measured: Sequence[Measurement],
        budgets: Sequence[int],
        source: KernelSource,
    ) -> list[Candidate]:
        """Draw candidates that were not measured.

        Args:
            workload: What they compute.
            kind: Kind of device.
            count: How many; fewer come back where the space has no more.
            seed: Seed.
            measured: First visits of this workload's kernels of this source so far.
            budgets: SM budgets for which fast kernels are sought.
            source: Where kernels come from.
        """
        ...


def draw_at_random(  # noqa: PLR0913, PLR0917 (as ``Draw`` has it)
    workload: Workload,
    kind: TargetKind,
    count: int,
    seed: int,
    measured: Sequence[Measurement],
    budgets: Sequence[int],
    source: KernelSource,
) -> list[Candidate]:
    """A ``Draw`` that learns nothing: what an author would take first, then at random."""
    known = list({m.candidate.candidate_id: m.candidate for m in measured}.values())
    return sample_from_starts(source.space(workload, kind), count, seed, known=known)
