"""The least time of one sample, as a model for CP-SAT.

Notations: the slots ``0, 2, ..`` hold what CPUs do between accelerators, the slots ``1, 3, ..`` are
accelerators, each called once. No edge leads to an earlier slot, so that no value returns to an accelerator
that it left.
"""

from dataclasses import replace
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
    placed, _ = _search(problem, Scale(known, _COARSE), time_limit_s / 3, seed)
    if placed is not None:
        known = min(known, latency(problem, placed))
    found, bound = _search(problem, Scale(known), time_limit_s * 2 / 3, seed)
    return found or placed, bound


def _search(problem: PlacementProblem, scale: Scale, time_limit_s: float, seed: int) -> Found:
    model = _Model(problem, scale)
    solved = solve(model.model, scale, time_limit_s, seed)
    return model.read(solved), solved.bound


class _Model:
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
