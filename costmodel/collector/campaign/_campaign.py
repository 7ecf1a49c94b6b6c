"""A campaign: draws kernels in rounds, measures each on every platform, and can be killed at any moment."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from costmodel.collector._engine import EngineLostError
from costmodel.collector.campaign._collector import Collector, Draw, draw_at_random
from costmodel.collector.campaign._config import CampaignConfig
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.campaign._schedule import Batch, CampaignSchedule
from costmodel.collector.runners._base import Request
from costmodel.kernels._base import KernelSource
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform
from costmodel.records._store import RecordStore, read_records
from costmodel.records._workload import Workload

_log = logging.getLogger(__name__)


class CampaignReport(msgspec.Struct, frozen=True):
    """What a run of a campaign did.

    Attributes:
        finished: Whether all is measured.
        measured: Measurements made by this run.
        stored: Measurements in the store after it.
        outcomes: Measurements in the store by outcome.
    """

    finished: bool
    measured: int
    stored: int
    outcomes: dict[str, int]


class Campaign:
    """Measures what a config requests into a folder, and resumes where a killed run stopped.

    All workloads advance together: while kernels of one workload are measured, those of others are drawn and
    built.
    """

    def __init__(
        self,
        config: CampaignConfig,
        collector: Collector,
        folder: CampaignFolder,
        draw: Draw | None = draw_at_random,
    ) -> None:
        """Open the folder.

        Args:
            config: What to measure.
            collector: What measures.
            folder: Where it goes.
            draw: What chooses the candidates; None measures only those that are in the folder.

        Raises:
            CostModelError: The folder belongs to another campaign or cannot be made, or an SM budget cannot
                be granted.
        """
        folder.claim(config)
        self._config, self._collector, self._folder, self._draw = config, collector, folder, draw
        under_mps = config.mps.sms if config.mps else ()
        self._schedule = CampaignSchedule(
            config,
            [collector.platform(sms) for sms in config.sms],
            _at_once(lambda sms: collector.platform(sms, "mps"), under_mps),
        )

    def run(
        self,
        *,
        time_limit_s: float | None = None,
        on_measurement: Callable[[Measurement], None] = lambda _: None,
    ) -> CampaignReport:
        """Measure what is missing, until everything is measured or the time limit is reached.

        Args:
            time_limit_s: Seconds after which no measurement is started. Measurements in progress are finished
                and kept. Default: the limit in the config.
            on_measurement: Called with each measurement, those of earlier runs first. In a notebook, called
                from another thread.

        Raises:
            CostModelError: If the store cannot be written or belongs to another process.
        """
        with RecordStore(self._folder.store) as store:
            run = _Run(self._config, self._collector, self._folder, self._draw, self._schedule, store)
            for measurement in read_records(self._folder.store):
                run.remember(measurement)
                on_measurement(measurement)
            stored = len(store.keys())
            try:
                limit_s = self._config.time_limit_s if time_limit_s is None else time_limit_s
                _run_to_end(run.all(limit_s, on_measurement))
            except BaseExceptionGroup as group:
                raise _first(group) from None
            return run.report(stored)


def _at_once(find: Callable[[int], Platform], budgets: Sequence[int]) -> list[Platform]:
    """Platforms that each need a process of their own, which takes seconds to start."""
    with ThreadPoolExecutor(max(1, len(budgets))) as threads:
        return list(threads.map(find, budgets))


class _Run:
    """One run of a campaign. Its coroutines share one thread, which alone writes the store."""

    def __init__(  # noqa: PLR0913, PLR0917 (the campaign's parts)
        self,
        config: CampaignConfig,
        collector: Collector,
        folder: CampaignFolder,
        draw: Draw | None,
        schedule: CampaignSchedule,
        store: RecordStore,
    ) -> None:
        self._config, self._collector, self._folder = config, collector, folder
        self._draw, self._schedule, self._store = draw, schedule, store
        self._sources = config.open_sources()
        self._by_workload: dict[str, list[Measurement]] = {w.name: [] for w in config.parsed_workloads}
        self._waiting: set[Future[Any]] = set()
        self._stopped = False

    def remember(self, measurement: Measurement) -> None:
        """Keep a measurement in mind."""
        self._by_workload.setdefault(measurement.candidate.workload.name, []).append(measurement)

    async def all(self, time_limit_s: float | None, on_measurement: Callable[[Measurement], None]) -> None:
        """Measure all workloads."""
        self._notify = on_measurement
        if time_limit_s is not None:
            self._stopped = time_limit_s <= 0
            asyncio.get_running_loop().call_later(time_limit_s, self._stop)
        async with asyncio.TaskGroup() as group:
            for workload in self._config.parsed_workloads:
                group.create_task(self._collect(workload))

    def report(self, stored_before: int) -> CampaignReport:
        """What was done."""
        every = [m.outcome.value for measurements in self._by_workload.values() for m in measurements]
        outcomes = {outcome: every.count(outcome) for outcome in sorted(set(every))}
        return CampaignReport(not self._stopped, len(every) - stored_before, len(every), outcomes)

    def _stop(self) -> None:
        """Give up whatever is not on a device yet."""
        self._stopped = True
        for future in self._waiting:
            future.cancel()

    async def _collect(self, workload: Workload) -> None:
        """Measure one workload, round by round: later rounds are drawn from what the earlier ones gave.

        First rounds that are drawn already wait for nothing, and are measured as one.
        """
        rounds = range(self._config.kernels.rounds + 1)
        ahead = list(takewhile(lambda round_: self._folder.proposals(workload, round_) is not None, rounds))
        for together in [ahead, *([round_] for round_ in rounds[len(ahead) :])]:
            candidates = [each for round_ in together for each in await self._proposals(workload, round_)]
            await self._measure(self._schedule.first_visits(candidates))
            # The repeats come when all of these have run, so that slow drift shows in them.
            await self._measure(self._schedule.repeats(candidates))
        await self._measure(self._schedule.finalists(self._by_workload[workload.name]))

    async def _proposals(self, workload: Workload, round_: int) -> list[Candidate]:
        """A round's candidates: read back where an earlier run drew them, else drawn and written."""
        candidates = self._folder.proposals(workload, round_)
        if candidates is None and self._draw:
            candidates = await self._drawn(self._draw, workload, round_)
            self._folder.write_proposals(workload, round_, candidates)
        return candidates or []

    async def _drawn(self, chosen: Draw, workload: Workload, round_: int) -> list[Candidate]:
        """What a draw gives, of every source that makes the workload."""
        drawn = [
            await self._drawn_from(source, chosen, workload, round_)
            for source in self._sources
            if source.makes(workload, self._config.runner)
        ]
        return [candidate for candidates in drawn for candidate in candidates]

    async def _drawn_from(
        self, source: KernelSource, chosen: Draw, workload: Workload, round_: int
    ) -> list[Candidate]:
        """What a draw gives. One that fails is made again, then at random; then the round stays empty."""
        for draw in (chosen, chosen, draw_at_random):
            try:
                return await self._draw_with(source, draw, workload, round_)
            except EngineLostError:  # a round that is left empty stays so
                raise
            except Exception as error:  # noqa: BLE001 (whatever a draw does costs its round at most)
                _log.warning("Drawing kernels of %s, round %d, failed: %s", workload.name, round_, error)
        return []

    async def _draw_with(
        self, source: KernelSource, draw: Draw, workload: Workload, round_: int
    ) -> list[Candidate]:
        plan = self._config.kernels
        measured = self._by_workload[workload.name]
        known = [m for m in measured if m.visit == 0 and source.is_of(m.candidate)]
        candidates: list[Candidate] = await self._result(
            partial(
                self._collector.draw,
                draw,
                workload,
                plan.per_round if round_ else plan.random,
                self._config.draw_seed(workload, round_),
                measured=known,
                budgets=plan.good_at,
                source=source,
            )
        )
        return candidates

    async def _measure(self, batches: Sequence[Batch]) -> None:
        """Measure what is missing of some batches."""
        async with asyncio.TaskGroup() as group:
            for batch in batches:
                missing = [request for request in batch if self._is_missing(request)]
                if missing:
                    group.create_task(self._record(missing))
        if self._stopped:
            raise asyncio.CancelledError

    def _is_missing(self, request: Request) -> bool:
        """Whether a measurement was not made; one that failed names no co-runners, whatever was asked for."""
        if request.key in self._store:
            return False
        return request.partitions == 1 or replace(request, partitions=1).key not in self._store

    async def _record(self, batch: Batch) -> None:
        """Measure a batch and write it to the store; what failed in passing stays missing."""
        made = await self._result(partial(self._collector.submit, batch))
        measurements = [each for each in made if not each.is_passing]
        for each in made:
            if each.is_passing:
                _log.warning("%s is left to the next run: %s", each.candidate.workload.name, each.error)
        self._store.append(measurements)
        for measurement in measurements:
            self.remember(measurement)
            self._notify(measurement)

    async def _result(self, start: "Callable[[], Future[Any]]") -> Any:
        """What a future gives, unless the run stops before it is started."""
        if self._stopped:
            raise asyncio.CancelledError
        future = start()
        self._waiting.add(future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._waiting.discard(future)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group that is no group."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run work to its end; where an event loop runs in this thread already, in a thread beside it.

    The cells of a notebook run inside the loop of their kernel, where ``asyncio.run`` refuses to start. An
    interrupt cancels the work, and is raised when that has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with closing(asyncio.new_event_loop()) as loop, ThreadPoolExecutor(1) as thread:
        task = loop.create_task(work)
        try:
            thread.submit(loop.run_until_complete, task).result()
        except BaseException:
            loop.call_soon_threadsafe(task.cancel)
            raise
