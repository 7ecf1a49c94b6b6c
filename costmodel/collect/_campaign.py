"""A campaign: draws kernels in rounds, measures each on every platform, and can be killed at any moment."""

import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import msgspec

from costmodel.collect._campaign_config import CampaignConfig
from costmodel.collect._workers import WorkerDiedError
from costmodel.errors import CostModelError
from costmodel.records import (
    Candidate,
    Config,
    Measurement,
    Outcome,
    Platform,
    RecordStore,
    Workload,
    content_id,
    measurement_key,
    read_records,
)


class Collector(Protocol):
    """A runner that can also draw candidates: ``CudaRunner`` and ``CpuRunner`` are such."""

    def platform(self, sms: int | None = None) -> Platform:
        """See ``Runner.platform``."""
        ...

    def prefetch(self, candidates: list[Candidate]) -> None:
        """See ``Runner.prefetch``."""
        ...

    def measure(
        self, candidates: list[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """See ``Runner.measure``."""
        ...

    def sample(self, workload: Workload, count: int, seed: int, **options: Any) -> Future[list[Candidate]]:
        """Draw candidates in the background; see ``costmodel.spaces.sample_candidates``.

        The future raises ``WorkerDiedError`` if the process died that drew them.
        """
        ...


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
    """Measures what a config asks for into a folder, and goes on where a killed run stopped.

    The folder holds ``measurements.jsonl`` (the record store), ``campaign.json`` (the config) and
    ``proposals/<workload>.<round>.json`` (the candidates drawn, written before the first is measured, so that
    a resumed campaign has the same).

    Attributes:
        total: Measurements that the whole campaign makes, where every space has as many kernels as asked for.
    """

    def __init__(self, config: CampaignConfig, runner: Collector, folder: Path) -> None:
        """Open the folder.

        Raises:
            CostModelError: The folder belongs to another campaign or cannot be made, or an SM budget cannot
                be granted.
        """
        self._config = config
        self._runner = runner
        self._folder = folder
        self._platforms = [runner.platform(sms) for sms in config.sms]
        self._claim_folder()
        self._by_workload: dict[str, list[Measurement]] = {}
        self._measured: Container[str] = frozenset()  # keys: the store's, once it is open
        self._draws: dict[tuple[str, int], Future[list[Candidate]]] = {}
        self.total = len(config.workloads) * config.kernels_per_workload * len(config.sms)

    @property
    def store_path(self) -> Path:
        """The record store."""
        return self._folder / "measurements.jsonl"

    def run(
        self,
        *,
        time_limit_s: float = float("inf"),
        on_measurement: Callable[[Measurement], None] | None = None,
    ) -> CampaignReport:
        """Measure what is missing until all is done or the time is over.

        Args:
            time_limit_s: Seconds after which no measurement is started.
            on_measurement: Called with each measurement, those of earlier runs first.
        """
        deadline = time.monotonic() + time_limit_s
        notify = on_measurement or (lambda _: None)
        measured, finished = 0, True
        self._by_workload = {workload.name: [] for workload in self._config.parsed_workloads}
        with RecordStore(self.store_path) as store:
            self._measured = store
            for measurement in read_records(self.store_path):
                self._remember(measurement)
                notify(measurement)
            for candidate, platform, visit in self._plan():
                if measurement_key(candidate, platform, visit) in store:
                    continue
                if time.monotonic() > deadline:
                    finished = False
                    break
                (measurement,) = self._runner.measure([candidate], platform, visit=visit)
                store.append([measurement])
                self._remember(measurement)
                notify(measurement)
                measured += 1
        return self._report(finished, measured)

    def _plan(self) -> Iterator[tuple[Candidate, Platform, int]]:
        """All measurements in order. Rounds after the first are drawn from what the earlier ones gave."""
        rounds = self._config.kernels.rounds + 1
        for workload in self._config.parsed_workloads:
            self._draw(workload, 0)
        for round_ in range(rounds):
            for workload in self._config.parsed_workloads:
                candidates = self._proposals(workload, round_)
                pairs = [(candidate, platform) for candidate in candidates for platform in self._platforms]
                yield from ((candidate, platform, 0) for candidate, platform in pairs)
                # The repeats come when the whole round has run, so that slow drift shows in them.
                yield from ((c, p, 1) for c, p in pairs if self._is_repeated(c, p))
                if round_ + 1 < rounds:
                    self._draw(workload, round_ + 1)

    def _is_repeated(self, candidate: Candidate, platform: Platform) -> bool:
        """Whether a measurement is of the share made twice, by its key, so that every run agrees."""
        return int(measurement_key(candidate, platform)[:8], 16) < self._config.repeat_share * 2**32

    def _is_measured(self, candidate: Candidate) -> bool:
        """Whether all visits of a candidate are made."""
        return all(
            measurement_key(candidate, platform, visit) in self._measured
            for platform in self._platforms
            for visit in range(1 + self._is_repeated(candidate, platform))
        )

    def _draw(self, workload: Workload, round_: int) -> None:
        """Start drawing a round's candidates, and building them as soon as they are drawn.

        Of those that an earlier run drew, only what was not measured is built.
        """
        path = self._proposal_path(workload, round_)
        if path.exists():
            self._runner.prefetch([c for c in _read_proposals(path) if not self._is_measured(c)])
            return
        plan = self._config.kernels
        known = {m.candidate.candidate_id: m.candidate for m in self._by_workload[workload.name]}
        future = self._runner.sample(
            workload,
            plan.per_round if round_ else plan.random,
            int(content_id(self._config.seed, workload.name, round_)[:8], 16),
            parents=self._parents(workload) if round_ else [],
            known=list(known.values()),
        )
        future.add_done_callback(self._prefetch)
        self._draws[workload.name, round_] = future

    def _prefetch(self, drawn: Future[list[Candidate]]) -> None:
        if not drawn.cancelled() and drawn.exception() is None:
            self._runner.prefetch(drawn.result())

    def _proposals(self, workload: Workload, round_: int) -> list[Candidate]:
        """A round's candidates: read back where an earlier run drew them, else drawn and written."""
        path = self._proposal_path(workload, round_)
        if path.exists():
            return _read_proposals(path)
        candidates = self._drawn(workload, round_)
        _write_atomically(path, msgspec.json.encode(candidates))
        return candidates

    def _drawn(self, workload: Workload, round_: int) -> list[Candidate]:
        """What a draw gave; if its worker died, it is made once more."""
        try:
            return self._draws.pop((workload.name, round_)).result()
        except WorkerDiedError:
            self._draw(workload, round_)
            return self._draws.pop((workload.name, round_)).result()

    def _parents(self, workload: Workload) -> list[Config]:
        """The fastest configs so far at each parent budget, each once."""
        plan, parents = self._config.kernels, {}
        for sms in plan.parents_at:
            measured = [
                m
                for m in self._by_workload[workload.name]
                if m.outcome is Outcome.OK and m.visit == 0 and m.platform.sms_requested == sms
            ]
            for measurement in sorted(measured, key=lambda m: m.latency_s)[: plan.parents]:
                parents[measurement.candidate.candidate_id] = measurement.candidate.config
        return list(parents.values())

    def _remember(self, measurement: Measurement) -> None:
        self._by_workload.setdefault(measurement.candidate.workload.name, []).append(measurement)

    def _report(self, finished: bool, measured: int) -> CampaignReport:
        every = [m.outcome.value for measurements in self._by_workload.values() for m in measurements]
        return CampaignReport(finished, measured, len(every), {o: every.count(o) for o in sorted(set(every))})

    def _proposal_path(self, workload: Workload, round_: int) -> Path:
        return self._folder / "proposals" / f"{workload.name}.{round_}.json"

    def _claim_folder(self) -> None:
        """Write the config into the folder, or check that it is the one there."""
        try:
            (self._folder / "proposals").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CostModelError(
                f"{self._folder} must be a folder for measurements, but it cannot be made: {error.strerror}."
            ) from None
        path, config = self._folder / "campaign.json", msgspec.json.encode(self._config)
        if not path.exists():
            _write_atomically(path, config)
        elif path.read_bytes() != config:
            raise CostModelError(
                f"{self._folder} must hold this campaign or none, but it holds another one ({path.name} "
                "differs). Go on with the file it was started with, or give another folder."
            )


def _read_proposals(path: Path) -> list[Candidate]:
    return msgspec.json.decode(path.read_bytes(), type=list[Candidate])


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is either whole or absent, whenever the process is killed."""
    partial = path.with_suffix(".partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error
