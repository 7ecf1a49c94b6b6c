"""Networks run node by node on streams, and captured as CUDA graphs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import torch
from networks import NETWORKS
from torch import Tensor, fx, nn
from torch.profiler import record_function

# Cycles of the GPU in a second, at most, and how many times as long as a launch took it is kept busy with
# them while what is timed is queued, half a millisecond at least.
_CYCLES_PER_S, _QUEUEING, _LEAST_QUEUEING_S = 2e9, 3.0, 0.5e-3


@dataclass(frozen=True)
class Placement:
    """Which stream runs which node, in the order in which they are launched.

    Attributes:
        order: Names of nodes.
        stream_of: Number of each node's stream.
    """

    order: Sequence[str]
    stream_of: Mapping[str, int]


@dataclass(frozen=True)
class Program:
    """A network of nodes, and its input.

    Attributes:
        module: Its nodes are those of ``nodes``, and others that hold no work.
        x: The input.
        nodes: By name, in program order.
        needs: Names of the nodes that each needs.
    """

    module: fx.GraphModule
    x: Tensor
    nodes: dict[str, fx.Node]
    needs: dict[str, list[str]]

    @classmethod
    def of(cls, name: str, device: str, *, half: bool) -> "Program":
        """A network of ``NETWORKS`` with weights drawn at random, channels last; norms stay in float32."""
        torch.manual_seed(0)
        make, shape = NETWORKS[name]
        module = make().to(device, memory_format=torch.channels_last)
        x = torch.randn(shape, device=device).to(memory_format=torch.channels_last)
        norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        module.train()(x)  # norms know this input from now on, so that no result vanishes
        module.eval()
        if half:
            module, x = module.half(), x.half()
            for norm in norms:
                norm.float()
        traced = fx.symbolic_trace(module)
        nodes = {node.name: node for node in traced.graph.nodes if node.op.startswith("call_")}
        needs = {
            name: [each.name for each in node.all_input_nodes if each.name in nodes]
            for name, node in nodes.items()
        }
        if device == "cuda":
            torch.cuda.synchronize()  # it is run on other streams than it is made on
        return cls(traced, x, nodes, needs)

    def warm_up(self, streams: "Streams") -> None:
        """Run it some times."""
        for _ in range(3):
            self.run(self.in_turn, streams)

    @property
    def in_turn(self) -> Placement:
        """All on one stream, in program order."""
        return Placement(list(self.nodes), dict.fromkeys(self.nodes, 0))

    def run(self, placement: Placement, streams: "Streams", *, annotate: bool = False) -> dict[str, Any]:
        """Launch all nodes; their values, all of which must live until the streams are done."""
        values: dict[str, Any] = {}
        streams.begin()
        for name in placement.order:
            stream = placement.stream_of[name]
            foreign = [each for each in self.needs[name] if placement.stream_of[each] != stream]
            streams.wait(stream, foreign)
            with streams.on(stream), record_function(name) if annotate else nullcontext():
                values[name] = self.call(self.nodes[name], values)
            streams.ended(stream, name)
        streams.join()
        return values

    def result(self, values: Mapping[str, Any]) -> Tensor:
        """What the network gives."""
        (output,) = (node for node in self.module.graph.nodes if node.op == "output")
        found: Tensor = values[output.args[0].name]
        return found

    def call(self, node: fx.Node, values: Mapping[str, Any]) -> Any:
        """What a node computes of the values of others."""

        def value(each: fx.Node) -> Any:
            return values.get(each.name, self.x)

        args, kwargs = fx.map_arg(node.args, value), fx.map_arg(node.kwargs, value)
        if node.op == "call_module":
            return self.module.get_submodule(str(node.target))(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]


class Streams:
    """Streams of a device, of which the first is the main one; on a CPU all is done in turn."""

    def __init__(self, device: str, most: int) -> None:
        self.is_cuda = device == "cuda"
        self.streams = [torch.cuda.Stream() for _ in range(most)] if self.is_cuda else []
        self._events: dict[str, Any] = {}
        self._last: dict[int, str] = {}
        self._first: Any = None

    @property
    def main(self) -> Any:
        """The stream that waits for the others."""
        return self.streams[0] if self.is_cuda else None

    def begin(self) -> None:
        """Nothing was launched yet."""
        self._events, self._last = {}, {}
        self._first = self.main.record_event() if self.is_cuda else None

    def wait(self, stream: int, nodes: Sequence[str]) -> None:
        """Let a stream wait for nodes of others, and for the beginning."""
        if not self.is_cuda:
            return
        for event in [
            *([] if stream in self._last else [self._first]),
            *(self._events[each] for each in nodes),
        ]:
            self.streams[stream].wait_event(event)

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Launch what follows on a stream."""
        with torch.cuda.stream(self.streams[stream]) if self.is_cuda else nullcontext():
            yield

    def ended(self, stream: int, node: str) -> None:
        """A node has been launched: others may wait for it."""
        self._last[stream] = node
        if self.is_cuda:
            self._events[node] = self.streams[stream].record_event()

    def join(self) -> None:
        """Let the main stream wait for all others."""
        for stream, node in self._last.items():
            if self.is_cuda and stream:
                self.main.wait_event(self._events[node])


@dataclass(frozen=True)
class Captured:
    """A way to run a network, ready to be timed.

    Attributes:
        replay: Runs it.
        values: What it computes; kept, as kernels of other streams may still read what a node has let go of.
    """

    replay: Callable[[], Any]
    values: Any = field(repr=False)


def captured(run: Callable[[], Any], streams: Streams) -> Captured:
    """What a call launches, as one CUDA graph; on a CPU the call itself."""
    if not streams.is_cuda:
        return Captured(run, run())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=streams.main):
        values = run()
    return Captured(graph.replay, values)


def interleaved_s(ways: Mapping[str, Captured], rounds: int, streams: Streams) -> dict[str, list[float]]:
    """Medians of the first and of the second half of the rounds; in each, every way is timed once."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    launch_s = {name: launched_in_s(way.replay, streams) for name, way in ways.items()}
    for turn in range(rounds):
        names = list(ways) if turn % 2 else list(ways)[::-1]
        for name in names:
            times[name].append(seconds(ways[name].replay, streams, launch_s[name]))
    return {name: [median(each[: rounds // 2]), median(each[rounds // 2 :])] for name, each in times.items()}


def launched_in_s(replay: Callable[[], Any], streams: Streams) -> float:
    """Seconds of the host for a launch, after the first, which prepares the others."""
    if not streams.is_cuda:
        return 0.0
    with torch.cuda.stream(streams.main):
        replay()
        torch.cuda.synchronize()
        began = perf_counter()
        replay()
        found = perf_counter() - began
        torch.cuda.synchronize()
    return found


def seconds(replay: Callable[[], Any], streams: Streams, launch_s: float) -> float:
    """Of the device, from the start of what is launched to its end, all of it queued before it starts."""
    if not streams.is_cuda:
        began = perf_counter()
        replay()
        return perf_counter() - began
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(streams.main):
        torch.cuda._sleep(int(_CYCLES_PER_S * max(_QUEUEING * launch_s, _LEAST_QUEUEING_S)))
        first.record()
        replay()
        last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e-3
