"""How busy builders, devices and workers are, as their processes report it to the store of jobs."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, insert, select

from costmodel.collector._meter import METER, MeteredStage, Tally
from costmodel.errors import CostModelError
from costmodel.liveness import ProcessMark, renewing
from costmodel.service._database import USAGE

REPORT_EVERY_S = 2.0
_KEPT_S = 3600.0
# A process that did not report for so long is gone, and its places with it.
_GONE_S = 3 * REPORT_EVERY_S


class Capacity(NamedTuple):
    """What a process has of a stage.

    Attributes:
        places: Jobs that it does at once.
        waiting: Jobs that wait for a place.
    """

    places: int
    waiting: int = 0


class StageUse(msgspec.Struct, frozen=True):
    """How busy a stage was of late.

    Attributes:
        stage: What is done.
        place: What it is done on.
        places: Places now, over all processes; those of a device are shared.
        waiting: Jobs that wait for a place now.
        done: Jobs done in the time looked at.
        busy: Share of the places that was busy, in equal parts of the time looked at, the oldest first; None
            where nobody reported.
    """

    stage: str
    place: str
    places: int
    waiting: int
    done: int
    busy: tuple[float | None, ...]

    @property
    def share(self) -> float:
        """Share of the places that was busy, over all of the time that is known of."""
        known = [share for share in self.busy if share is not None]
        return sum(known) / len(known) if known else 0.0


@contextmanager
def reporting(report: Callable[[], object]) -> Iterator[None]:
    """Report what this process does, again and again, until the context ends; a store may be away."""

    def try_to_report() -> None:
        with suppress(CostModelError):
            report()

    try_to_report()
    with renewing(report, REPORT_EVERY_S):
        yield
    try_to_report()


def write_usage(connection: Connection, capacities: Mapping[MeteredStage, Capacity], now: float) -> None:
    """Write what this process has done so far, and forget what is old."""
    mark, totals = ProcessMark.own(), METER.totals()
    process = f"{mark.host}:{mark.pid}:{mark.started}"
    rows = [
        {
            "process": process,
            "stage": stage.name,
            "place": stage.where,
            "at": now,
            "done": tally.done,
            "busy_s": tally.busy_s,
            **capacities.get(stage, Capacity(1))._asdict(),
        }
        for stage, tally in {**dict.fromkeys(capacities, Tally()), **totals}.items()
    ]
    connection.execute(delete(USAGE).where(USAGE.c.at < now - _KEPT_S))
    if rows:
        connection.execute(insert(USAGE), rows)


def read_usage(connection: Connection, seconds: float, parts: int, now: float) -> list[StageUse]:
    """How busy each stage was in the last seconds, in equal parts."""
    rows = connection.execute(select(USAGE).where(USAGE.c.at >= now - seconds).order_by(USAGE.c.at)).all()
    by_stage: dict[MeteredStage, dict[str, list[_Count]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        counted = _Count(row.at, row.places, row.waiting, row.done, row.busy_s)
        by_stage[MeteredStage(row.stage, row.place)][row.process].append(counted)
    edges = [now - seconds + i * seconds / parts for i in range(parts + 1)]
    return [
        _stage_use(stage, list(processes.values()), edges) for stage, processes in sorted(by_stage.items())
    ]


class _Count(NamedTuple):
    at: float
    places: int
    waiting: int
    done: int
    busy_s: float


def _stage_use(
    stage: MeteredStage, processes: Sequence[Sequence[_Count]], edges: Sequence[float]
) -> StageUse:
    """Put together what processes said of a stage: each has places of its own, or they share a device."""
    here = [counts[-1] for counts in processes if counts[-1].at > edges[-1] - _GONE_S]
    shared = stage.name == "device"
    return StageUse(
        stage.name,
        stage.where,
        places=min(1, len(here)) if shared else sum(count.places for count in here),
        waiting=sum(count.waiting for count in here),
        done=sum(counts[-1].done - counts[0].done for counts in processes),
        busy=tuple(_share(processes, begin, end, shared=shared) for begin, end in pairwise(edges)),
    )


def _share(processes: Sequence[Sequence[_Count]], begin: float, end: float, *, shared: bool) -> float | None:
    """Share of the places that was busy in an interval, by what was counted before and after."""
    busy_s = places_s = 0.0
    for counts in processes:
        for first, second in pairwise(counts):
            overlap_s = min(end, second.at) - max(begin, first.at)
            if overlap_s > 0:
                places_s += overlap_s * second.places
                busy_s += (second.busy_s - first.busy_s) * overlap_s / (second.at - first.at)
    if not places_s:
        return None
    return busy_s / (end - begin if shared else places_s)
