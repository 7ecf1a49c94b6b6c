"""Timings of Triton kernels: the store that processes share, and those of one kernel that can be compared."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Literal

import triton
from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.files import cache_folder, expand_home
from costmodel.records._candidate import Candidate
from costmodel.records._identity import content_id
from costmodel.records._measurement import KernelResources, Measurement, Outcome, measurement_key
from costmodel.records._platform import Platform
from costmodel.records._store import SharedRecordStore
from costmodel.records._workload import Workload

# Names a store for all kernels that are not told another.
STORE_VARIABLE = "COSTMODEL_TRITON_STORE"
L2Policy = Literal["warm", "flushed"]


class TimingStore(SharedRecordStore):
    """A record store that indexes its measurements by kernel."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self._by_kernel: dict[tuple[str, str, str], list[Measurement]] = {}
        self._by_family: dict[str, list[Measurement]] = {}

    def of_kernel(self, workload: Workload, space: str, platform: Platform) -> list[Measurement]:
        """Return all measurements of a kernel on a platform, in order; drivers may differ."""
        return self._by_kernel.get((workload.name, space, platform.platform_id), [])

    def next_visit(self, candidate: Candidate, platform: Platform) -> int:
        """Return the number of the next measurement of a candidate on a platform."""
        return next(
            visit for visit in count() if self.get(measurement_key(candidate, platform, visit)) is None
        )

    def of_family(self, family: str) -> list[Measurement]:
        """Return all measurements of kernels of one name and types, in order."""
        return self._by_family.get(family, [])

    def _forget_all(self) -> None:
        self._by_kernel.clear()
        self._by_family.clear()

    def _remember(self, measurement: Measurement) -> None:
        of, platform_id = measurement.candidate, measurement.platform.platform_id
        self._by_kernel.setdefault((of.workload.name, of.space, platform_id), []).append(measurement)
        self._by_family.setdefault(of.workload.kind, []).append(measurement)


def open_store(path: Path | str | None) -> TimingStore:
    """Open the store at a place, see ``find_store``; all kernels of this process share one object."""
    try:
        return _opened(find_store(path))
    except CostModelError as error:
        if path is not None:
            raise
        raise CostModelError(f"{error} Name another place with store= or ${STORE_VARIABLE}.") from None


def find_store(path: Path | str | None) -> str:
    """Return where a store is: an absolute path, or the URL of a database.

    Args:
        path: Path of the file, or a URL such as ``postgresql://host/name``. Default:
            ``$COSTMODEL_TRITON_STORE``, or ``~/.cache/costmodel/triton.jsonl`` (``$XDG_CACHE_HOME`` replaces
            ``~/.cache``).
    """
    place = str(path or os.environ.get(STORE_VARIABLE) or cache_folder("triton.jsonl"))
    return place if "://" in place else str(expand_home(place).absolute())


@cache
def _opened(place: str) -> TimingStore:
    return TimingStore(place)


class KernelTimings:
    """Timings of one kernel on one platform that can be compared: of one driver, and one kind of timer.

    Failures are kept in the store once a config ran: what fails them all is not their fault.

    Args:
        store: Knows what was timed, and keeps what will be.
        workload: What the kernel computes.
        space: Name of its space.
        platform: Where it runs.
        l2_policy: What its timer does to the cache.
        anew: Whether what the store has counts as not timed yet.
    """

    def __init__(  # noqa: PLR0913 (what is compared, and where it is kept)
        self,
        store: TimingStore,
        workload: Workload,
        space: str,
        platform: Platform,
        l2_policy: L2Policy,
        *,
        anew: bool = False,
    ) -> None:
        software = {
            "triton": triton.__version__,
            **platform.software,
        }  # which a given one may lack
        self.store, self.platform = store, replace(platform, software=software)
        self._workload, self._space, self._l2_policy, self._anew = workload, space, l2_policy, anew
        self._made: dict[str, Measurement] = {}
        self._held_back: list[Measurement] = []

    @property
    def known(self) -> dict[str, Measurement]:
        """The last timing of each candidate, by its id."""
        self.store.refresh()
        of_kernel = [] if self._anew else self.store.of_kernel(self._workload, self._space, self.platform)
        found = {each.candidate.candidate_id: each for each in of_kernel if self._is_comparable(each)}
        return {**found, **self._made}

    @property
    def elsewhere(self) -> list[Measurement]:
        """Timings of the family that cannot be compared: other sizes, platforms, sources, drivers, timers."""
        self.store.refresh()
        here = set(map(id, self.store.of_kernel(self._workload, self._space, self.platform)))
        family = self.store.of_family(self._workload.kind)
        return [each for each in family if id(each) not in here or not self._is_comparable(each)]

    def made(
        self,
        candidate: Candidate,
        outcome: Outcome,
        latencies_s: Sequence[float],
        error: str = "",
        resources: tuple[KernelResources, ...] = (),
    ) -> Measurement:
        """Return the measurement of a candidate that was timed just now; nothing keeps it yet."""
        return Measurement(
            candidate=candidate,
            platform=self.platform,
            outcome=outcome,
            latencies_s=tuple(latencies_s),
            runs_per_repeat=1 if latencies_s else 0,
            visit=self.store.next_visit(candidate, self.platform),
            l2_policy=self._l2_policy,
            resources=resources,
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            error=error,
        )

    def keep(self, measurements: Iterable[Measurement], *, at_once: bool = False) -> None:
        """Take over measurements; they are on disk when this returns if a config is known to run.

        Args:
            measurements: As ``made`` gives them.
            at_once: Whether they are kept whatever ran: they are the fault of their configs.
        """
        for each in measurements:
            self._made[each.candidate.candidate_id] = each
            self._held_back.append(each)
            if at_once:
                self.store.add([each])
        if any(each.outcome is Outcome.OK for each in self.known.values()):
            self.store.add(self._held_back)
            self._held_back.clear()

    def turn(self, is_over: Callable[[], bool], *, waits: bool) -> AbstractContextManager[bool]:
        """Take the turn of timing the kernel here, see ``SharedRecordStore.turn``."""
        regime = _regime(self.platform, self._l2_policy)
        key = content_id(self._workload.name, self._space, self.platform.platform_id, regime)
        return self.store.turn(key, is_over, waits=waits)

    def _is_comparable(self, each: Measurement) -> bool:
        return _regime(each.platform, each.l2_policy) == _regime(self.platform, self._l2_policy)


def current_timings(measured: Sequence[Measurement]) -> list[Measurement]:
    """Choose the timings that count among all of one kernel on one device, in order.

    Only the source that was timed last counts; on each number of SMs only what can be compared with the last
    timing there; and of each config its last timing, failures included.

    Args:
        measured: Timings of any sizes, sources, platforms and timers, the oldest first.
    """
    space = measured[-1].candidate.space
    of_source = [each for each in measured if each.candidate.space == space]
    regimes = {_place(each): _regime(each.platform, each.l2_policy) for each in of_source}
    kept = [each for each in of_source if _regime(each.platform, each.l2_policy) == regimes[_place(each)]]
    return list({(each.candidate.candidate_id, each.platform.sms_granted): each for each in kept}.values())


def _place(measurement: Measurement) -> tuple[str, int]:
    return measurement.candidate.workload.name, measurement.platform.sms_granted


def _regime(platform: Platform, l2_policy: L2Policy) -> tuple[str, str | None, L2Policy]:
    """Tell what must be the same in timings that are compared."""
    return platform.isolation, platform.software.get("driver"), l2_policy
