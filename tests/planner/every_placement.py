"""The best of all placements of a small problem, one by one, and problems drawn at random."""

from itertools import permutations, product
from math import inf

import numpy as np

from costmodel.planner import Node, PlacementDevice, PlacementProblem


def draw(seed: int, *, largest: int = 10) -> PlacementProblem:
    """A random graph with colours and scarce memory on two accelerators and a CPU."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, largest + 1))
    colour = rng.integers(0, 2 * count, count)
    nodes = tuple(
        Node(
            id=10 * i + 3,
            latency=inf if rng.random() < 0.1 else float(rng.uniform(0.1, 4)),
            cpu_latency=float(rng.uniform(1, 12)),
            memory=int(rng.integers(0, 10)),
            transfer=float(rng.uniform(0, 1)),
            colour=int(colour[i]) if rng.random() < 0.5 else None,
        )
        for i in range(count)
    )
    edges = tuple(
        (nodes[i].id, nodes[j].id) for i in range(count) for j in range(i + 1, count) if rng.random() < 0.35
    )
    memory = max(9, int(sum(node.memory for node in nodes) * rng.uniform(0.4, 0.8)))
    speed = 1.0 if rng.random() < 0.6 else 0.5
    gpus = (PlacementDevice(name="a", memory=memory), PlacementDevice(name="b", memory=memory, speed=speed))
    return PlacementProblem(nodes, edges, (*gpus, PlacementDevice(name="c", is_cpu=True)))


class EveryPlacement:
    """All placements of a problem on up to three devices; written apart from what it is compared with."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        nodes, devices = problem.nodes, problem.devices
        at = {node.id: i for i, node in enumerate(nodes)}
        self.edges = [(at[u], at[v]) for u, v in problem.edges]
        self.device = np.array(list(product(range(len(devices)), repeat=len(nodes))))
        time = np.array(
            [[(n.cpu_latency if d.is_cpu else n.latency) / d.speed for d in devices] for n in nodes]
        )
        self.time = time[np.arange(len(nodes)), self.device]
        self.load = np.zeros((len(self.device), len(devices)))
        self.fits = np.isfinite(self.time).all(axis=1)
        for d, device in enumerate(devices):
            mine = self.device == d
            self.load[:, d] = np.where(mine, self.time, 0).sum(axis=1)
            if not device.is_cpu:
                self.fits &= mine @ np.array([node.memory for node in nodes]) <= device.memory
                self.load[:, d] += self._moved(mine)
        for i, one in enumerate(nodes):
            for j, other in enumerate(nodes):
                if one.colour is not None and one.colour == other.colour:
                    self.fits &= self.device[:, i] == self.device[:, j]

    def least_max_load(self, *, contiguous: bool) -> float:
        allowed = self.fits & self._in_some_order() if contiguous else self.fits
        return float(np.where(allowed, self.load.max(axis=1), inf).min())

    def least_latency(self) -> float:
        """Ends of nodes, moved on until nothing changes; what still does is a circle of devices."""
        cpu = np.array([device.is_cpu for device in self.problem.devices])[self.device]
        ends = np.where(cpu, self.time, np.take_along_axis(self.load, self.device, axis=1))
        for _ in range(2 * len(self.problem.nodes) + 2):
            before = ends
            ends = self._moved_on(before, cpu)
        steady = (ends == before).all(axis=1)
        return float(np.where(self.fits & steady, ends.max(axis=1), inf).min())

    def _moved(self, mine: np.ndarray) -> np.ndarray:
        total = np.zeros(len(mine))
        for i, node in enumerate(self.problem.nodes):
            readers = [v for u, v in self.edges if u == i]
            crosses = np.any([mine[:, i] != mine[:, v] for v in readers], axis=0) if readers else np.False_
            total += node.transfer * crosses
        return total

    def _in_some_order(self) -> np.ndarray:
        """Whether devices can be called one after the other."""
        found = np.zeros(len(self.device), dtype=bool)
        for order in permutations(range(len(self.problem.devices))):
            rank = np.array(order)[self.device]
            forward = [rank[:, u] <= rank[:, v] for u, v in self.edges]
            found |= np.all(forward, axis=0) if forward else np.True_
        return found

    def _moved_on(self, ends: np.ndarray, cpu: np.ndarray) -> np.ndarray:
        start = np.zeros_like(ends)
        for u, v in self.edges:
            waits = cpu[:, v] | (self.device[:, u] != self.device[:, v])
            start[:, v] = np.where(waits, np.maximum(start[:, v], ends[:, u]), start[:, v])
        for d, device in enumerate(self.problem.devices):
            if not device.is_cpu:
                mine = self.device == d
                latest = np.where(mine, start, 0).max(axis=1, keepdims=True)
                start = np.where(mine, latest, start)
        duration = np.where(cpu, self.time, np.take_along_axis(self.load, self.device, axis=1))
        return start + duration
