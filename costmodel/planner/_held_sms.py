"""Kernels beside collectives: what runs or waits for other ranks holds SMs, so that others have fewer.

A collective keeps its thread blocks, one on an SM, from its rank's arrival until the data has moved (NCCL's
kernels poll). A kernel that begins meanwhile finds the other SMs: one of 128 blocks that fill 132 SMs once
needs a second round beside a collective of 24, whose SMs begin it when the collective ends. What was recorded
has this in it, so it is taken out of durations before a graph is changed, and what happens then is put in.
"""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner._ranks import begin_collectives
from costmodel.planner._replay import Timeline, replay
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._kernel_time import (
    START_S,
    find_collectives,
    find_products,
    pace_on,
    slow_by_memory,
)

# Kernels of more rounds are slowed down by the share of SMs that is held: rounds no longer show.
_MANY_ROUNDS = 64
# Durations and starts are found in turn, as a kernel that takes longer meets other collectives: what comes
# first settles first. They are settled once none changes by more than this share of the makespan.
_SETTLED, _TURNS = 1e-4, 200
_HALVINGS = 30


def without_held_sms(timeline: Timeline) -> KernelGraph:
    """Return the graph with the durations of kernels as if no collective ran or waited beside them."""
    graph = timeline.graph
    durations_s = graph.durations_s.copy()
    for kernel in _find_kernels_beside(timeline):
        low, high = durations_s[kernel.task] / kernel.slowest, float(durations_s[kernel.task])
        if kernel.takes_s(high) <= high:
            continue
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if kernel.takes_s(middle) > durations_s[kernel.task] else (middle, high)
        durations_s[kernel.task] = high
    return replace(graph, durations_s=durations_s) if (durations_s != graph.durations_s).any() else graph


def replay_with_held_sms(graph: KernelGraph) -> Timeline:
    """Replay a graph whose durations are those of kernels with no collective beside them."""
    timeline = replay(graph)
    for _ in range(_TURNS):
        durations_s = graph.durations_s.copy()
        for kernel in _find_kernels_beside(timeline):
            durations_s[kernel.task] = kernel.takes_s(float(graph.durations_s[kernel.task]))
        changes_s = np.abs(durations_s - timeline.graph.durations_s)
        if changes_s.max(initial=0.0) <= _SETTLED * timeline.makespan_s:
            return timeline
        timeline = replay(replace(graph, durations_s=durations_s))
    said = (
        f"Kernels beside collectives did not settle in {_TURNS} turns: one still changes by "
        f"{changes_s.max() * 1e6:,.1f} us."
    )
    return replace(timeline, graph=timeline.graph.assuming(said))


@dataclass(frozen=True)
class _KernelBeside:
    """A kernel while collectives of its rank hold SMs.

    Attributes:
        task: Its position in the graph.
        slots: Blocks that run at once on SMs that nobody holds.
        held_slots: On those that are held at times.
        blocks: Of the kernel.
        held_s: ``(m, 2)`` seconds, from its start, between which SMs are held.
        slowest: How many times as long it takes if they are held all the time; of what is no product, as far
            as memory lets it.
    """

    task: int
    slots: int
    held_slots: int
    blocks: int
    held_s: FloatArray
    slowest: float

    def takes_s(self, alone_s: float) -> float:
        """Tell what it takes if it takes ``alone_s`` with nothing held."""
        start_s = min(START_S, alone_s)
        rounds = ceil(self.blocks / (self.slots + self.held_slots))
        round_s = (alone_s - start_s) / rounds
        if not round_s > 0:
            return alone_s
        if rounds > _MANY_ROUNDS:
            longer_s = self._held_within(alone_s) * (1 - 1 / self.slowest)
        else:
            longer_s = self._last_round_s(round_s) - rounds * round_s
        return alone_s + min(max(longer_s, 0.0), (self.slowest - 1) * (alone_s - start_s))

    def _held_within(self, alone_s: float) -> float:
        return float(np.diff(np.clip(self.held_s, 0.0, alone_s * self.slowest)).sum())

    def _last_round_s(self, round_s: float) -> float:
        """Seconds until all blocks are done: held slots begin no block while they are held."""
        done, free_s, held_s = 0, 0.0, self._begin(0.0)
        while done < self.blocks:
            if free_s <= held_s:
                done, end_s, free_s = done + self.slots, free_s + round_s, free_s + round_s
            else:
                done, end_s, held_s = done + self.held_slots, held_s + round_s, self._begin(held_s + round_s)
        return end_s

    def _begin(self, moment_s: float) -> float:
        """From when on, at this moment or later, held slots begin a block."""
        for begin_s, end_s in self.held_s.tolist():
            if begin_s <= moment_s < end_s:
                moment_s = end_s
        return moment_s


def _find_kernels_beside(timeline: Timeline) -> list[_KernelBeside]:
    """Kernels of ranks that run while collectives of their rank hold SMs which they could use."""
    graph = timeline.graph
    of_rank = np.array([-1 if each.rank is None else each.rank for each in graph.resources])[
        graph.resource_ids
    ]
    collectives = find_collectives(graph)
    is_collective = collectives & (graph.blocks > 0)
    begun_s = begin_collectives(timeline)
    found = []
    for rank in np.unique(of_rank[is_collective & (of_rank >= 0)]).tolist():
        moving = np.flatnonzero(is_collective & (of_rank == rank))
        held_s = np.stack([begun_s[moving], timeline.ends_s[moving]], axis=1)
        held_s = held_s[np.argsort(held_s[:, 0], kind="stable")]
        channels, sms = int(graph.blocks[moving].max()), int(graph.sms[moving].max())
        others = graph.of_kind(TaskKind.KERNEL) & ~collectives & (of_rank == rank)
        known = others & (graph.blocks > 0) & (graph.sms > 0)
        # What a kernel has no use for, collectives take first.
        held = np.clip(channels - np.maximum(sms - graph.sms, 0), 0, graph.sms - 1)
        tasks = np.flatnonzero(known & (held > 0))
        first = np.searchsorted(np.maximum.accumulate(held_s[:, 1]), timeline.starts_s[tasks], "right")
        last = np.searchsorted(held_s[:, 0], timeline.ends_s[tasks], "left")
        for place in np.flatnonzero(first < last).tolist():
            task, beside = int(tasks[place]), held_s[first[place] : last[place]]
            found.append((task, int(held[task]), beside - timeline.starts_s[task]))
    slowest = _slowest(graph, {held for _, held, _ in found})
    at_once = np.maximum(graph.sm_blocks, 1)
    return [
        _KernelBeside(
            task,
            int((graph.sms[task] - held) * at_once[task]),
            int(held * at_once[task]),
            int(graph.blocks[task]),
            beside_s,
            float(slowest[held][task]),
        )
        for task, held, beside_s in found
        if slowest[held][task] > 1
    ]


def _slowest(graph: KernelGraph, held: set[int]) -> dict[int, FloatArray]:
    """For each number of SMs that are held, ``(n,)`` how many times as long kernels take without them."""
    found, of_products = {}, find_products(graph)
    for count in held:
        pace = np.ones(len(graph))
        for sms in np.unique(graph.sms[graph.sms > count]).tolist():
            here = graph.sms == sms
            pace[here] = pace_on(graph, np.maximum(graph.sms, 1), sms - count)[here]
        found[count] = np.maximum(np.where(of_products, pace, slow_by_memory(graph, pace)), 1.0)
    return found
