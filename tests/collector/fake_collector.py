"""A collector that measures a formula in no time, with the same numbers in every process."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from costmodel.collector import CampaignConfig
from costmodel.collector._engine import WorkerDiedError
from costmodel.collector.campaign._collector import draw_at_random
from costmodel.collector.campaign._config import KernelPlan
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.runners._base import Request
from costmodel.errors import CostModelError
from costmodel.records import (
    Candidate,
    Config,
    Device,
    Measurement,
    Outcome,
    Platform,
    Workload,
    read_records,
)
from costmodel.records._platform import Isolation

DEVICE = Device("Fake GPU", "cuda", "sm_90", 132, 1980.0)
TILES = 2000
CONFIG = CampaignConfig(
    runner="cuda",
    workloads=("matmul-m32-n32-k32", "softmax-m64-n32", "layer_norm-m32-n64"),
    sms=(8, 64, 132),
    kernels=KernelPlan(random=10, rounds=2, per_round=5, good_at=(8, 132)),
    repeat_share=0.25,
    side_by_side=4,
)


def tile_of(candidate: Candidate) -> int:
    return int(str(candidate.config.decisions["tile"]))


def draw_tiles(
    workload: Workload,
    kind: str,
    count: int,
    seed: int,
    *,
    measured: Sequence[Measurement],
    budgets: Sequence[int],
    source: object = None,
) -> list[Candidate]:
    """Tiles from 1 to 2000, later ones at most 9 away from the fastest at each budget.

    It depends on what was measured, not on the order in which that came.
    """
    known = {tile_of(m.candidate) for m in measured}
    near: set[int] = set()
    for sms in budgets:
        ran = [m for m in measured if m.platform.sms_requested == sms and m.outcome is Outcome.OK]
        if ran:
            best = tile_of(min(ran, key=lambda m: (m.latency_s, m.candidate.candidate_id)).candidate)
            near |= set(range(max(1, best - 9), min(TILES, best + 9) + 1))
    choices = sorted((near or set(range(1, TILES + 1))) - known)
    drawn = random.Random(seed).sample(choices, min(count, len(choices)))
    return [Candidate(workload, "metaschedule-fake", Config({"tile": tile})) for tile in drawn]


class FakeCollector:
    """Remembers what it is asked for. Every thirteenth tile fails; the best is ten times the SMs.

    Args:
        seconds: How long each batch takes on the one device, in a thread of its own; None measures while
            ``submit`` is called.
        before_batch: Called with each batch before it is measured.
        dying_draws: Draws whose worker dies, by their number.
        death: How they say so, if not by a ``WorkerDiedError``.
        granularity: A green context is granted a multiple of it.
    """

    def __init__(
        self,
        seconds: float | None = None,
        before_batch: Callable[[Sequence[Request]], None] = lambda _: None,
        dying_draws: Sequence[int] = (),
        death: Exception | None = None,
        granularity: int = 1,
    ) -> None:
        self._seconds, self._granularity = seconds, granularity
        self._device = ThreadPoolExecutor(1) if seconds is not None else None
        self.before_batch = before_batch
        self.dying_draws = dying_draws
        self._death = death or WorkerDiedError("exit code -9")
        self.draws: list[tuple[str, int, int, dict[str, Any]]] = []
        self.batches: list[Sequence[Request]] = []
        self.cancelled = threading.Event()  # whether a batch was, before it was measured

    @property
    def measured(self) -> list[str]:
        """Keys of what was measured, in order."""
        return [request.key for batch in self.batches for request in batch]

    def platform(self, sms: int | None = None, isolation: Isolation | None = None) -> Platform:
        sms = sms or DEVICE.sms
        if sms > DEVICE.sms:
            raise CostModelError(f"An SM budget must be from 1 to {DEVICE.sms}, but got {sms}.")
        granted = min(DEVICE.sms, -(-sms // self._granularity) * self._granularity)
        mechanism = isolation or ("whole" if granted == DEVICE.sms else "green_context")
        return Platform(DEVICE, mechanism, sms, granted)

    def draw(
        self,
        function: Callable[..., list[Candidate]],
        workload: Workload,
        count: int,
        seed: int,
        **options: Any,
    ) -> "Future[list[Candidate]]":
        self.draws.append((workload.name, count, seed, options))
        if function is draw_at_random:  # it needs TVM
            function, options = draw_tiles, {**options, "budgets": ()}
        future: Future[list[Candidate]] = Future()
        if len(self.draws) in self.dying_draws:
            future.set_exception(self._death)
        else:
            future.set_result(function(workload, "cuda", count, seed, **options))
        return future

    def submit(self, requests: Sequence[Request]) -> "Future[list[Measurement]]":
        if self._device:
            future = self._device.submit(self._measure_all, requests)
        else:
            future = Future()
            future.set_result(self._measure_all(requests))
        future.add_done_callback(lambda f: self.cancelled.set() if f.cancelled() else None)
        return future

    def _measure_all(self, requests: Sequence[Request]) -> list[Measurement]:
        self.before_batch(requests)
        self.batches.append(requests)
        time.sleep(self._seconds or 0.0)
        return [_measure(request, requests) for request in requests]


def _measure(request: Request, batch: Sequence[Request]) -> Measurement:
    tile, sms = tile_of(request.candidate), request.platform.sms_granted
    ok = tile % 13 > 0
    others = {r.candidate.candidate_id for r in batch} - {request.candidate.candidate_id}
    return Measurement(
        candidate=request.candidate,
        platform=request.platform,
        visit=request.visit,
        outcome=Outcome.OK if ok else Outcome.LAUNCH_ERROR,
        latencies_s=(1e-6 * (1 + abs(tile - 10 * sms)) * (1 + 0.01 * request.visit),) if ok else (),
        # A lone kernel on several partitions has itself as co-runner.
        co_runners=tuple(sorted(others)) or (request.candidate.candidate_id,)
        if ok and request.partitions > 1
        else (),
        measured_at="2026-11-21T10:00:00+00:00",
        error="" if ok else "too many resources",
    )


def stored(folder: CampaignFolder) -> dict[str, Measurement]:
    """What a campaign stored, by key; each key once."""
    measurements = list(read_records(folder.store)) if folder.store.exists() else []
    by_key = {measurement.key: measurement for measurement in measurements}
    assert len(by_key) == len(measurements)
    return by_key


def files(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder but the store, whose order may differ between runs."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "measurements.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
