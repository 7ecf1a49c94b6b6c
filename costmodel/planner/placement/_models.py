"""Placement as models for CP-SAT: the least time of one sample, and the least load of the busiest device.

Notations of the first: the slots ``0, 2, ..`` hold what CPUs do between accelerators, ``1, 3, ..`` are
accelerators, each called once. No edge leads to an earlier slot, so that no value returns to an accelerator
that it left.

Notations of the second: slots stand in the order in which a contiguous pipeline calls them. Each is a device
of one kind: of any where the placement is contiguous, as the order decides which; of a fixed one otherwise,
as order does not matter.
"""

from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from costmodel.planner.placement._evaluate import latency
from costmodel.planner.placement._problem import PlacementProblem, colours
from costmodel.planner.placement._solver import (
    Blocks,
    Found,
    Scale,
    Slots,
    Solved,
    add_kind_choice,
    add_limits,
    add_transfers,
    device_names,
    import_cp_model,
    make_blocks,
    solve,
)

# Units of a first search: the solver moves ends of nodes unit by unit where devices wait for each other, and
# a limit near the best latency spares it that.
_COARSE = 2**12


def least_latency(problem: PlacementProblem, known: float, *, time_limit_s: float, seed: int) -> Found:
    """Search for a placement, and prove that there is none below a bound.

    Args:
        problem: Without backward nodes.
        known: Latency of a placement that is known; slower ones are not searched for.
        time_limit_s: Of the search.
        seed: Of its random choices.

    Returns:
        Device of each node, None if none was found, and a bound, infinite if there is none.
    """
    placed, _ = _search_latency(problem, Scale(known, _COARSE), time_limit_s / 3, seed)
    if placed is not None:
        known = min(known, latency(problem, placed))
    found, bound = _search_latency(problem, Scale(known), time_limit_s * 2 / 3, seed)
    return found or placed, bound


def _search_latency(problem: PlacementProblem, scale: Scale, time_limit_s: float, seed: int) -> Found:
    model = _LatencyModel(problem, scale)
    solved = solve(model.model, scale, time_limit_s, seed)
    return model.read(solved), solved.bound


class _LatencyModel:
    def __init__(self, problem: PlacementProblem, scale: Scale) -> None:
        self.model = import_cp_model().CpModel()
        self._scale = scale
        self._problem = problem
        self._cpu = max(
            (each for each in problem.devices if each.is_cpu), key=lambda each: each.speed, default=None
        )
        self._nodes = _single_nodes(problem)
        counts = [len(kind.names) for kind in self._nodes.kinds]
        self._slots = Slots(self.model, len(self._nodes), 2 * sum(counts) + 1, ordered=True)
        self._slots.add_order(self._nodes.edges)
        self._is_kind = add_kind_choice(self.model, counts)
        self._total = self._time()
        self._ends = [self._time() for _ in range(len(self._nodes))]
        self._keep_colours()
        self._add_cpus()
        for accelerator in range(sum(counts)):
            self._add_accelerator(accelerator)
        for end in self._ends:
            self.model.add(end <= self._total)
        self.model.minimize(self._total)

    def read(self, solved: Solved) -> dict[int, str] | None:
        """Read the device of each node."""
        if solved.solver is None:
            return None
        names = device_names(solved.solver, self._is_kind, self._nodes.kinds)
        slots = [self._slots.slot_of(solved.solver, i) for i in range(len(self._nodes))]
        on_cpu = self._cpu.name if self._cpu else ""
        return {
            node.id: names[slot // 2] if slot % 2 else on_cpu
            for node, slot in zip(self._problem.nodes, slots, strict=True)
        }

    def _time(self) -> Any:
        return self.model.new_int_var(0, self._scale.most, "")

    def _keep_colours(self) -> None:
        for members in colours(self._problem):
            for other in members[1:]:
                for slot in range(1, len(self._slots.at[0]), 2):
                    self.model.add(self._slots.at[members[0]][slot] == self._slots.at[other][slot])

    def _add_cpus(self) -> None:
        """A node on a CPU begins when its inputs are there."""
        durations = []
        for node, literals in zip(self._problem.nodes, self._slots.at, strict=True):
            duration = self._scale.units(self._cpu.latency(node)) if self._cpu else self._scale.most + 1
            if duration > self._scale.most:
                self.model.add_bool_and(each.negated() for each in literals[::2])
                duration = 0
            durations.append(duration * sum(literals[::2]))
        for end, duration in zip(self._ends, durations, strict=True):
            self.model.add(end >= duration)
        for before, after in self._nodes.edges:
            self.model.add(self._ends[after] >= self._ends[before] + durations[after])

    def _add_accelerator(self, accelerator: int) -> None:
        """An accelerator begins when all that it reads is there, and its nodes end together."""
        mine = self._slots.column(2 * accelerator + 1)
        begin, end = self._time(), self._time()
        for before, after in self._nodes.edges:
            self.model.add(begin >= self._ends[before]).only_enforce_if(mine[after], mine[before].negated())
        for node_end, literal in zip(self._ends, mine, strict=True):
            self.model.add(node_end >= end).only_enforce_if(literal)
        crossing = add_transfers(self.model, self._nodes, self._scale, mine)
        for k, here in enumerate(self._is_kind[accelerator]):
            add_limits(self.model, self._nodes, k, mine, here)
            runs = np.flatnonzero(self._nodes.runs[:, k])
            load = sum(self._scale.units(self._nodes.latency[i, k]) * mine[i] for i in runs)
            self.model.add(end >= begin + load + crossing).only_enforce_if(here)


def _single_nodes(problem: PlacementProblem) -> Blocks:
    """Every node as a block of its own, with the kinds of accelerators alone."""
    free = tuple(msgspec.structs.replace(node, colour=None) for node in problem.nodes)
    blocks = make_blocks(msgspec.structs.replace(problem, nodes=free), contiguous=False)
    kept = [k for k, kind in enumerate(blocks.kinds) if not kind.device.is_cpu]
    return replace(blocks, kinds=[blocks.kinds[k] for k in kept], latency=blocks.latency[:, kept])


def least_max_load(
    blocks: Blocks, known: float, *, contiguous: bool, time_limit_s: float, seed: int
) -> Found:
    """Search for a placement, and prove that there is none below a bound.

    Args:
        blocks: What is placed.
        known: Largest load of a placement that is known; larger ones are not searched for.
        contiguous: Whether edges lead to the same or to a later slot.
        time_limit_s: Of the search.
        seed: Of its random choices.

    Returns:
        Device of each node, None if none was found, and a bound, infinite if there is none.
    """
    scale = Scale(known)
    started = monotonic()
    lowest = 0.0 if contiguous else _crowded_device(blocks, scale, time_limit_s / 3, seed)
    model = _LoadModel(blocks, scale, lowest, contiguous=contiguous)
    solved = solve(model.model, scale, time_limit_s - (monotonic() - started), seed)
    return model.read(solved), max(solved.bound, lowest)


class _LoadModel:
    def __init__(self, blocks: Blocks, scale: Scale, lowest: float, *, contiguous: bool) -> None:
        self.model = import_cp_model().CpModel()
        self._blocks = blocks
        self._scale = scale
        counts = [len(kind.names) for kind in blocks.kinds]
        self._slots = Slots(self.model, len(blocks), sum(counts), ordered=contiguous)
        if contiguous:
            self._slots.add_order(blocks.edges)
            self._is_kind = add_kind_choice(self.model, counts)
        else:
            kinds = np.repeat(np.arange(len(counts)), counts)
            self._is_kind = [[self.model.new_constant(k == own) for k in range(len(counts))] for own in kinds]
            self._break_symmetry(kinds)
        self._load = self.model.new_int_var(scale.units(lowest), scale.most, "load")
        for slot in range(sum(counts)):
            self._add_loads(slot)
        self.model.minimize(self._load)

    def read(self, solved: Solved) -> dict[int, str] | None:
        """Read the device of each node."""
        if solved.solver is None:
            return None
        names = device_names(solved.solver, self._is_kind, self._blocks.kinds)
        return {
            node: names[self._slots.slot_of(solved.solver, block)]
            for block, nodes in enumerate(self._blocks.nodes)
            for node in nodes
        }

    def _add_loads(self, slot: int) -> None:
        blocks = self._blocks
        mine = self._slots.column(slot)
        crossing = add_transfers(self.model, blocks, self._scale, mine)
        for k, kind in enumerate(blocks.kinds):
            here = self._is_kind[slot][k]
            add_limits(self.model, blocks, k, mine, here)
            runs = np.flatnonzero(blocks.runs[:, k])
            load = sum(self._scale.units(blocks.latency[block, k]) * mine[block] for block in runs)
            if not kind.device.is_cpu:
                load += crossing
            self.model.add(load <= self._load).only_enforce_if(here)

    def _break_symmetry(self, kinds: np.ndarray) -> None:
        """Of equal devices the first takes the first block that any of them takes, and so on."""
        for slot in np.flatnonzero(kinds[1:] == kinds[:-1]).tolist():
            before, after = self._slots.column(slot), self._slots.column(slot + 1)
            for block, literal in enumerate(after):
                self.model.add_bool_or(literal.negated(), *before[:block])


def _crowded_device(blocks: Blocks, scale: Scale, time_limit_s: float, seed: int) -> float:
    """A bound by the pigeonhole principle: one accelerator has many of the costliest blocks.

    Of ``j`` blocks that are too slow for a CPU, one of ``a`` accelerators has at least ``ceil(j / a)``. The
    least load of a device with so many of them, transfers included, is found by a model of one device.
    """
    accelerators = [k for k, kind in enumerate(blocks.kinds) if not kind.device.is_cpu]
    cpus = [k for k, kind in enumerate(blocks.kinds) if kind.device.is_cpu]
    count = sum(len(blocks.kinds[k].names) for k in accelerators)
    times = np.where(blocks.runs, blocks.latency, np.inf)
    best = times[:, accelerators].min(axis=1, initial=np.inf)
    only_here = np.flatnonzero((times[:, cpus].min(axis=1, initial=np.inf) > scale.known) & np.isfinite(best))
    if not only_here.size:
        return 0.0
    costliest = only_here[np.argsort(-best[only_here], kind="stable")]
    most = max(range(1, len(costliest) + 1), key=lambda j: best[costliest[j - -(-j // count) : j]].sum())
    model = import_cp_model().CpModel()
    mine = [model.new_bool_var("") for _ in range(len(blocks))]
    for block in np.flatnonzero(~np.isfinite(best)):
        model.add(mine[block] == 0)
    model.add(sum(mine[block] for block in costliest[:most]) >= -(-most // count))
    compute = sum(scale.units(best[block]) * mine[block] for block in np.flatnonzero(np.isfinite(best)))
    model.minimize(compute + add_transfers(model, blocks, scale, mine))
    return min(solve(model, scale, time_limit_s, seed).bound, scale.known)


_HALVINGS = 8


def bound_by_share(blocks: Blocks, known: float, *, time_limit_s: float, seed: int) -> float:
    """Return a bound by what one accelerator must do and move.

    Where no device is busy for longer than ``known``, CPUs take at most what they do best in that time, so
    that one accelerator has at least its share of the rest. The least that such a device moves is found by
    halving: a limit of what it may move keeps blocks together, so that the solver soon proves that no device
    keeps it, while it proves nothing where it is asked for the least.

    Args:
        blocks: What is placed.
        known: Largest load of a placement that is known.
        time_limit_s: Of all searches.
        seed: Of their random choices.
    """
    times = np.where(blocks.runs, blocks.latency, np.inf)
    is_cpu = np.array([kind.device.is_cpu for kind in blocks.kinds])
    devices = np.array([len(kind.names) for kind in blocks.kinds])
    if is_cpu.all():
        return 0.0
    work = times[:, ~is_cpu].min(axis=1)
    work[~np.isfinite(work)] = 0.0  # CPUs alone run it
    on_cpus = times[:, is_cpu].min(axis=1, initial=np.inf)
    rest = work.sum() - _most_work(work, on_cpus, known * int(devices[is_cpu].sum()))
    model = _ShareModel(blocks, work, float(rest / devices[~is_cpu].sum()), Scale(known), seed)
    least, most, until = 0.0, known - model.share, monotonic() + time_limit_s
    for _ in range(_HALVINGS):
        moved, left_s = (least + most) / 2, until - monotonic()
        if left_s <= 0 or most <= 0:
            break
        if model.may_move(moved, min(left_s, time_limit_s / 4)):
            most = moved
        else:
            least = moved
    return min(model.share + least, known)


def _most_work(work: np.ndarray, times: np.ndarray, time: float) -> float:
    """The most work that is done in a time, if blocks may be done in part."""
    done = 0.0
    useful = np.flatnonzero((work > 0) & np.isfinite(times))
    with np.errstate(over="ignore"):
        useful = useful[np.argsort(times[useful] / work[useful])]
    for block in useful.tolist():
        part = min(1.0, time / times[block]) if times[block] else 1.0
        done, time = done + part * float(work[block]), max(0.0, time - float(times[block]))
    return done


@dataclass(frozen=True)
class _ShareModel:
    """A device that has at least a share of the work, which each block adds to."""

    blocks: Blocks
    work: np.ndarray
    share: float
    scale: Scale
    seed: int

    def may_move(self, moved: float, time_limit_s: float) -> bool:
        """Return whether it might move no more than this; False where it is proven that it does."""
        model, scale = import_cp_model().CpModel(), self.scale
        mine = [model.new_bool_var("") for _ in range(len(self.blocks))]
        done = sum(
            scale.units(work) * literal for work, literal in zip(self.work.tolist(), mine, strict=True)
        )
        crossing = add_transfers(model, self.blocks, scale, mine)
        model.add(done >= scale.units(self.share) - len(self.blocks))  # units are rounded down
        model.add(crossing <= scale.units(moved))
        model.add(done + crossing <= scale.most)
        return solve(model, scale, time_limit_s, self.seed).bound < np.inf
