"""Events of a trace, and spans: events with a name and times that can be believed.

Categories are those of Kineto on any device, and of PyTorch before 1.13; capitals do not count.
"""

import math
import re
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np

from costmodel.planner.graphs._recorded_graph import FaultCounts

OPERATOR, RUNTIME, ANNOTATION = "cpu_op", "cuda_runtime", "user_annotation"
KERNEL, COPY, MEMSET, WAIT = "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"
HOST, DEVICE = frozenset((OPERATOR, RUNTIME, ANNOTATION)), frozenset((KERNEL, COPY, MEMSET))
_OTHER_NAMES = {
    OPERATOR: ("operator",),
    RUNTIME: (
        *("runtime", "driver", "cuda_driver", "hip_runtime", "xpu_runtime", "xpu_driver", "mtia_runtime"),
        *("glow_runtime", "gcu_runtime", "gcu_driver", "privateuse1_runtime", "privateuse1_driver"),
    ),
    KERNEL: ("concurrent_kernel", "mtia_ccp_events"),
    COPY: ("memcpy",),
    MEMSET: ("memset",),
    WAIT: ("gcu_sync", "xpu_sync"),
}
_ROLES = {name: role for role, names in _OTHER_NAMES.items() for name in (role, *names)} | {
    ANNOTATION: ANNOTATION
}
# What says the same once more, counts something, or takes no time of a thread.
_BESIDE = frozenset(
    (
        *("python_function", "gpu_user_annotation", "cpu_instant_event", "external_correlation", "overhead"),
        *("cuda_event", "cuda_profiler_range", "collective_comm", "mtia_insight", "mtia_counters", "trace"),
        *("python", "async", "ac2g", "fwdbwd", "__metadata"),
    )
)
_POLL = re.compile(r"Query|EventGetInfo")
# Calls that neither start anything on a device nor wait for it.
_LOOK = re.compile(r"Query|Get|Set|ElapsedTime|Exchange|IsCapturing|EventCreate|EventDestroy")
_WAITS = re.compile(
    r"Synchronize|EventWait$|QueueFinish|HostSynchronize|BlockUntilReady|block_until_ready|Await"
)
_WAITS_FOR_ALL = re.compile(r"(cuda|hip)Device|(cu|hip)Ctx")
_MOST = 2**31


class Args(msgspec.Struct, frozen=True, gc=False):
    """What of an event's ``args`` a graph needs; Kineto names them so."""

    correlation: Any = None
    stream: Any = None
    device: Any = None
    in_device: Any = msgspec.field(name="inDevice", default=None)  # of a copy between two
    grid: Any = None
    block: Any = None
    registers: Any = msgspec.field(name="registers per thread", default=None)
    shared_bytes: Any = msgspec.field(name="shared memory", default=None)
    graph_node_id: Any = msgspec.field(name="graph node id", default=None)
    wait_on_stream: Any = None
    input_dims: Any = msgspec.field(name="Input Dims", default=None)
    input_type: Any = msgspec.field(name="Input type", default=None)
    concrete_inputs: Any = msgspec.field(name="Concrete Inputs", default=None)
    collective: Any = msgspec.field(name="Collective name", default=None)
    group: Any = msgspec.field(name="Process Group Name", default=None)
    group_ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    wait_on_record: Any = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=None)


class Event(msgspec.Struct, gc=False):
    """One event; times are microseconds, as Chrome has them."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None
    args: Args = Args()


def make_event(kind: str, name: Any, times: tuple[Any, Any], track: tuple[Any, Any], args: Args) -> Event:
    """Make an event that takes a time, as other formats tell it.

    Args:
        kind: ``OPERATOR`` to ``WAIT``.
        name: What was called, or ran.
        times: Start and duration, microseconds.
        track: Process and thread.
        args: What else is known.
    """
    (ts, dur), (pid, tid) = times, track
    return Event(ph="X", cat=kind, name=name, pid=pid, tid=tid, ts=ts, dur=dur, args=args)


class DeviceProperties(NamedTuple):
    """A GPU as a trace describes it; 0, or an empty name, is what nobody knows."""

    name: str = ""
    num_sms: int = 0
    warp_size: int = 32
    sm_threads: int = 0
    sm_registers: int = 0
    sm_shared_bytes: int = 0

    @classmethod
    def of(cls, found: dict[Any, Any]) -> "DeviceProperties":
        """Read an entry of Kineto's ``deviceProperties``."""
        name = found.get("name")
        return cls(
            name if isinstance(name, str) else "",
            read_count(found.get("numSms")),
            read_count(found.get("warpSize")) or 32,
            read_count(found.get("maxThreadsPerMultiprocessor")),
            read_count(found.get("regsPerMultiprocessor")),
            read_count(found.get("sharedMemPerMultiprocessor")),
        )


class Trace(NamedTuple):
    """A file.

    Attributes:
        events: Its events.
        devices: Its GPUs by number.
        has_host: Whether calls of the host can be among the events.
        rank: Of the process among those that work together; None if the file does not say it.
        world_size: How many work together; 0 if the file does not say it.
    """

    events: list[Event]
    devices: dict[int, DeviceProperties]
    has_host: bool = True
    rank: int | None = None
    world_size: int = 0

    def device(self, number: object) -> DeviceProperties:
        """Look up the GPU of a number; where kernels have other numbers, one that all GPUs are like.

        ROCm numbers GPUs from 0 and kernels by their agents.
        """
        alike = set(self.devices.values())
        of_all = alike.pop() if len(alike) == 1 else DeviceProperties()
        return self.devices.get(number, of_all) if isinstance(number, int) else of_all


def role_of(category: Any) -> str | None:
    """Tell what a category stands for: ``OPERATOR`` to ``WAIT``, empty if not needed, None if unknown."""
    name = category.lower() if isinstance(category, str) else ""
    return _ROLES.get(name, "" if name in _BESIDE else None)


def is_graph_launch(name: str) -> bool:
    """Tell whether a call launches a CUDA graph: many kernels share its correlation."""
    return "GraphLaunch" in name


def is_launch(name: str) -> bool:
    """Tell whether a call gives work to a stream, so that something on a device must have its correlation."""
    return "Launch" in name or "Memcpy" in name or "Memset" in name


def is_wait(name: str) -> bool:
    """Tell whether the host waits in a call until streams are done."""
    return bool(_WAITS.search(name))


def waits_for_all(name: str) -> bool:
    """Tell whether it waits for all streams."""
    return bool(_WAITS_FOR_ALL.match(name))


def is_poll(name: str) -> bool:
    """Tell whether a call asks if something is done, and returns at once."""
    return bool(_POLL.search(name))


def only_looks(name: str) -> bool:
    """Tell whether a call has no effect on what a device does, and does not wait for it."""
    return bool(_LOOK.search(name))


def parse_number(value: Any) -> float:
    """Read the finite number that a field holds; NaN for anything else."""
    if type(value) is float and math.isfinite(value):  # nearly all are
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def read_whole(value: Any) -> int | None:
    """Read the whole number that a field holds, or None."""
    if type(value) is int:
        return value
    found = parse_number(value)
    return int(found) if found.is_integer() else None


def read_count(value: Any) -> int:
    """Read a number of things, which fits 32 bits; 0 for anything else."""
    found = read_whole(value) or 0
    return found if 0 <= found < _MOST else 0


# Microseconds that a clock shows at most: some 3,000 years.
_MOST_US = 1e17
# Who asks for so long whether work is done waits for it.
_POLLING_S = 50e-6


@dataclass(slots=True)
class Span:
    """An event with a duration; times are seconds since the first of the trace.

    Attributes:
        name: What was called, or ran.
        category: ``OPERATOR`` to ``MEMSET``.
        process: That wrote the event; of a kernel often the number of its GPU.
        start: Seconds.
        end: Seconds.
        correlation: Of a call of the runtime and of what it launched.
        event: The event.
        waits: Whether it stands for calls that asked until work was done.
    """

    name: str
    category: str
    process: Hashable
    start: float
    end: float
    correlation: int | None
    event: Event
    waits: bool = False

    @property
    def thread(self) -> tuple[Hashable, Hashable]:
        """Process and thread."""
        return self.process, make_key(self.event.tid)


def make_span(event: Event, role: str, findings: FaultCounts) -> Span | None:
    """Make the span of an event; None, and counted, if its name or its times cannot be believed."""
    name = clean_text(event.name) if isinstance(event.name, str) else ""
    if not name:
        findings.add("malformed")
        return None
    start, duration = parse_number(event.ts), parse_number(event.dur)
    if not (abs(start) < _MOST_US and abs(duration) < _MOST_US):
        findings.add("unreadable_time")
        return None
    if duration < 0:
        findings.add("negative_duration")
        return None
    correlation = read_whole(event.args.correlation)
    return Span(name, role, make_key(event.pid), start * 1e-6, (start + duration) * 1e-6, correlation, event)


def clean_text(value: Any) -> str:
    """Return a text that can be written: JSON can have halves of characters."""
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def make_key(value: Any) -> Hashable:
    """Return what tells processes, threads and streams apart."""
    return value if isinstance(value, int) else clean_text(value)


def drop_waiting_threads(spans: list[Span], findings: FaultCounts) -> list[Span]:
    """Leave out the calls of threads that only wait for work, or ask for it, such as watchdogs.

    Nothing waits for them, but their calls would keep the times at which they were made. Annotations stay.
    """
    works, waits = set[Hashable](), set[Hashable]()
    for span in spans:
        if span.category == RUNTIME and (is_poll(span.name) or is_wait(span.name)):
            waits.add(span.thread)
        elif span.category == OPERATOR or (span.category == RUNTIME and not only_looks(span.name)):
            works.add(span.thread)
    idle = waits - works
    if idle:
        findings.unknown.append(
            f"{len(idle):,} threads only wait for work, or ask whether it is done: their calls are left out."
        )
    return [span for span in spans if span.category != RUNTIME or span.thread not in idle]


def merge_polls(spans: list[Span], findings: FaultCounts) -> list[Span]:
    """Take calls of a thread that ask again and again until work is done for one that waits for it.

    A few calls at once, as of an allocator that looks for memory that is free again, wait for nothing.

    Args:
        spans: In the order of their starts.
        findings: Told how many there are.
    """
    threads = defaultdict[Hashable, list[Span]](list)
    for span in spans:
        if span.category in (OPERATOR, RUNTIME):
            threads[span.thread].append(span)
    done = np.sort([span.end for span in spans if span.category in DEVICE])
    replaced, waits = set[int](), 0
    for calls in threads.values():
        for looks, run in groupby(calls, lambda span: span.category == RUNTIME and only_looks(span.name)):
            several = list(run)
            polls = [i for i, span in enumerate(several) if looks and is_poll(span.name)]
            if len(polls) < 2:
                continue
            several = several[polls[0] : polls[-1] + 1]
            first, last = several[0], several[-1]
            ended = np.searchsorted(done, [first.start, last.end])
            if last.end - first.start > _POLLING_S and ended[0] < ended[1]:
                last.start, last.waits = first.start, True
                replaced.update(id(span) for span in several[:-1])
                waits += 1
    if waits:
        findings.unknown.append(f"{waits:,} times a thread asks until work is done: that counts as a wait.")
    kept = [span for span in spans if id(span) not in replaced]
    return sorted(kept, key=lambda span: (span.start, -span.end))


def find_processes(spans: list[Span]) -> None:
    """Tell which process launched what ran on a device, if there are several and the event does not say it.

    Calls and kernels of one correlation belong together in the order of their starts.

    Args:
        spans: In the order of their starts.
    """
    calls, launched = defaultdict[int, list[Span]](list), defaultdict[int, list[Span]](list)
    for span in spans:
        if span.correlation is not None and span.category == RUNTIME:
            calls[span.correlation].append(span)
    hosts = {span.process for several in calls.values() for span in several}
    if len(hosts) < 2:
        return
    for span in spans:
        if span.correlation in calls and span.category in DEVICE and span.process not in hosts:
            launched[span.correlation or 0].append(span)
    for correlation, found in launched.items():
        among = calls[correlation]
        for i, span in enumerate(found):
            before = [call for call in among if call.start <= span.start] or among
            span.process = (among[i] if len(among) == len(found) else before[-1]).process
