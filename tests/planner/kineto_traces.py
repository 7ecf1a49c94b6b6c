"""Traces as Kineto writes them, of a machine that is simulated call by call, apart from the code under test.

A host thread runs operators, each of which launches kernels; streams run what they got first in, first out.
All times are microseconds.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

LAUNCH_LATENCY, KERNEL_GAP, LAUNCH_COST = 4.5, 0.75, 5.25


@dataclass
class Machine:
    """One thread and its streams.

    Attributes:
        factors: What kernels take, by a part of their name, times what they are launched with.
        now: Time of the thread.
        events: What was traced.
        free: When each stream is free.
    """

    factors: dict[str, float] = field(default_factory=dict)
    now: float = 100.0
    events: list[dict[str, Any]] = field(default_factory=list)
    free: dict[int, float] = field(default_factory=dict)
    _must_wait: dict[int, float] = field(default_factory=dict)
    _recorded: dict[int, tuple[int, float]] = field(default_factory=dict)
    _ids: Any = field(default_factory=lambda: count(1000))

    def host(self, name: str, duration: float, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
        """A call that takes so long."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7, "ts": self.now, "dur": duration}
        self.events.append({**event, "args": args})
        self.now += duration
        return self.events[-1]

    def operator(self, name: str, kernel: str, duration: float, stream: int = 7, **args: Any) -> int:
        """An operator that works for 3 us, launches a kernel, and works for 2 us more."""
        event = self.host(name, 3.0, **args)
        correlation = self.launch(kernel, duration, stream)
        self.now += 2.0
        event["dur"] = self.now - event["ts"]
        return correlation

    def launch(self, name: str, duration: float, stream: int = 7, cat: str = "kernel") -> int:
        """A call that launches a kernel, which the stream runs as soon as it can."""
        correlation, called = next(self._ids), self.now
        call = "cudaLaunchKernel" if cat == "kernel" else "cudaMemcpyAsync"
        self.host(call, LAUNCH_COST, "cuda_runtime", correlation=correlation)
        self._run(name, duration, stream, called, correlation=correlation, cat=cat)
        return correlation

    def graph(self, kernels: Sequence[tuple[str, float]], stream: int = 7) -> int:
        """A call that launches a CUDA graph."""
        correlation, called = next(self._ids), self.now
        self.host("cudaGraphLaunch", LAUNCH_COST, "cuda_runtime", correlation=correlation)
        for node, (name, duration) in enumerate(kernels, 1):
            known = {"correlation": correlation, "cat": "kernel", "graph node id": node}
            self._run(name, duration, stream, called, **known)
        return correlation

    def copy_and_wait(self, duration: float, stream: int = 7) -> None:
        """``cudaMemcpyAsync`` from pageable memory: it returns 1 us after the copy is done."""
        correlation, called = next(self._ids), self.now
        name = "Memcpy DtoH (Device -> Pageable)"
        self._run(name, duration, stream, called, correlation=correlation, cat="gpu_memcpy")
        spent = self.free[stream] + 1.0 - called
        self.host("cudaMemcpyAsync", spent, "cuda_runtime", correlation=correlation)

    def record(self, stream: int) -> int:
        """``cudaEventRecord``; gives its correlation."""
        correlation = next(self._ids)
        self._recorded[correlation] = (stream, self.free.get(stream, 0.0))
        self.host("cudaEventRecord", 1.0, "cuda_runtime", correlation=correlation)
        return correlation

    def wait_event(self, stream: int, record: int) -> None:
        """``cudaStreamWaitEvent``, with the event that says what it waits for."""
        correlation = next(self._ids)
        source, until = self._recorded[record]
        self._must_wait[stream] = max(self._must_wait.get(stream, 0.0), until)
        self.host("cudaStreamWaitEvent", 1.0, "cuda_runtime", correlation=correlation)
        self._wait("Stream Wait Event", stream, correlation, source, record)

    def synchronize(self, call: str = "cudaDeviceSynchronize", stream: int | None = None) -> None:
        """The thread waits until a stream, or all, are done, and 2 us more."""
        correlation, began = next(self._ids), self.now
        over = max([self.free[stream]] if stream is not None else self.free.values(), default=0.0)
        self.host(call, max(over - began, 0.0) + 2.0, "cuda_runtime", correlation=correlation)
        if stream is not None:
            self._wait("Stream Sync", stream, correlation, -1, -1)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first start to the last end."""
        spans = [each for each in self.events if each["ph"] == "X" and each["cat"] != "cuda_sync"]
        first = min(each["ts"] for each in spans)
        return (max(each["ts"] + each["dur"] for each in spans) - first) * 1e-6

    def save(self, path: Path) -> Path:
        """Write the trace."""
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
        return path

    def _run(
        self,
        name: str,
        duration: float,
        stream: int,
        called: float,
        *,
        correlation: int,
        cat: str,
        **args: Any,
    ) -> None:
        start = max(called + LAUNCH_LATENCY, self._must_wait.pop(stream, 0.0))
        if stream in self.free:
            start = max(start, self.free[stream] + KERNEL_GAP)
        taken = duration
        for part, factor in self.factors.items():
            taken *= factor if part in name else 1.0
        self.free[stream] = start + taken
        known = {"device": 0, "stream": stream, "correlation": correlation, **args}
        event = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": taken}
        self.events.append({**event, "args": known})
        arrow = {"id": correlation, "cat": "ac2g", "name": "ac2g"}
        self.events.append({"ph": "s", "pid": 7, "tid": 7, "ts": called, **arrow})
        self.events.append({"ph": "f", "pid": 0, "tid": stream, "ts": start, "bp": "e", **arrow})

    def _wait(self, kind: str, stream: int, correlation: int, source: int, record: int) -> None:
        args = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": 0}
        args |= {"wait_on_stream": source, "wait_on_cuda_event_record_corr_id": record}
        event = {"ph": "X", "cat": "cuda_sync", "name": kind, "pid": 0, "tid": stream, "ts": self.now}
        self.events.append({**event, "dur": 1.0, "args": args})


def two_streams(machine: Machine, layers: int = 12) -> Machine:
    """Layers of long and short kernels, every third with a branch on another stream that is joined again."""
    for layer in range(layers):
        machine.operator("aten::mm", "sgemm_128x64", 60.0 if layer % 2 else 6.0)
        machine.now += 1.5
        if layer % 3 == 0:
            machine.wait_event(13, machine.record(7))
            machine.operator("aten::conv2d", "conv_fprop", 35.0, stream=13)
            machine.wait_event(7, machine.record(13))
        machine.operator("aten::add", "vectorized_elementwise_kernel", 2.5)
        machine.operator("aten::relu", "vectorized_elementwise_kernel", 2.0)
        if layer % 5 == 4:
            machine.synchronize("cudaStreamSynchronize", 7)
    machine.graph([("sgemm_graph", 11.0), ("softmax_graph", 3.0), ("sgemm_graph", 11.0)])
    machine.copy_and_wait(8.0)
    machine.operator("aten::mm", "sgemm_128x64", 40.0)
    machine.synchronize()
    return machine


def span(
    cat: str, name: str, ts: float, dur: float, *, tid: Any = 1, pid: Any = 1, **args: Any
) -> dict[str, Any]:
    """An event that takes a time; of a kernel, ``tid`` is its stream."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
