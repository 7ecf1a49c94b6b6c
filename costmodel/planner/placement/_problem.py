"""A placement problem: layers or operators of a model, and devices."""

from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from math import ceil, inf, isfinite
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import DependencyKind, KernelGraph
from costmodel.reading import read_json

_MOST = 1e18  # of a time or of bytes: sums stay numbers
_Count = Annotated[int, msgspec.Meta(ge=0, le=1000)]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A layer or an operator.

    All times of a problem have the same unit, that of its file.

    Attributes:
        id: Unique in its problem.
        latency: On an accelerator of speed 1; infinite where none supports it.
        cpu_latency: On a CPU core; infinite where it cannot run there.
        memory: Whole bytes that it takes on an accelerator.
        transfer: Time to move its output between an accelerator and the host's memory.
        colour: Nodes of one colour stay on one device; None: it is free.
        backward: Whether it belongs to the backward pass of a training graph.
        name: For readers.
        sm_latency: Latencies on slices by their SMs, as recorded; empty where only ``latency`` is known.
    """

    id: int
    latency: float
    cpu_latency: float = inf
    memory: float = 0.0
    transfer: float = 0.0
    colour: int | None = None
    backward: bool = False
    name: str = ""
    sm_latency: dict[int, float] = {}

    def on_sms(self, sms: int) -> float:
        """Interpolate the recorded latency on so many SMs: its log is linear in the log of the SMs.

        Beyond the fewest or the most SMs that were recorded, the work spreads over SMs evenly.
        """
        from costmodel.planner._latencies import between_sms  # loads pandas, which files of nodes go without

        known = tuple(sorted(self.sm_latency))
        nearest = min(max(sms, known[0]), known[-1])
        recorded = np.array([[self.sm_latency[each] for each in known]])
        return float(between_sms(recorded, known, nearest)[0]) * nearest / sms


class PlacementDevice(msgspec.Struct, frozen=True, kw_only=True):
    """An accelerator, a slice of its SMs, or a CPU core.

    Attributes:
        name: Unique in its problem.
        is_cpu: Whether it is a core: its memory is not limited, and it pays for no transfer.
        memory: Bytes.
        speed: Latencies of nodes are divided by it: the share of the SMs that a slice has. What was recorded
            on the SMs of a slice is not.
        sms: Of a slice; 0 if it is none.
    """

    name: str
    is_cpu: bool = False
    memory: float = inf
    speed: float = 1.0
    sms: int = 0

    def latency(self, node: Node) -> float:
        """Return the time of a node here; infinite where it cannot run."""
        if self.sms and node.sm_latency:
            return node.on_sms(self.sms)
        return (node.cpu_latency if self.is_cpu else node.latency) / self.speed


class PlacementProblem(msgspec.Struct, frozen=True):
    """A graph of nodes, and the devices that share it.

    Attributes:
        nodes: In any order.
        edges: Pairs of ids, from a node to one that reads its output.
        devices: At least one; in a latency problem one CPU stands for as many cores as the graph is wide.

    Raises:
        CostModelError: A number is negative or not a number, an id is unknown or stands twice, edges go in a
            circle, or a node runs nowhere.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    devices: tuple[PlacementDevice, ...]

    def __post_init__(self) -> None:
        _check_unique("A node's id", [node.id for node in self.nodes])
        _check_unique("A device's name", [device.name for device in self.devices])
        for node in self.nodes:
            _check_node(node)
        for device in self.devices:
            _check_device(device)
        known = {node.id for node in self.nodes}
        for edge in self.edges:
            if not known.issuperset(edge):
                raise CostModelError(f"An edge must join nodes of the graph, but got {edge[0]} to {edge[1]}.")
        _check_acyclic(self)
        _check_each_fits(self)


def slices(sms: tuple[int, ...], memory: float) -> tuple[PlacementDevice, ...]:
    """Make accelerators that have so many SMs each.

    The largest has speed 1: latencies of nodes must be those on so many SMs. Where a node has none that were
    recorded on slices, its work is taken to be spread over SMs evenly.

    Example:
        >>> [device.speed for device in slices((132, 66), memory=80e9)]
        [1.0, 0.5]
    """
    if not sms or min(sms) < 1:
        raise CostModelError(
            f"A slice must have at least one SM, but got {', '.join(map(str, sms)) or 'none'}."
        )
    return tuple(
        PlacementDevice(name=f"accelerator {i}", memory=memory, speed=count / max(sms), sms=count)
        for i, count in enumerate(sms, 1)
    )


def kernel_nodes(on_sms: Mapping[int, KernelGraph]) -> tuple[tuple[Node, ...], tuple[tuple[int, int], ...]]:
    """Make nodes, in microseconds, of the kernels of a model as it runs on each number of SMs.

    Slices share the memory of their GPU, so that nothing is moved between them.

    Args:
        on_sms: The same graph with its latencies on each number of SMs.

    Returns:
        The nodes, and edges between those of which one reads what the other wrote.
    """
    graph = on_sms[max(on_sms)]
    curves = {sms: 1e6 * each.durations_s for sms, each in on_sms.items()}
    nodes = tuple(
        Node(
            id=i,
            latency=float(curves[max(curves)][i]),
            name=graph.names[graph.name_ids[i]],
            sm_latency={sms: float(times[i]) for sms, times in curves.items()},
        )
        for i in range(len(graph))
    )
    reads = graph.dependencies.where(graph.dependencies.kinds == DependencyKind.DATA)
    return nodes, tuple(zip(reads.sources.tolist(), reads.targets.tolist(), strict=True))


def colours(problem: PlacementProblem) -> list[list[int]]:
    """Find the positions of nodes that stay together, in the order of their first."""
    found: dict[object, list[int]] = {}
    for i, node in enumerate(problem.nodes):
        found.setdefault(("free", node.id) if node.colour is None else node.colour, []).append(i)
    return list(found.values())


def _check_unique(what: str, names: list[int] | list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CostModelError(f"{what} must occur once, but {twice[0]!r} occurs more often.")


def _check_node(node: Node) -> None:
    for name in ("latency", "cpu_latency", "memory", "transfer"):
        value = getattr(node, name)
        if not 0 <= value < _MOST and not (value == inf and name.endswith("latency")):
            raise CostModelError(
                f"Node {node.id}: {name} must be at least 0 and below 1e18, but got {value}."
            )
    for sms, time in node.sm_latency.items():
        if sms < 1 or not 0 < time < _MOST:
            raise CostModelError(
                f"Node {node.id}: on at least one SM it must take more than 0 and less than 1e18, "
                f"but takes {time} on {sms}."
            )
    if not float(node.memory).is_integer():
        raise CostModelError(f"Node {node.id}: memory must be whole bytes, but got {node.memory}.")


def _check_device(device: PlacementDevice) -> None:
    if not (isfinite(device.speed) and device.speed > 0 and device.memory >= 0):
        raise CostModelError(
            f"{device.name}: speed must be above 0 and memory at least 0, "
            f"but got {device.speed} and {device.memory}."
        )


def _check_acyclic(problem: PlacementProblem) -> None:
    graph = TopologicalSorter({node.id: () for node in problem.nodes})
    for source, target in problem.edges:
        graph.add(target, source)
    try:
        graph.prepare()
    except CycleError as error:
        circle = " to ".join(map(str, error.args[1]))
        raise CostModelError(f"Edges must not form a cycle, but got {circle}.") from None


def _check_each_fits(problem: PlacementProblem) -> None:
    """What stays together must have a device that takes it: otherwise no placement is possible."""
    if not problem.devices:
        raise CostModelError("There must be a device to place on, but got none: add an accelerator or a CPU.")
    for members in colours(problem):
        nodes = [problem.nodes[i] for i in members]
        running = [each for each in problem.devices if all(each.latency(node) < inf for node in nodes)]
        memory = sum(node.memory for node in nodes)
        if not running:
            raise CostModelError(f"{_called(nodes)} must run on some device, but runs on none: add a CPU.")
        if all(not each.is_cpu and each.memory < memory for each in running):
            largest = max(each.memory for each in running)
            raise CostModelError(
                f"{_called(nodes)} must fit into a device that runs it, but takes {memory:,.0f} bytes "
                f"and the largest has {largest:,.0f}: give accelerators more memory, or add a CPU."
            )


def _called(nodes: list[Node]) -> str:
    if len(nodes) == 1:
        return f"Node {nodes[0].id}"
    return f"Colour {nodes[0].colour} (nodes {', '.join(str(node.id) for node in nodes)})"


_File = TypeVar("_File")


class _Node(msgspec.Struct, frozen=True, rename="camel"):
    id: int
    cpu_latency: float
    fpga_latency: float
    supported_on_fpga: bool = True
    is_backward_node: bool = False
    color_class: int | None = None
    size: float = 0.0
    name: str = ""
    sm_latency: dict[int, float] = {}


class _Edge(msgspec.Struct, frozen=True, rename="camel"):
    source_id: int
    dest_id: int
    cost: float


class _Graph(msgspec.Struct, frozen=True):
    max_memory: float = msgspec.field(name="maxSizePerFPGA")
    accelerators: _Count = msgspec.field(name="maxFPGAs")
    cpus: _Count = msgspec.field(name="maxCPUs")
    nodes: list[_Node]
    edges: list[_Edge]


class _Machine(msgspec.Struct, frozen=True):
    nodes: list[int]


class _Split(msgspec.Struct, frozen=True):
    cpus: list[_Machine]
    fpgas: list[_Machine]


def read_placement(path: Path) -> PlacementProblem:
    """Read a problem as it is published; times keep the unit of the file.

    Reference: J. Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS
    2020; https://github.com/msr-fiddle/dnn-partitioning describes the format.

    Args:
        path: JSON file. Accelerators are called FPGAs in it, of whatever kind they are.

    Raises:
        CostModelError: It is no such file, or no problem: see ``PlacementProblem``.
    """
    graph = _decode(path, _Graph, "a placement problem of dnn-partitioning")
    transfer: dict[int, float] = {}
    for edge in graph.edges:
        if abs(transfer.setdefault(edge.source_id, edge.cost) - edge.cost) > 1e-6:
            raise CostModelError(
                f"{path}: edges from a node move one output and must have one cost, but those from node "
                f"{edge.source_id} have {transfer[edge.source_id]} and {edge.cost}."
            )
    try:
        return PlacementProblem(
            tuple(_node(node, transfer.get(node.id, 0.0)) for node in graph.nodes),
            tuple((edge.source_id, edge.dest_id) for edge in graph.edges),
            (
                *(
                    PlacementDevice(name=f"accelerator {i + 1}", memory=graph.max_memory)
                    for i in range(graph.accelerators)
                ),
                *(PlacementDevice(name=f"cpu {i + 1}", is_cpu=True) for i in range(graph.cpus)),
            ),
        )
    except CostModelError as error:
        raise CostModelError(f"{path}: {error}") from None


def read_placed_nodes(path: Path, problem: PlacementProblem) -> dict[int, str]:
    """Read where a published placement, such as an expert's, puts each node.

    A backward node that it leaves out goes with the forward nodes of its colour, so that one of inference
    serves training.

    Returns:
        Name of the device of each node.

    Raises:
        CostModelError: It is no such file, has more devices than the problem, or leaves a node out.
    """
    split = _decode(path, _Split, "a placement in the JSON of dnn-partitioning")
    device_of: dict[int, str] = {}
    for is_cpu, machines in ((False, split.fpgas), (True, split.cpus)):
        names = [device.name for device in problem.devices if device.is_cpu == is_cpu]
        used = [machine.nodes for machine in machines if machine.nodes]
        if len(used) > len(names):
            kind = "CPUs" if is_cpu else "accelerators"
            raise CostModelError(f"{path}: it must use at most {len(names)} {kind}, but uses {len(used)}.")
        device_of.update({node: name for nodes, name in zip(used, names, strict=False) for node in nodes})
    of_colour = {node.colour: device_of[node.id] for node in problem.nodes if node.id in device_of}
    placed = {
        node.id: device_of.get(node.id) or (of_colour.get(node.colour) if node.colour is not None else None)
        for node in problem.nodes
    }
    missing = [node for node, device in placed.items() if device is None]
    if missing:
        raise CostModelError(f"{path}: every node must be placed, but node {missing[0]} is not.")
    return {node: device for node, device in placed.items() if device is not None}


def _decode(path: Path, kind: type[_File], what: str) -> _File:
    return read_json(path, kind, what, strict=False)


def _node(node: _Node, transfer: float) -> Node:
    return Node(
        id=node.id,
        latency=node.fpga_latency if node.supported_on_fpga else inf,
        cpu_latency=node.cpu_latency,
        memory=ceil(node.size),
        transfer=transfer,
        colour=node.color_class,
        backward=node.is_backward_node,
        name=node.name,
        sm_latency=node.sm_latency if node.supported_on_fpga else {},
    )
