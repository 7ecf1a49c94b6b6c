"""The least load of the busiest device, as a model for CP-SAT.

Notations: slots stand in the order in which a contiguous pipeline calls them. Each is a device of one kind:
of any where the placement is contiguous, as the order decides which; of a fixed one otherwise, as order does
not matter.
"""

from time import monotonic

import numpy as np

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
    solve,
)


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
    model = _Model(blocks, scale, lowest, contiguous=contiguous)
    solved = solve(model.model, scale, time_limit_s - (monotonic() - started), seed)
    return model.read(solved), max(solved.bound, lowest)


class _Model:
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
