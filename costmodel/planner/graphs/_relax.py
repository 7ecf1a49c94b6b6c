"""Kernel graphs of Relax modules: calls in dataflow order, with what needs what, and no time recorded."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.graphs._recorded_graph import Inspection, RecordedGraph
from costmodel.reading import detect, is_file
from costmodel.report._progress import track
from costmodel.workloads._programs import ModuleCall, calls_of, read_calls

if TYPE_CHECKING:
    from costmodel.planner._latencies import KernelLatency, Latencies

_STREAM = "stream 0"


def is_module_place(place: str) -> bool:
    """Tell whether a text names a module in a file: ``program.py:module``, or JSON that TVM wrote.

    Of JSON its first key tells: a trace, which is JSON too, may be as large as the memory.
    """
    path = Path(place)
    if ".py:" in place or path.suffix != ".json" or not is_file(path):
        return ".py:" in place
    found = detect(path)
    return found is not None and found.key == "tvm-program"


def read_relax(module: Any, latencies: "Latencies | None" = None, *, sms: int | None = None) -> RecordedGraph:
    """Read a kernel graph from a Relax module: each call becomes a kernel of one stream with its inputs.

    A kernel takes the recorded or predicted latency of the best known kernel of its workload on this number
    of SMs. If its workload is not an operator, a roofline gives the latency.

    Args:
        module: ``program.py:module``, ``program.py:module:function``, JSON of ``tvm.ir.save_json``, or a
            ``tvm.IRModule``. It is fused as Relax fuses it.
        latencies: Source of latencies. Default: ``open_latencies()``.
        sms: Number of SMs of the kernels. Default: the whole device.

    Raises:
        CostModelError: If there is no such module, it calls no kernel, or the device has fewer SMs.
        MissingExtraError: If TVM is not installed.
    """
    from costmodel.planner._predicted import open_latencies

    calls = read_calls(module) if isinstance(module, str) else calls_of(module)
    if not calls:
        raise CostModelError(f"A Relax module must call a kernel, but {module} calls none. Name another one.")
    known = open_latencies() if latencies is None else latencies
    on = known.on_device(sms)
    took = [_took(call, known, on) for call in track(calls, "latencies", len(calls))]
    tasks = [
        JsonTask(
            id=f"{i} {call.name}",
            duration_s=best.latency_s,
            name=call.workload.name if _is_operator(call) and call.workload else call.name,
            resource=_STREAM,
            after=[f"{each} {calls[each].name}" for each in call.after],
            sms=on,
            workload=call.workload.name if call.workload else "",
        )
        for i, (call, (_, best)) in enumerate(zip(calls, took, strict=True))
    ]
    graph = graph_of(tasks, "the module").assuming(*_sentences(calls, took, known, on), device=known.device)
    return RecordedGraph.unrecorded(graph, _inspection(calls))


def _took(call: ModuleCall, known: "Latencies", sms: int) -> "tuple[str, KernelLatency]":
    """Where the latency of a call comes from, and what it is."""
    from costmodel.planner._latencies import KernelLatency, RooflineLatencies

    table = known.kernels(call.workload) if call.workload else None
    best = table.best(sms) if table else None
    if table and best:
        return table.origin, best
    seconds = RooflineLatencies(known.device).moving_s(sms, call.moved_bytes)
    return "estimated", KernelLatency("", seconds, seconds, seconds)


def _is_operator(call: ModuleCall) -> bool:
    return call.workload is not None and not call.workload.is_program


def _inspection(calls: list[ModuleCall]) -> Inspection:
    """What of the calls is no operator, with counts."""
    others = Counter(call.name for call in calls if not _is_operator(call))
    named = ", ".join(f"{count} x {name}" for name, count in others.most_common())
    said = f"{others.total()} of {len(calls)} calls are of no operator that is known: {named}."
    return Inspection(len(calls), len(calls), {}, (said,) if others else ())


def _sentences(
    calls: list[ModuleCall], took: "list[tuple[str, KernelLatency]]", known: "Latencies", sms: int
) -> list[str]:
    """What the latencies are, one sentence an origin."""
    found = []
    said = {
        "recorded": "what was recorded of their best kernel",
        "predicted": "what a model predicts of the best kernel of a pool",
        "estimated": "a start and what a roofline says",
    }
    for origin, what in said.items():
        of = [(call, best) for call, (from_, best) in zip(calls, took, strict=True) if from_ == origin]
        if of:
            us = [
                1e6 * sum(getattr(best, f"{end}_s") for _, best in of) for end in ("latency", "low", "high")
            ]
            between = f"; the ends of their 90 % intervals add up to {us[1]:,.1f} and {us[2]:,.1f} us"
            found.append(
                f"{len(of)} calls of {len({call.name for call, _ in of})} kernels take {what} on {sms} SMs "
                f"of {known.device.name}: {us[0]:,.1f} us{between if us[1] < us[2] else ''}."
            )
    return [*found, "Kernels follow each other on one stream without gaps but what latencies hold."]
