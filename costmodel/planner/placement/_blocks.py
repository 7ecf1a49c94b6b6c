"""A problem as arrays: blocks of nodes that stay together, kinds of devices, and values that blocks share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from costmodel.planner.placement._problem import Device, PlacementProblem, colours


@dataclass(frozen=True)
class Kind:
    """Devices that do not differ.

    Attributes:
        device: One of them.
        names: Of all.
    """

    device: Device
    names: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """What one block writes and others read.

    Attributes:
        blocks: The writer, then the readers.
        cost: Time to move it over the border of an accelerator that has some of these blocks but not all.
    """

    blocks: tuple[int, ...]
    cost: float


@dataclass(frozen=True)
class Blocks:
    """Nodes that stay together, ``n`` blocks, and ``k`` kinds of devices.

    Attributes:
        nodes: Ids of the nodes of each block.
        kinds: Of devices.
        latency: ``(n, k)``; infinite where a block cannot run.
        memory: ``(n,)`` bytes.
        values: That blocks share.
        edges: Pairs of blocks, from a forward node to a forward node that reads it.
    """

    nodes: list[list[int]]
    kinds: list[Kind]
    latency: np.ndarray
    memory: np.ndarray
    values: list[Value]
    edges: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def runs(self) -> np.ndarray:
        """``(n, k)``: whether a block can be on a device of a kind."""
        capacity = [np.inf if kind.device.is_cpu else kind.device.memory for kind in self.kinds]
        return np.asarray(np.isfinite(self.latency) & (self.memory[:, None] <= np.array(capacity)))


def blocks_of(problem: PlacementProblem, *, contiguous: bool) -> Blocks:
    """Colours as blocks; for a contiguous placement also what lies between two nodes of a colour.

    That is a strongly connected component of the graph of colours: a value that leaves it on a way back to it
    could not return to the same device.
    """
    members = colours(problem)
    if contiguous:
        parts = _components(len(members), _edges(problem, members))
        members = [[i for part in component for i in members[part]] for component in parts]
    kinds = _kinds(problem.devices)
    nodes = [[problem.nodes[i] for i in block] for block in members]
    return Blocks(
        [[node.id for node in block] for block in nodes],
        kinds,
        np.array([[sum(kind.device.latency(node) for node in block) for kind in kinds] for block in nodes]),
        np.array([sum(node.memory for node in block) for block in nodes]),
        _values(problem, members),
        _edges(problem, members),
    )


def _kinds(devices: Sequence[Device]) -> list[Kind]:
    alike: dict[tuple[bool, float, float], list[Device]] = {}
    for device in devices:
        alike.setdefault((device.is_cpu, device.memory, device.speed), []).append(device)
    return [Kind(each[0], tuple(device.name for device in each)) for each in alike.values()]


def _block_of(problem: PlacementProblem, members: list[list[int]]) -> dict[int, int]:
    return {problem.nodes[i].id: block for block, positions in enumerate(members) for i in positions}


def _edges(problem: PlacementProblem, members: list[list[int]]) -> list[tuple[int, int]]:
    block_of = _block_of(problem, members)
    forward = {node.id for node in problem.nodes if not node.backward}
    pairs = {(block_of[u], block_of[v]) for u, v in problem.edges if u in forward and v in forward}
    return sorted((u, v) for u, v in pairs if u != v)


def _components(count: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    rows, columns = zip(*edges, strict=True) if edges else ((), ())
    graph = coo_array((np.ones(len(edges)), (rows, columns)), shape=(count, count))
    parts, labels = connected_components(graph, connection="strong")
    return sorted(np.flatnonzero(labels == part).tolist() for part in range(parts))


def _values(problem: PlacementProblem, members: list[list[int]]) -> list[Value]:
    block_of = _block_of(problem, members)
    readers: dict[int, set[int]] = {}
    for u, v in problem.edges:
        readers.setdefault(u, set()).add(block_of[v])
    costs: dict[tuple[int, ...], float] = {}
    for node in problem.nodes:
        writer = block_of[node.id]
        shared = (writer, *sorted(readers.get(node.id, set()) - {writer}))
        if len(shared) > 1 and node.transfer > 0:
            costs[shared] = costs.get(shared, 0.0) + node.transfer
    return [Value(blocks, cost) for blocks, cost in costs.items()]
