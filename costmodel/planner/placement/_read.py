"""The JSON of Tarnawski et al. (NeurIPS 2020): problems, and placements that people made."""

from math import ceil, inf
from pathlib import Path
from typing import TypeVar

import msgspec

from costmodel.errors import CostModelError
from costmodel.planner.placement._problem import Device, Node, PlacementProblem

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


class _Edge(msgspec.Struct, frozen=True, rename="camel"):
    source_id: int
    dest_id: int
    cost: float


class _Graph(msgspec.Struct, frozen=True):
    max_memory: float = msgspec.field(name="maxSizePerFPGA")
    accelerators: int = msgspec.field(name="maxFPGAs")
    cpus: int = msgspec.field(name="maxCPUs")
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
    graph = _decode(path, _Graph)
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
                    Device(name=f"accelerator {i + 1}", memory=graph.max_memory)
                    for i in range(graph.accelerators)
                ),
                *(Device(name=f"cpu {i + 1}", is_cpu=True) for i in range(graph.cpus)),
            ),
        )
    except CostModelError as error:
        raise CostModelError(f"{path}: {error}") from None


def read_split(path: Path, problem: PlacementProblem) -> dict[int, str]:
    """Read where a published placement, such as an expert's, puts each node.

    A backward node that it leaves out goes with the forward nodes of its colour, so that one of inference
    serves training.

    Returns:
        Name of the device of each node.

    Raises:
        CostModelError: It is no such file, has more devices than the problem, or leaves a node out.
    """
    split = _decode(path, _Split)
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


def _decode(path: Path, kind: type[_File]) -> _File:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=kind, strict=False)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CostModelError(
            f"{path} must be a graph or a placement in the JSON of dnn-partitioning: {error}."
        ) from error


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
    )
