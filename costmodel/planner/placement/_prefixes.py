"""Placements without a solver: blocks in one topological order, cut into runs of neighbours.

Notations: ``n`` blocks in that order; ``cost[kind][i, j]`` is the load of a device of a kind that has the
blocks ``i`` to ``j - 1``, infinite where they do not fit. Reference: Tarnawski et al., section 5.1.2 (the
dynamic program DPL).
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from costmodel.planner.placement._solver import Blocks

_State = tuple[int, ...]  # how many devices of each kind are used
_Chosen = tuple[int, str]  # kind and name of a device


def order(blocks: Blocks) -> list[int]:
    """Put blocks in a topological order that follows a path as long as it can (depth first)."""
    waiting = np.bincount([v for _, v in blocks.edges], minlength=len(blocks))
    following: list[list[int]] = [[] for _ in range(len(blocks))]
    for u, v in blocks.edges:
        following[u].append(v)
    ready = [block for block in range(len(blocks)) if not waiting[block]][::-1]
    found = []
    while ready:
        found.append(ready.pop())
        for block in following[found[-1]]:
            waiting[block] -= 1
            if not waiting[block]:
                ready.append(block)
    return found


def fill(blocks: Blocks, *, free_cpus: bool = False) -> dict[int, str] | None:
    """Fill accelerators with blocks in order until their memory is full, a CPU with what is left: greedy.

    Args:
        blocks: What is placed.
        free_cpus: Whether a CPU may have any number of runs.

    Returns:
        Device of each node; None where this leaves blocks over.
    """
    accelerators = [
        (k, name) for k, kind in enumerate(blocks.kinds) if not kind.device.is_cpu for name in kind.names
    ]
    cpus = [(k, kind.names[0]) for k, kind in enumerate(blocks.kinds) if kind.device.is_cpu]
    unused = accelerators[::-1]
    placed: dict[int, str] = {}
    current: _Chosen | None = None
    free = 0.0
    for block in order(blocks):
        if (
            current is None
            or current in cpus
            or not blocks.runs[block, current[0]]
            or blocks.memory[block] > free
        ):
            before, current = current, _next(blocks, block, unused, cpus)
            returns = current in cpus and current != before and current[1] in placed.values()
            if current is None or (returns and not free_cpus):
                return None
            free = blocks.kinds[current[0]].device.memory
        free -= blocks.memory[block]
        placed.update(dict.fromkeys(blocks.nodes[block], current[1]))
    return placed


def _next(blocks: Blocks, block: int, unused: list[_Chosen], cpus: list[_Chosen]) -> _Chosen | None:
    """The next accelerator, else a CPU, if it runs a block."""
    if unused and blocks.runs[block, unused[-1][0]]:
        return unused.pop()
    return next((cpu for cpu in cpus if blocks.runs[block, cpu[0]]), None)


def best_prefixes(blocks: Blocks, *, total: bool = False, free_cpus: bool = False) -> dict[int, str] | None:
    """Find the best of all placements that give each device a run of neighbours in ``order``.

    Args:
        blocks: What is placed.
        total: Whether the sum of the loads is least, which bounds the latency of a sample; otherwise the
            largest.
        free_cpus: Whether a CPU may have any number of runs.

    Returns:
        Device of each node; None where memory does not suffice in this order.
    """
    ordered = order(blocks)
    cost = _run_costs(blocks, ordered)
    counts = [len(kind.names) for kind in blocks.kinds]
    join: Callable[..., np.ndarray] = np.add if total else np.maximum
    states = list(product(*(range(count + 1) for count in counts)))
    best = {state: np.full(len(blocks) + 1, np.inf) for state in states}
    came: dict[tuple[_State, int], tuple[int, int]] = {}
    for state in states:
        best[state][0] = 0.0
    for j in range(1, len(blocks) + 1):
        for state in states:
            for kind, before in _states_before(blocks, state, free_cpus):
                found = join(best[before][:j], cost[kind][:j, j])
                start = int(np.argmin(found))
                if found[start] < best[state][j]:
                    best[state][j] = found[start]
                    came[state, j] = kind, start
    last = min(states, key=lambda state: best[state][-1])
    return _retrace(blocks, ordered, came, last, free_cpus) if np.isfinite(best[last][-1]) else None


def _retrace(
    blocks: Blocks,
    ordered: list[int],
    came: dict[tuple[_State, int], tuple[int, int]],
    state: _State,
    free_cpus: bool,
) -> dict[int, str]:
    """The devices on the way that led to all blocks."""
    placed: dict[int, str] = {}
    end = len(ordered)
    while end:
        kind, start = came[state, end]
        before = dict(_states_before(blocks, state, free_cpus))[kind]
        device = blocks.kinds[kind].names[before[kind] if before != state else 0]
        for block in ordered[start:end]:
            placed.update(dict.fromkeys(blocks.nodes[block], device))
        state, end = before, start
    return placed


def _states_before(blocks: Blocks, state: _State, free_cpus: bool) -> Iterator[tuple[int, _State]]:
    for kind, used in enumerate(state):
        if used and free_cpus and blocks.kinds[kind].device.is_cpu:
            yield kind, state
        elif used:
            yield kind, (*state[:kind], used - 1, *state[kind + 1 :])


def _run_costs(blocks: Blocks, ordered: list[int]) -> list[np.ndarray]:
    moved = _moved(blocks, ordered)
    memory = _run_sums(blocks.memory[ordered])
    costs = []
    for kind, one in enumerate(blocks.kinds):
        runs = blocks.runs[ordered, kind]
        cost = _run_sums(np.where(runs, blocks.latency[ordered, kind], 0.0))
        if not one.device.is_cpu:
            cost = np.where(memory <= one.device.memory, cost + moved, np.inf)
        costs.append(np.where(_run_sums(~runs) == 0, cost, np.inf))
    return costs


def _run_sums(values: np.ndarray) -> np.ndarray:
    """``(n + 1, n + 1)``: at ``[i, j]`` the sum of the values ``i`` to ``j - 1``."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[None, :] - sums[:, None])


def _moved(blocks: Blocks, ordered: list[int]) -> np.ndarray:
    """``(n + 1, n + 1)``: the values that a run has blocks of, without those it has all blocks of."""
    n = len(ordered)
    at = np.empty(n, dtype=np.int64)
    at[ordered] = np.arange(n)
    places = [np.sort(at[list(value.blocks)]) for value in blocks.values]
    costs = np.array([value.cost for value in blocks.values])
    moved = np.zeros((n + 1, n + 1))
    for i in range(n):
        first = np.array(
            [place[np.searchsorted(place, i)] if place[-1] >= i else n for place in places], dtype=np.int64
        )
        inside = np.array([place[0] >= i for place in places], dtype=bool)
        last = np.array([place[-1] for place in places], dtype=np.int64)
        touched = np.bincount(first, weights=costs, minlength=n + 1)[:n]
        held = np.bincount(last[inside], weights=costs[inside], minlength=n + 1)[:n]
        moved[i, 1:] = np.cumsum(touched - held)
    return moved
