"""Dependencies in a trace: launches, events, synchronising calls, and threads that wait for each other."""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from costmodel.planner.graphs._kernel_graph import DependencyKind, TaskKind, find_circles
from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs._trace_events import Event, is_wait, read_whole, waits_for_all
from costmodel.planner.graphs._trace_tasks import Call, Stream, Tasks, ThreadTasks
from costmodel.planner.graphs._trace_tracks import Tracks

# First task, second task, kind.
Link = tuple[int, int, DependencyKind]


def find_links(tasks: Tasks, tracks: Tracks, findings: FaultCounts) -> list[Link]:
    """Find all dependencies but for program order; starts of waits move to where these are over."""
    found = [(call.first, task, DependencyKind.LAUNCH) for call, task in tasks.launches]
    found += _stream_waits(tasks, tracks, findings)
    found += _host_waits(tasks, tracks, findings)
    found += _copy_waits(tasks)
    found += _between_threads(tasks, tracks)
    _count_dangling(tracks, findings)
    return found


def _stream_waits(tasks: Tasks, tracks: Tracks, findings: FaultCounts) -> Iterator[Link]:
    """A stream that waits for an event waits for what was launched before that was recorded."""
    guessed = 0
    for call in tasks.calls.values():
        if "StreamWaitEvent" not in call.span.name:
            continue
        wait = _Wait.of(call, tasks, tracks)
        target = wait.stream.first_after(call.span.start) if wait and wait.stream else None
        if wait is None or wait.record is None:
            guessed += 1
            yield from _guess_wait(call, tasks, tracks.resolution_s)
        elif wait.recorded is not None and target is not None:
            yield wait.recorded, target, DependencyKind.EVENT
    if guessed:
        findings.unknown.append(
            f"{guessed:,} waits of streams for events are guessed, as the trace does not say for which, or "
            "these were recorded before it: what is launched next waits for what ended last on another "
            "stream. Record it with experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)."
        )


def _guess_wait(call: Call, tasks: Tasks, resolution_s: float) -> Iterator[Link]:
    """Guess who waits for what: what is launched next, for what had been launched and ended last before it.

    This is how collectives are called: their stream waits for that of the caller, and that for theirs again.
    """
    streams = _streams_of(tasks, call.span.process)
    nexts = [(each, task) for each in streams if (task := each.first_after(call.span.start)) is not None]
    if not nexts:
        return
    waiting, target = min(nexts, key=lambda each: each[0].launched_s[each[1] - each[0].first])
    latest_s = tasks.pieces[target].start + resolution_s
    done = [
        source
        for each in streams
        if each is not waiting and (source := each.last_ended(call.span.start, latest_s)) is not None
    ]
    if done:
        yield max(done, key=lambda source: tasks.pieces[source].end), target, DependencyKind.EVENT


@dataclass(frozen=True)
class _Wait:
    """What the trace says that a call waits for.

    Attributes:
        stream: That waits, or that the host waits for.
        record: The call that recorded the event that is awaited, if it is part of the trace.
        recorded: The last task that was launched on its stream before.
    """

    stream: Stream | None
    record: Call | None
    recorded: int | None

    @classmethod
    def of(cls, call: Call, tasks: Tasks, tracks: Tracks) -> "_Wait | None":
        """Find what a call waits for; None if the trace does not say."""
        events = tracks.waits.get(call.span.correlation or 0, [])
        own = [event for event in events if event.pid == call.span.process] or events
        if not own:
            return None
        event, process = own[0], call.span.process
        record = tasks.calls.get((process, read_whole(event.args.wait_on_record) or 0))
        source = _stream(tasks, process, event, read_whole(event.args.wait_on_stream))
        recorded = source.last_before(record.span.start) if record and source else None
        return cls(_stream(tasks, process, event, read_whole(event.args.stream)), record, recorded)


def _stream(tasks: Tasks, process: Hashable, event: Event, number: int | None) -> Stream | None:
    device = read_whole(event.args.device) or 0
    of_process = _streams_of(tasks, process)
    return next((each for each in of_process if (each.device, each.number) == (device, number)), None)


def _streams_of(tasks: Tasks, process: Hashable) -> list[Stream]:
    """Streams of a process, and those of which nobody knows whose they are."""
    return [each for each in tasks.streams if each.process in (process, None)]


def _host_waits(tasks: Tasks, tracks: Tracks, findings: FaultCounts) -> list[Link]:
    found, unknown = list[Link](), 0
    for call in tasks.calls.values():
        if not (call.span.waits or is_wait(call.span.name)):
            continue
        awaited, is_known = _awaited(call, tasks, tracks)
        unknown += not is_known
        done = [each for each in awaited if tasks.pieces[each].end <= call.span.end + tracks.resolution_s]
        if is_known:
            findings.add("waited_too_short", len(awaited) - len(done))
        piece = tasks.pieces[call.last]
        over = max((tasks.pieces[each].end for each in done), default=piece.start)
        piece.start = min(max(piece.start, over), piece.end)
        found += [(each, call.last, DependencyKind.SYNC) for each in done]
    if unknown:
        findings.unknown.append(
            f"{unknown:,} synchronising calls are taken to wait for all streams that were done when they "
            "returned, as the trace does not say for which."
        )
    return found


def _awaited(call: Call, tasks: Tasks, tracks: Tracks) -> tuple[list[int], bool]:
    """The tasks that a synchronising call waits for, and whether that is known or guessed."""
    wait = _Wait.of(call, tasks, tracks)
    if wait and "Event" in call.span.name and wait.record:
        return [wait.recorded] if wait.recorded is not None else [], True
    stream = wait.stream if wait else None
    streams = [stream] if stream else _streams_of(tasks, call.span.process)
    last = (each.last_before(call.span.start) for each in streams)
    known = stream is not None or waits_for_all(call.span.name)
    return [each for each in last if each is not None], known


def _copy_waits(tasks: Tasks) -> list[Link]:
    """A call that returned when its copy was done waits for it."""
    return [
        (task, call.last, DependencyKind.SYNC)
        for call, task in tasks.launches
        if call.last > call.first and tasks.pieces[call.last].kind == TaskKind.SYNC
    ]


def _between_threads(tasks: Tasks, tracks: Tracks) -> Iterator[Link]:
    """Backward operators wait for their forward ones; a thread that was idle meanwhile waits for them."""
    at = {(thread.key, call.span.start): (thread, call) for thread in tasks.threads for call in thread.calls}
    ends: dict[Hashable, dict[bool, tuple[ThreadTasks, Call]]] = defaultdict(dict)
    for category, identity, is_start, process, number, time in tracks.flows:
        found = at.get(((process, number), time))
        if category == "fwdbwd" and found and isinstance(identity, int | str):
            ends[process, identity][is_start] = found
    helpers: dict[tuple[int, int], tuple[ThreadTasks, ThreadTasks, list[int]]] = {}
    for pair in ends.values():
        if len(pair) == 2 and pair[True][0] is not pair[False][0]:
            (forward_thread, forward), (backward_thread, backward) = pair[True], pair[False]
            yield forward.last, backward.first, DependencyKind.DATA
            key = (forward_thread.first, backward_thread.first)
            helpers.setdefault(key, (forward_thread, backward_thread, []))[2].append(backward.first)
    for thread, helper, begun in helpers.values():
        yield from _handed_back(tasks, thread, helper, begun)


def _handed_back(tasks: Tasks, thread: ThreadTasks, helper: ThreadTasks, begun: list[int]) -> Iterator[Link]:
    """Where a thread was idle while its helper did a backward pass, it waited for the helper's last task."""
    own = tasks.pieces[thread.first : thread.last + 1]
    other = tasks.pieces[helper.first : helper.last + 1]
    other_starts = np.array([piece.start for piece in other])
    other_ends = np.array([piece.end for piece in other])
    arrivals = np.sort([tasks.pieces[each].start for each in begun])
    for i, (before, after) in enumerate(pairwise(own), thread.first + 1):
        last = int(np.searchsorted(other_ends, after.called, side="right")) - 1
        arrived = np.searchsorted(arrivals, [before.end, after.called])
        idle_helper = last + 1 == len(other) or other_starts[last + 1] >= after.called
        if last >= 0 and other_starts[last] >= before.end and arrived[0] < arrived[1] and idle_helper:
            yield helper.first + last, i, DependencyKind.DATA


def _count_dangling(tracks: Tracks, findings: FaultCounts) -> None:
    """Count arrows to kernels that no call sent; those that end at calls say nothing of kernels."""
    sent, received = set[str](), set[str]()
    for category, identity, is_start, *thread, _ in tracks.flows:
        if category == "ac2g" and is_start:
            sent.add(str(identity))
        elif category == "ac2g" and tuple(thread) not in tracks.threads:
            received.add(str(identity))
    findings.add("dangling_flow", len(received - sent))


# What may be left out; a stream's or thread's own order and its launches are certain.
_UNCERTAIN = (DependencyKind.EVENT, DependencyKind.SYNC, DependencyKind.DATA)


def keep_believed(
    found: list[Link], tasks: Tasks, resolution_s: float, findings: FaultCounts
) -> NDArray[np.intp]:
    """Return ``(m, 3)`` first task, second task and kind of each dependency, those of program order first."""
    order = _program_order(tasks.resource_ids)
    all_links = np.concatenate([order, np.array(found, dtype=np.intp).reshape(-1, 3)])
    sources, targets, kinds = all_links.T
    uncertain = np.isin(kinds, _UNCERTAIN)
    circular = uncertain & find_circles(len(tasks.pieces), sources, targets)
    findings.add("waits_in_circles", int(circular.sum()))
    starts = np.array([piece.start for piece in tasks.pieces])
    ends = np.array([piece.end for piece in tasks.pieces])
    early = uncertain & ~circular & (starts[targets] < ends[sources] - resolution_s)
    findings.add("waited_too_short", int(early.sum()))
    launched = kinds == DependencyKind.LAUNCH
    findings.add(
        "starts_before_launch", int((launched & (starts[targets] < starts[sources] - resolution_s)).sum())
    )
    kept: NDArray[np.intp] = all_links[~(circular | early)]
    return kept


def _program_order(resource_ids: list[int]) -> NDArray[np.intp]:
    """Each task with the next of its resource; those of one resource stand together."""
    resources = np.array(resource_ids)
    (first,) = np.nonzero(resources[1:] == resources[:-1])
    return np.column_stack([first, first + 1, np.full(len(first), DependencyKind.ORDER)]).astype(np.intp)
