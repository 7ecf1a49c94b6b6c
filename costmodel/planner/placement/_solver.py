"""What the models for CP-SAT share: blocks of nodes, kinds of devices, costs as integers, the solver."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from math import floor, inf
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from costmodel.errors import MissingExtraError
from costmodel.planner.placement._problem import PlacementDevice, PlacementProblem, colours


@dataclass(frozen=True)
class Kind:
    """Devices that do not differ.

    Attributes:
        device: One of them.
        names: Of all.
    """

    device: PlacementDevice
    names: tuple[str, ...]


@dataclass(frozen=True)
class SharedValue:
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
    values: list[SharedValue]
    edges: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def runs(self) -> np.ndarray:
        """``(n, k)``: whether a block can be on a device of a kind."""
        capacity = [np.inf if kind.device.is_cpu else kind.device.memory for kind in self.kinds]
        return np.asarray(np.isfinite(self.latency) & (self.memory[:, None] <= np.array(capacity)))


def make_blocks(problem: PlacementProblem, *, contiguous: bool) -> Blocks:
    """Make blocks of colours; for a contiguous placement also of what lies between two nodes of a colour.

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


def _kinds(devices: Sequence[PlacementDevice]) -> list[Kind]:
    alike: dict[tuple[bool, float, float, int], list[PlacementDevice]] = {}
    for device in devices:
        alike.setdefault((device.is_cpu, device.memory, device.speed, device.sms), []).append(device)
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


def _values(problem: PlacementProblem, members: list[list[int]]) -> list[SharedValue]:
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
    return [SharedValue(blocks, cost) for blocks, cost in costs.items()]


# The value of a placement that is already known is so many units: finer than any latency is measured. With
# 2**30 the presolve of OR-tools 9.15 calls a problem infeasible that is not (the operator graph of BERT-3).
_UNITS = 2**24

Found = tuple[dict[int, str] | None, float]  # device of each node, if any were found, and the bound


def has_solver() -> bool:
    """Tell whether OR-tools is installed."""
    return find_spec("ortools") is not None


def import_cp_model() -> Any:
    """Import CP-SAT.

    Raises:
        MissingExtraError: OR-tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise MissingExtraError("Proving a placement", "planner") from error
    return cp_model


@dataclass(frozen=True)
class Scale:
    """Times as whole units, rounded down, so that what is proven of them holds for the exact times too.

    A bound is below the exact one by at most a unit for each block and each transfer.

    Attributes:
        known: Value of a placement that is known; nothing slower is searched for.
        count: How many units that is.
    """

    known: float
    count: int = _UNITS

    @property
    def unit(self) -> float:
        """Time of one unit."""
        return self.known / self.count or 1.0

    def units(self, time: float) -> int:
        """Convert to whole units; more than ``most`` for all that takes longer."""
        return min(floor(time / self.unit), self.count + 2)

    @property
    def most(self) -> int:
        """Units of what is known, and one for what sums of floats leave over."""
        return self.count + 1


@dataclass(frozen=True)
class Solved:
    """What the solver found.

    Attributes:
        solver: Its values; None if it found no placement.
        bound: No placement is better than this, in the times of the problem; infinite if there is none.
    """

    solver: Any
    bound: float


def solve(model: Any, scale: Scale, time_limit_s: float, seed: int) -> Solved:
    """Run CP-SAT with one worker, which takes the same way each time."""
    cp_model = import_cp_model()
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = max(time_limit_s, 0.0)
    # CP-SAT's handler would take Ctrl-C for a wish to end early, and stay in the place of Python's.
    solver.parameters.catch_sigint_signal = False
    status = _interruptible(solver, model)
    if status == cp_model.INFEASIBLE:
        return Solved(None, inf)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return Solved(solver if found else None, max(solver.best_objective_bound, 0.0) * scale.unit)


def _interruptible(solver: Any, model: Any) -> Any:
    """Solve beside this thread, which Ctrl-C could not reach in CP-SAT."""
    with ThreadPoolExecutor(1) as beside:
        solved = beside.submit(solver.solve, model)
        try:
            return solved.result()
        except BaseException:
            solver.stop_search()
            raise


class Slots:
    """For each item one of ``count`` slots in a row.

    Attributes:
        at: For each item a list of ``count`` literals, of which one is true.
    """

    def __init__(self, model: Any, items: int, count: int, *, ordered: bool) -> None:
        self._model = model
        self.at = [[model.new_bool_var("") for _ in range(count)] for _ in range(items)]
        for literals in self.at:
            model.add_exactly_one(literals)
        self._until = [self._prefixes(literals) for literals in self.at] if ordered else []

    def column(self, slot: int) -> list[Any]:
        """Return for each item the literal that it is in a slot."""
        return [literals[slot] for literals in self.at]

    def slot_of(self, solver: Any, item: int) -> int:
        """Find where the solver put an item."""
        return [solver.boolean_value(each) for each in self.at[item]].index(True)

    def add_order(self, edges: Sequence[tuple[int, int]]) -> None:
        """Let no edge lead to an earlier slot."""
        for u, v in edges:
            for before, after in zip(self._until[u], self._until[v], strict=True):
                self._model.add_implication(after, before)

    def _prefixes(self, literals: list[Any]) -> list[Any]:
        """For each slot but the last whether an item is in it or before."""
        until: list[Any] = []
        for literal in literals[:-1]:
            added = self._model.new_bool_var("")
            self._model.add(added == literal + (until[-1] if until else 0))
            until.append(added)
        return until


def add_kind_choice(model: Any, counts: Sequence[int]) -> list[list[Any]]:
    """Add for each slot a literal for each kind of device; one holds, as often as the kind has devices."""
    chosen = [[model.new_bool_var("") for _ in counts] for _ in range(sum(counts))]
    for literals in chosen:
        model.add_exactly_one(literals)
    for kind, count in enumerate(counts):
        model.add(sum(literals[kind] for literals in chosen) == count)
    return chosen


def device_names(solver: Any, chosen: list[list[Any]], kinds: Sequence[Kind]) -> list[str]:
    """Name the device of each slot: of its kind the next that is not taken."""
    free = [iter(kind.names) for kind in kinds]
    return [next(free[[solver.boolean_value(each) for each in literals].index(True)]) for literals in chosen]


def add_transfers(model: Any, blocks: Blocks, scale: Scale, mine: Sequence[Any]) -> Any:
    """Add up the units of all that crosses the border of a device that has the blocks whose literals hold."""
    return sum(
        scale.units(value.cost) * _crossing(model, [mine[block] for block in value.blocks])
        for value in blocks.values
        if scale.units(value.cost)
    )


def add_limits(model: Any, blocks: Blocks, kind: int, mine: Sequence[Any], here: Any) -> None:
    """Let a device have only what it runs and what fits into its memory, where it is of a kind."""
    for block in np.flatnonzero(~blocks.runs[:, kind]).tolist():
        model.add_implication(mine[block], here.negated())
    device = blocks.kinds[kind].device
    if not device.is_cpu and blocks.memory.sum() > device.memory:
        taken = sum(int(size) * literal for size, literal in zip(blocks.memory, mine, strict=True))
        model.add(taken <= int(device.memory)).only_enforce_if(here)


def _crossing(model: Any, members: Sequence[Any]) -> Any:
    """A literal that must hold where some of the members do but not all; the first is the writer."""
    crosses = model.new_bool_var("")
    writer, *readers = members
    for reader in readers:
        model.add_bool_or(crosses, writer.negated(), reader)
        model.add_bool_or(crosses, writer, reader.negated())
    return crosses
