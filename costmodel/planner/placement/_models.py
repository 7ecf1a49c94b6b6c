"""Placement as models for CP-SAT: the least time of one sample, and the least load of the busiest device.

Notations of the first: the slots ``0, 2, ..`` hold what CPUs do between accelerators, ``1, 3, ..`` are
accelerators, each called once. No edge leads to an earlier slot, so that no value returns to an accelerator
that it left.

Notations of the second: slots stand in the order in which a contiguous pipeline calls them. Each is a device
of one kind: of any where the placement is contiguous, as the order decides which; of a fixed one otherwise,
as order does not matter. Where that model is too large to be searched, two devices at a time share out what
they have anew.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from costmodel.planner.placement._evaluate import Placed, device_loads, latency
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


# The longest that two devices are first looked at; what is found until then counts. Where no pair does better
# any more, those that took so long are looked at for twice as long.
_PAIR_S = 2.0


def share_out_pairs(problem: PlacementProblem, placed: Placed, *, time_limit_s: float, seed: int) -> Placed:
    """Let two devices at a time share out their blocks anew, until no pair can do better or time is up.

    The load of a device depends on its own blocks alone, so that others keep theirs. The busiest devices come
    first, each with the least busy one that it has not been tried with since either of them changed.
    """
    blocks, until = make_blocks(problem, contiguous=False), monotonic() + time_limit_s
    loads = {each.device: each.load for each in device_loads(problem, placed)}
    settled, hurried, pair_s = set[frozenset[str]](), set[frozenset[str]](), _PAIR_S
    while (left_s := until - monotonic()) > 0:
        pairs = (frozenset(pair) for pair in combinations(loads, 2))
        busiest = {pair: sorted((loads[each] for each in pair), reverse=True) for pair in pairs}
        open_pairs = [pair for pair in busiest if pair not in settled]
        if not open_pairs and not hurried:
            break
        if not open_pairs:
            settled, hurried, pair_s = settled - hurried, set(), 2 * pair_s
            continue
        pair = min(open_pairs, key=lambda pair: (-busiest[pair][0], busiest[pair][1], sorted(pair)))
        settled.add(pair)
        model = _PairModel(blocks, placed, sorted(pair), Scale(busiest[pair][0]))
        began = monotonic()
        shared = model.read(solve(model.model, model.scale, min(left_s, pair_s), seed))
        if monotonic() - began >= pair_s:
            hurried.add(pair)
        if shared is None:
            continue
        found = {each.device: each.load for each in device_loads(problem, shared)}
        if max(found[each] for each in pair) < busiest[pair][0]:
            placed, loads = shared, found
            settled = {each for each in settled if not each & pair}
    return placed


class _PairModel:
    """The blocks of two devices; all others are elsewhere."""

    def __init__(self, blocks: Blocks, placed: Placed, pair: list[str], scale: Scale) -> None:
        self.model, self.scale = import_cp_model().CpModel(), scale
        self._blocks, self._placed, self._pair = blocks, placed, pair
        inside = {block for block, nodes in enumerate(blocks.nodes) if placed[nodes[0]] in pair}
        touched = [value for value in blocks.values if inside.intersection(value.blocks)]
        here = replace(blocks, values=touched)
        self._slots = {block: self.model.new_bool_var("") for block in sorted(inside)}
        never, always = self.model.new_constant(0), self.model.new_constant(1)
        load = self.model.new_int_var(0, scale.most, "load")
        for place, name in enumerate(pair):
            mine = [never] * len(blocks)
            for block, first in self._slots.items():
                mine[block] = first.negated() if place else first
            kind = next(k for k, each in enumerate(blocks.kinds) if name in each.names)
            add_limits(self.model, here, kind, mine, always)
            self.model.add(_load(self.model, here, scale, kind, mine) <= load)
        for block, first in self._slots.items():
            self.model.add_hint(first, placed[blocks.nodes[block][0]] == pair[0])
        self.model.minimize(load)

    def read(self, solved: Solved) -> Placed | None:
        """Read the device of each node."""
        if solved.solver is None:
            return None
        moved = {
            node: self._pair[not solved.solver.boolean_value(first)]
            for block, first in self._slots.items()
            for node in self._blocks.nodes[block]
        }
        return {**self._placed, **moved}


def _load(model: Any, blocks: Blocks, scale: Scale, kind: int, mine: Sequence[Any]) -> Any:
    """Units that a device of a kind is busy with the blocks whose literals hold."""
    runs = np.flatnonzero(blocks.runs[:, kind]).tolist()
    load = sum(scale.units(blocks.latency[block, kind]) * mine[block] for block in runs)
    moved = 0 if blocks.kinds[kind].device.is_cpu else add_transfers(model, blocks, scale, mine)
    return load + moved


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
