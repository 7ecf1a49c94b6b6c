"""Placements that need not be contiguous, made better from one that is known.

First clusters of blocks move between devices. A block that left its device alone would have to move the
values that it shares there, which may cost more than the block takes. So it takes others along: through each
value that they share, the likelier the more the value costs (R. H. Swendsen and J.-S. Wang, 1987, grow
clusters of spins so). What is accepted cools down (S. Kirkpatrick et al., Optimization by simulated
annealing, 1983). Then two devices at a time share out what they have anew.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, inf, log
from time import monotonic
from typing import Any

import numpy as np

from costmodel.planner.placement._evaluate import Placed, device_loads, max_load
from costmodel.planner.placement._problem import PlacementProblem
from costmodel.planner.placement._solver import (
    Blocks,
    Scale,
    Solved,
    add_limits,
    add_transfers,
    import_cp_model,
    make_blocks,
    solve,
)

# The energy is the mean of the loads to this power: the largest counts most, and the others count too.
_POWER = 8
# A move may raise the energy by this share of it in one case of e, at first and at last.
_HOT, _COLD = 0.1, 1e-4
_RUNS, _MOVES = 4, 600  # as many runs of so many moves for each block
_SENT_BACK = 0.4  # of the moves are tried with a cluster in return
_NEAR = 0.5  # of the moves go where a neighbour of the cluster is
_COOLED_AFTER = 256  # moves
_LEAST_COST = 1e-3  # of the load: cheaper values hold no cluster together


def improve(problem: PlacementProblem, placed: Placed, *, time_limit_s: float, seed: int) -> Placed:
    """Search for a better placement near and far, until no step is one, or time is up."""
    until = monotonic() + time_limit_s
    placed = _anneal(problem, placed, monotonic() + time_limit_s / 3, seed)
    return share_out_pairs(problem, placed, time_limit_s=until - monotonic(), seed=seed)


def _anneal(problem: PlacementProblem, placed: Placed, until: float, seed: int) -> Placed:
    """Return the best of several runs and of what was known."""
    blocks = make_blocks(problem, contiguous=False)
    names = [name for kind in blocks.kinds for name in kind.names]
    best, least = placed, max_load(problem, placed)
    for run in range(_RUNS):
        search = Annealing(blocks, placed, least, seed=_RUNS * seed + run)
        found = search.run(_MOVES * len(blocks), until)
        moved = {node: names[found[block]] for block, nodes in enumerate(blocks.nodes) for node in nodes}
        if (value := max_load(problem, moved)) < least:
            best, least = moved, value
    return best


class Annealing:
    """One run: where blocks are, and what each device has to do, kept up to date move by move.

    Args:
        blocks: What is placed.
        placed: Where it begins.
        load: Of a device in a placement that is known; no device runs a cluster that takes longer.
        seed: Of what is drawn.
    """

    def __init__(self, blocks: Blocks, placed: Placed, load: float, seed: int) -> None:
        kind_of = [k for k, kind in enumerate(blocks.kinds) for _ in kind.names]
        self._most, self._random = load or 1.0, random.Random(seed)  # noqa: S311 (no secret)
        times = np.where(blocks.runs, blocks.latency, inf)[:, kind_of]
        self._seconds: list[list[float]] = times.tolist()
        self._memory: list[float] = blocks.memory.tolist()
        self._pays = [not blocks.kinds[k].device.is_cpu for k in kind_of]
        self._members = [value.blocks for value in blocks.values]
        self._shared: list[list[tuple[int, float, int]]] = [[] for _ in range(len(blocks))]
        for number, value in enumerate(blocks.values):
            for block in value.blocks:
                self._shared[block].append((number, value.cost, len(value.blocks)))
        costs = [value.cost for value in blocks.values if value.cost > _LEAST_COST * self._most] or [1.0]
        self._costs = log(min(costs)), log(2 * max(costs))
        self._begin(blocks, placed)

    def _begin(self, blocks: Blocks, placed: Placed) -> None:
        """Add up what each device has to do, and how much memory is left."""
        devices = [(kind.device, name) for kind in blocks.kinds for name in kind.names]
        place = {name: number for number, (_, name) in enumerate(devices)}
        self._room = [inf if device.is_cpu else device.memory for device, _ in devices]
        self.loads = [0.0] * len(devices)
        self.at = [place[placed[nodes[0]]] for nodes in blocks.nodes]
        for block, device in enumerate(self.at):
            self.loads[device] += self._seconds[block][device]
            self._room[device] -= self._memory[block]
        self._held = [[0] * len(devices) for _ in blocks.values]
        for value, held in zip(blocks.values, self._held, strict=True):
            for block in value.blocks:
                held[self.at[block]] += 1
            for device, count in enumerate(held):
                if self._pays[device] and 0 < count < len(value.blocks):
                    self.loads[device] += value.cost

    def run(self, moves: int, until: float) -> list[int]:
        """Cool down in so many moves; return the device of each block where the largest load was least."""
        energy = sum(map(self._energy, range(len(self.loads))))
        least, best, sharpness = max(self.loads), self.at[:], 0.0
        for move in range(moves):
            if move % _COOLED_AFTER == 0:
                if monotonic() > until:
                    break
                sharpness = 1 / (_POWER * _HOT * (_COLD / _HOT) ** (move / moves))
            here, there, sent, returned = self._draw()
            if here == there or not (self._may_run(sent, there) and self._may_run(returned, here)):
                continue
            before = self._energy(here) + self._energy(there)
            self._exchange(sent, there, returned, here)
            after = energy - before + self._energy(here) + self._energy(there)
            fits = self._room[here] >= 0 and self._room[there] >= 0
            if fits and (after <= energy or self._random.random() < (energy / after) ** sharpness):
                energy = after
                if (load := max(self.loads)) < least:
                    least, best = load, self.at[:]
            else:
                self._exchange(returned, there, sent, here)
        return best

    def _energy(self, device: int) -> float:
        return (self.loads[device] / self._most) ** _POWER

    def _draw(self) -> tuple[int, int, list[int], list[int]]:
        """Draw two devices, the cluster that leaves the first for the second, and what comes back."""
        draw = self._random
        warmth, most = exp(draw.uniform(*self._costs)), draw.random() * self._most
        first = draw.randrange(len(self.at))
        sent = self._cluster(first, warmth, most)
        there = draw.randrange(len(self.loads))
        if draw.random() < _NEAR and (shared := self._shared[draw.choice(sent)]):
            there = self.at[draw.choice(self._members[draw.choice(shared)[0]])]
        second = draw.randrange(len(self.at))
        is_sent_back = self.at[second] == there and draw.random() < _SENT_BACK
        return self.at[first], there, sent, self._cluster(second, warmth, most) if is_sent_back else []

    def _cluster(self, block: int, warmth: float, most: float) -> list[int]:
        """Grow a cluster that takes its device no longer than ``most``, or is one block."""
        device, found, reached = self.at[block], [block], {block}
        seconds = self._seconds[block][device]
        for each in found:  # which grows meanwhile
            for value, cost, _ in self._shared[each]:
                bound = 1 - exp(-cost / warmth)
                for other in self._members[value]:
                    if other in reached or self.at[other] != device or self._random.random() >= bound:
                        continue
                    seconds += self._seconds[other][device]
                    if seconds > most:
                        return found
                    reached.add(other)
                    found.append(other)
        return found

    def _may_run(self, cluster: Sequence[int], device: int) -> bool:
        return sum(self._seconds[block][device] for block in cluster) <= self._most

    def _exchange(self, sent: Sequence[int], there: int, returned: Sequence[int], here: int) -> None:
        for block in sent:
            self._move(block, there)
        for block in returned:
            self._move(block, here)

    def _move(self, block: int, there: int) -> None:
        """Move a block to another device, with the transfers that begin and end at both."""
        here = self.at[block]
        left, came = -self._seconds[block][here], self._seconds[block][there]
        for value, cost, size in self._shared[block]:
            held = self._held[value]
            if self._pays[here]:
                left += cost * ((held[here] > 1) - (held[here] < size))
            if self._pays[there]:
                came += cost * ((held[there] + 1 < size) - (held[there] > 0))
            held[here] -= 1
            held[there] += 1
        self.loads[here] += left
        self.loads[there] += came
        self._room[here] += self._memory[block]
        self._room[there] -= self._memory[block]
        self.at[block] = there


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
