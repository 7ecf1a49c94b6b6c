"""The events of a Chrome trace: read whole where it is whole, else as far as it goes."""

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from costmodel.errors import CostModelError
from costmodel.planner.graphs._recorded_graph import Findings

# Categories of events, as Kineto names them.
HOST = frozenset(("cpu_op", "cuda_runtime", "cuda_driver", "user_annotation"))
RUNTIME = frozenset(("cuda_runtime", "cuda_driver"))
DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
WAITS = "cuda_sync"
ANNOTATION = "user_annotation"


def is_graph_launch(name: str) -> bool:
    """Whether a call launches a CUDA graph: many kernels share its correlation."""
    return "GraphLaunch" in name


def is_launch(name: str) -> bool:
    """Whether a call gives work to a stream, so that a kernel, copy or memset must have its correlation."""
    return "Launch" in name or "Memcpy" in name or "Memset" in name


def is_wait(name: str) -> bool:
    """Whether the host waits in a call until streams are done."""
    return "Synchronize" in name


def waits_for_all(name: str) -> bool:
    """Whether it waits for all streams."""
    return name.startswith(("cudaDevice", "cuCtx", "hipDevice", "hipCtx"))


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


class DeviceProperties(msgspec.Struct, frozen=True):
    """A GPU as Kineto describes it; 0 is what nobody knows."""

    id: int = -1
    num_sms: int = msgspec.field(name="numSms", default=0)
    warp_size: int = msgspec.field(name="warpSize", default=32)
    sm_threads: int = msgspec.field(name="maxThreadsPerMultiprocessor", default=0)
    sm_registers: int = msgspec.field(name="regsPerMultiprocessor", default=0)
    sm_shared_bytes: int = msgspec.field(name="sharedMemPerMultiprocessor", default=0)


class Trace(msgspec.Struct):
    """A file.

    Attributes:
        traceEvents: Its events.
        deviceProperties: Its GPUs.
    """

    traceEvents: list[Event]  # noqa: N815 (Chrome's name)
    deviceProperties: list[DeviceProperties] = []  # noqa: N815 (Kineto's name)

    @property
    def devices(self) -> dict[int, DeviceProperties]:
        """GPUs by their numbers, where the file says what they are."""
        return {device.id: device for device in self.deviceProperties}


def read_events(path: Path, findings: Findings) -> Trace:
    """A file, gzip or not; what stands behind a place that cannot be read is not among its events.

    Raises:
        CostModelError: The file cannot be opened, or holds no list of events.
    """
    data = _content(path, findings)
    kind: Any = list[Event] if data[:64].lstrip().startswith(b"[") else Trace
    try:
        found = msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:  # cut off, NaN, or fields of other types: event by event
        found = list(_salvaged(data, findings))
    trace: Trace = found if isinstance(found, Trace) else Trace(found)
    if not trace.traceEvents:
        raise CostModelError(
            f"A trace must hold a list traceEvents, as torch.profiler's export_chrome_trace writes it, but "
            f"{path} has no event: export it again."
        )
    return trace


def number(value: Any) -> float:
    """The finite number that a field holds; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def whole(value: Any) -> int | None:
    """The whole number that a field holds, or None."""
    found = number(value)
    return int(found) if found.is_integer() else None


def _content(path: Path, findings: Findings) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}. Name a trace.") from error
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, OSError):
        findings.add("truncated")
        return _unpacked_so_far(data)


def _unpacked_so_far(data: bytes) -> bytes:
    unpacker, parts = zlib.decompressobj(wbits=31), []
    try:
        for start in range(0, len(data), 1 << 16):
            parts.append(unpacker.decompress(data[start : start + (1 << 16)]))
    except zlib.error:
        pass
    return b"".join(parts)


def _salvaged(data: bytes, findings: Findings) -> Iterator[Event]:
    """Events one by one, until one cannot be read."""
    text = data.decode("utf-8", errors="replace")
    decoder = json.JSONDecoder(strict=False)
    place = text.find("[", max(text.find('"traceEvents"'), 0)) + 1
    while place:
        place = _skip(text, place)
        if text[place : place + 1] == "]":
            return
        try:
            found, place = decoder.raw_decode(text, place)
        except ValueError:
            findings.add("truncated", "truncated" not in findings.counts)
            return
        event = _event(found)
        if event is None:
            findings.add("malformed")
        else:
            yield event


def _skip(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\t", "\r", "\n", ","):
        place += 1
    return place


def _event(found: Any) -> Event | None:
    try:
        return msgspec.convert(found, Event)
    except msgspec.ValidationError:
        return None
