"""Traces of JAX and XLA: Chrome's JSON without categories, in which names of processes say what is a device.

``jax.profiler.trace`` writes them beside the protocol buffers, as ``*.trace.json.gz``.
"""

import re
from typing import Any

import msgspec

from costmodel.planner.graphs._trace_events import (
    ANNOTATION,
    COPY,
    KERNEL,
    MEMSET,
    OPERATOR,
    RUNTIME,
    Args,
    Event,
    Trace,
    make_event,
    read_whole,
)

_DEVICE = re.compile(r"/device:\w+:(\d+)")
_STREAM = re.compile(r"Stream #(\d+)")
_CALL = re.compile(r"(cu|cuda|hip)[A-Z]")
_WAIT = re.compile(r"BlockUntilReady|block_until_ready|Await")
_DETAIL = re.compile(r"(\w+):([\d,.]+)")


class _Args(msgspec.Struct, frozen=True, gc=False):
    name: Any = None
    correlation: Any = msgspec.field(name="correlation_id", default=None)
    details: Any = msgspec.field(name="kernel_details", default=None)
    graph_node: Any = msgspec.field(name="cuda_graph_node_id", default=None)
    step: Any = msgspec.field(name="step_num", default=None)


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: _Args = _Args()


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 (Chrome's name)


def is_of_xla(events: list[Event]) -> bool:
    """Tell whether events have no categories, as those of XLA."""
    return {"M", "X"} <= {event.ph for event in events if isinstance(event.ph, str)} and not any(
        event.cat for event in events
    )


def read_xla(data: bytes) -> Trace:
    """Read a trace whose events ``is_of_xla``: what ran on streams of devices, and calls of the host.

    Raises:
        msgspec.ValidationError: Fields have other types.
    """
    found = msgspec.json.decode(data.decode("utf-8", "replace"), type=_File).traceEvents
    named = {
        (event.name, event.pid, event.tid if event.name == "thread_name" else None): str(event.args.name)
        for event in found
        if event.ph == "M"
    }
    events = []
    for i, event in enumerate(found):
        if event.ph != "X" or not isinstance(event.name, str):
            continue
        device = _DEVICE.match(named.get(("process_name", event.pid, None), ""))
        track = named.get(("thread_name", event.pid, event.tid), "")
        kept = _on_device(event, int(device[1]), track) if device else _on_host(event, i)
        if kept:
            events.append(kept)
    return Trace(events, {}, has_host=any(event.cat == RUNTIME for event in events))


def _on_device(event: _Event, device: int, track: str) -> Event | None:
    """What ran on a stream; other tracks of a device repeat it by module and operator."""
    stream = _STREAM.match(track)
    if track and not stream:
        return None
    details = dict(_DETAIL.findall(event.args.details)) if isinstance(event.args.details, str) else {}
    sizes = {key: [read_whole(each) or 1 for each in details[key].split(",")] for key in details}
    kinds = (("memcpy", COPY), ("memset", MEMSET))
    kind = next((kind for begin, kind in kinds if event.name.lower().startswith(begin)), KERNEL)
    args = Args(
        correlation=event.args.correlation,
        stream=int(stream[1]) if stream else event.tid,
        device=device,
        grid=sizes.get("grid"),
        block=sizes.get("block"),
        registers=details.get("regs"),
        graph_node_id=event.args.graph_node,
    )
    return _made(event, kind, device, args)


def _on_host(event: _Event, number: int) -> Event | None:
    """A call; what Python's own tracer saw (``$file.py:1 f``) says the same once more.

    Waits have no correlation, which tells calls of a runtime apart: they get one that nothing else has.
    """
    if event.name.startswith("$"):
        return None
    if event.args.step is not None:
        return _made(event, ANNOTATION, event.pid, Args())
    if not (_CALL.match(event.name) or _WAIT.search(event.name)):
        return _made(event, OPERATOR, event.pid, Args())
    correlation = -1 - number if event.args.correlation is None else event.args.correlation
    return _made(event, RUNTIME, event.pid, Args(correlation=correlation))


def _made(event: _Event, kind: str, process: Any, args: Args) -> Event:
    duration = 0 if event.dur is None else event.dur  # Chrome leaves it out where it is 0
    return make_event(kind, event.name, (event.ts, duration), (process, event.tid), args)
