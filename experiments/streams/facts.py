"""What is recorded of a network before it is scheduled: its kernels, alone, and what it costs to wait."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from runs import Captured, Program, Streams, captured, interleaved_s
from torch import nn
from torch.profiler import ProfilerActivity, profile

from costmodel.planner import KernelGraph
from costmodel.planner.graphs._json_graph import JsonTask
from costmodel.planner.graphs._kernel_graph import TaskKind
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._fuse import GRAPH_GAP_S
from costmodel.planner.whatif._sharing import WAIT_S

_TRACED = 3
_ROUNDS = 12
_STAGES = 32
_LAUNCH = ("sms", "blocks", "block_warps", "sm_blocks")
# Of an H100, for estimates on a machine that has none to look at.
_SMS, _TILE_FLOPS_PER_S, _BYTES_PER_S = 132, 1.5e12, 2e12

Kernel = dict[str, Any]


def recorded_tasks(network: str, device: str, folder: Path, *, half: bool) -> list[JsonTask]:
    """Tasks of a network, whose kernels ran one by one; a profiler slows down what its process does later."""
    with torch.no_grad():
        streams, program = Streams(device, 1), Program.of(network, device, half=half)
        program.warm_up(streams)
        found = kernels_of_nodes(program, streams, folder / "trace.json")
        named = {
            node: [each | {"name": f"{layer_of(program, node)} {each['name']}"} for each in kernels]
            for node, kernels in found.items()
        }
        return kernel_tasks(program.needs, named)


def layer_of(program: Program, name: str) -> str:
    """What a node is: ``Conv2d``, ``DepthwiseConv2d``, ``BatchNorm2d``, ``cat``."""
    node = program.nodes[name]
    if node.op != "call_module":
        return name.rstrip("_0123456789")
    layer = program.module.get_submodule(str(node.target))
    kind = type(layer).__name__
    return f"Depthwise{kind}" if getattr(layer, "groups", 1) > 1 else kind


def kernels_of_nodes(program: Program, streams: Streams, trace: Path) -> dict[str, list[Kernel]]:
    """Kernels that each node launches, in medians of some traced runs; on a CPU, what it would launch.

    Args:
        program: The network, warmed up.
        streams: Of the device.
        trace: File that is written, read and removed.
    """
    if not streams.is_cuda:
        values = program.run(program.in_turn, streams)
        return {name: estimated(program, name, values) for name in program.nodes}
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(_TRACED):
            program.run(program.in_turn, streams, annotate=True)
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(trace))
    graph = read_kineto(trace).graph
    trace.unlink()
    return by_scope(graph, set(program.nodes), _TRACED)


def by_scope(graph: KernelGraph, scopes: set[str], runs: int) -> dict[str, list[Kernel]]:
    """Kernels of each scope of a trace that holds so many runs of the same; durations are medians.

    Raises:
        RuntimeError: Kernels of a scope are not as many in each run.
    """
    tasks: dict[str, list[int]] = defaultdict(list)
    for task in range(len(graph)):
        scope = graph.scopes[graph.scope_ids[task]]
        if scope in scopes and graph.on_device[task]:
            tasks[scope].append(task)
    found = {}
    for scope, every in tasks.items():
        each, rest = divmod(len(every), runs)
        if rest:
            raise RuntimeError(
                f"{runs} runs must launch as many kernels each, but got {len(every)} of {scope}."
            )
        found[scope] = [_kernel(graph, every[i::each]) for i in range(each)]
    return found


def _kernel(graph: KernelGraph, runs: Sequence[int]) -> Kernel:
    task = runs[0]
    return {
        "name": graph.name(task),
        "kind": TaskKind(graph.kinds[task]).name.lower(),
        "duration_s": median(float(graph.durations_s[each]) for each in runs),
        **{key: int(getattr(graph, key)[task]) for key in _LAUNCH},
    }


def kernels_of_replay(way: Captured, streams: Streams) -> list[Kernel]:
    """Kernels of a replay of a CUDA graph, by their nodes of it; seconds count from the first kernel."""
    for _ in range(2):
        way.replay()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        with torch.cuda.stream(streams.main):
            way.replay()
        torch.cuda.synchronize()
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    kernels = [each for each in events if str(each.get("cat")) in ("kernel", "gpu_memset", "gpu_memcpy")]
    first = min(each["ts"] for each in kernels)
    found = [
        {
            "name": each["name"],
            "start_s": round((each["ts"] - first) * 1e-6, 9),
            "duration_s": round(each["dur"] * 1e-6, 9),
            "stream": each["args"].get("stream"),
            "node": each["args"].get("graph node id", 0),
        }
        for each in kernels
    ]
    return sorted(found, key=lambda each: (each["node"], each["start_s"]))


def estimated(program: Program, name: str, values: Mapping[str, Any]) -> list[Kernel]:
    """What a node would launch on an H100 in float16, roughly: tiles of 64 x 64, or what it writes."""
    node = program.nodes[name]
    layer = program.module.get_submodule(str(node.target)) if node.op == "call_module" else None
    if isinstance(layer, nn.Flatten):
        return []
    numbers = values[name].numel()
    found = {
        "name": "elementwise",
        "sms": _SMS,
        "blocks": -(-numbers // 1024),
        "block_warps": 4,
        "sm_blocks": 16,
    }
    if isinstance(layer, nn.Conv2d | nn.Linear) and getattr(layer, "groups", 1) == 1:
        outputs = layer.weight.shape[0]
        tiles = -(-numbers // outputs // 64) * -(-outputs // 64)
        found |= {"name": "xmma_f16f16_conv", "blocks": tiles, "sm_blocks": 4}
        rounds = -(-tiles // (4 * _SMS))
        return [
            found
            | {"duration_s": 2.5e-6 + rounds * layer.weight[0].numel() * 64 * 64 * 2 / _TILE_FLOPS_PER_S}
        ]
    return [found | {"duration_s": 2e-6 + 4 * numbers / _BYTES_PER_S}]


def kernel_tasks(
    needs: Mapping[str, Sequence[str]], kernels: Mapping[str, Sequence[Kernel]]
) -> list[JsonTask]:
    """A task for each node that launches kernels, with what it takes in a CUDA graph and what it needs.

    Kernels of one node count as one, on the SMs of the longest. A node without any passes on what it needs.

    Args:
        needs: Nodes that each needs, in an order that these allow.
        kernels: Of nodes, in the order in which they are launched.
    """
    behind: dict[str, list[str]] = {}
    tasks = []
    for node, needed in needs.items():
        after = sorted({each for name in needed for each in behind[name]})
        behind[node] = [node] if kernels.get(node) else after
        if kernels.get(node):
            longest = max(kernels[node], key=lambda each: each["duration_s"])
            taken = sum(each["duration_s"] for each in kernels[node]) + GRAPH_GAP_S * (len(kernels[node]) - 1)
            facts = longest | {"duration_s": taken, "gap_s": GRAPH_GAP_S}
            tasks.append(JsonTask(id=node, scope=node, after=after, **facts))
    return tasks


def waits_s(streams: Streams) -> dict[str, float]:
    """Seconds until a kernel of a CUDA graph starts that waits for one of another stream, by streams.

    A chain of kernels that do nothing takes so long for each; one that forks to some streams and joins them
    again after each kernel, so much more.
    """
    if not streams.is_cuda:
        return {"2": WAIT_S}
    with streams.on(0):
        numbers = [torch.zeros(32, device="cuda") for _ in streams.streams]
    ways = {"chain": captured(lambda: _forked(streams, numbers, 1), streams)}
    widths = [width for width in (2, 4, 8) if width <= len(numbers)]
    ways |= {
        str(width): captured(lambda width=width: _forked(streams, numbers, width), streams)
        for width in widths
    }
    times = {name: min(each) / _STAGES for name, each in interleaved_s(ways, _ROUNDS, streams).items()}
    return {
        name: max(each - times["chain"], 0.0) / 2 + GRAPH_GAP_S
        for name, each in times.items()
        if name != "chain"
    }


def _forked(streams: Streams, numbers: Sequence[torch.Tensor], width: int) -> None:
    """Stages of two kernels, of which the second is on each of some streams."""
    for _ in range(_STAGES):
        forked(streams, [lambda: numbers[0].add_(1)])
        forked(streams, [lambda each=each: each.add_(1) for each in numbers[:width]])


def forked(streams: Streams, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Calls on a stream each, between what the main stream had to do and what it will have to do."""
    begun = streams.main.record_event()
    values = []
    for stream, call in zip(streams.streams, calls, strict=False):
        stream.wait_event(begun)
        with torch.cuda.stream(stream):
            values.append(call())
            ended = stream.record_event()
        streams.main.wait_event(ended)
    return values


def pairs(program: Program, nodes: Sequence[str], streams: Streams) -> list[dict[str, Any]]:
    """What nodes take in turn and side by side, two by two, each pair again and again in a CUDA graph."""
    values = program.run(program.in_turn, streams)
    calls = {name: lambda name=name: program.call(program.nodes[name], values) for name in nodes}
    ways = {}
    for name in nodes:
        ways[(name,)] = captured(lambda name=name: [calls[name]() for _ in range(_STAGES)], streams)
    for pair in combinations(nodes, 2):
        both = [calls[name] for name in pair]
        ways[pair] = captured(lambda both=both: [forked(streams, both) for _ in range(_STAGES)], streams)
    times = interleaved_s({json.dumps(key): way for key, way in ways.items()}, _ROUNDS, streams)
    return [
        {"nodes": json.loads(key), "seconds": [each / _STAGES for each in halves]}
        for key, halves in times.items()
    ]
