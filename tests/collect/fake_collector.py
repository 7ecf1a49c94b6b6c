"""A collector that measures a formula in no time, with the same numbers in every process."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.collect import CampaignConfig, KernelPlan
from costmodel.collect._workers import WorkerDiedError
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Config, Device, Measurement, Outcome, Platform, Workload

DEVICE = Device("Fake GPU", "cuda", "sm_90", 132, 1980.0)
TILES = 2000
CONFIG = CampaignConfig(
    runner="cuda",
    workloads=("matmul-m32-n32-k32", "softmax-m64-n32", "layer_norm-m32-n64"),
    sms=(8, 64, 132),
    kernels=KernelPlan(random=10, rounds=2, per_round=5, parents=2, parents_at=(8, 132)),
    repeat_share=0.25,
)


class FakeCollector:
    """Draws tiles from 1 to 2000 and remembers what it is asked for.

    Args:
        seconds: How long each measurement takes.
        on_measure: Called before each measurement.
        dying_draws: Draws whose worker dies, by their number.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        on_measure: Callable[[str], None] = lambda _: None,
        dying_draws: Sequence[int] = (),
    ) -> None:
        self.seconds = seconds
        self.on_measure = on_measure
        self.dying_draws = dying_draws
        self.draws: list[tuple[str, int, dict[str, Any]]] = []
        self.prefetched: list[Candidate] = []
        self.measured: list[str] = []

    def platform(self, sms: int | None = None) -> Platform:
        sms = sms or DEVICE.sms
        if sms > DEVICE.sms:
            raise CostModelError(f"An SM budget must be from 1 to {DEVICE.sms}, but got {sms}.")
        return Platform(DEVICE, "whole" if sms == DEVICE.sms else "green_context", sms, sms)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        self.prefetched += candidates

    def sample(self, workload: Workload, count: int, seed: int, **options: Any) -> "Future[list[Candidate]]":
        """Random tiles, or tiles at most 9 away from a parent's."""
        self.draws.append((workload.name, count, options))
        rng = np.random.default_rng(seed)
        parents = [int(str(config.decisions["tile"])) for config in options["parents"]]
        known = {candidate.config.decisions["tile"] for candidate in options["known"]}
        near = [tile for p in parents for tile in range(max(1, p - 9), min(TILES, p + 9) + 1)]
        choices = sorted(set(near or range(1, TILES + 1)) - known)
        drawn = rng.choice(choices, min(count, len(choices)), replace=False)
        future: Future[list[Candidate]] = Future()
        if len(self.draws) in self.dying_draws:
            future.set_exception(WorkerDiedError("exit code -9"))
            return future
        future.set_result([Candidate(workload, "fake-1", Config({"tile": int(tile)})) for tile in drawn])
        return future

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        return [self._measure(candidate, platform, visit) for candidate in candidates]

    def _measure(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        """Every thirteenth tile fails; the best tile is that of ten times the SMs."""
        tile, sms = int(str(candidate.config.decisions["tile"])), platform.sms_granted
        ok = tile % 13 > 0
        measurement = Measurement(
            candidate=candidate,
            platform=platform,
            visit=visit,
            outcome=Outcome.OK if ok else Outcome.LAUNCH_ERROR,
            latencies_s=(1e-6 * (1 + abs(tile - 10 * sms)) * (1 + 0.01 * visit),) if ok else (),
            measured_at="2026-11-21T10:00:00+00:00",
            error="" if ok else "too many resources",
        )
        self.on_measure(measurement.key)
        self.measured.append(measurement.key)
        time.sleep(self.seconds)
        return measurement


def files(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
