"""Schedules that take longer to find: all of a small graph, and the best stages of a dynamic program.

Reference:
    Y. Ding et al., IOS: Inter-operator scheduler for CNN acceleration, MLSys 2021.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf

from costmodel.planner.whatif import Kernels
from costmodel.planner.whatif._sharing import Machine

Lines = list[list[int]]
# As published: groups of a stage, and operators of a group, at most.
_MOST_GROUPS, _MOST_OF_A_GROUP = 8, 3


def makespan_s(kernels: Kernels, lines: Sequence[Sequence[int]]) -> float:
    """Seconds until the last kernel ends; infinite where streams wait for each other in a circle.

    Args:
        kernels: All needs of those in lines that are not there count as met.
        lines: The kernels of each stream, in order.
    """
    machine = Machine(kernels.graph, kernels.slowdown)
    stream_of = {task: stream for stream, line in enumerate(lines) for task in line}
    waiting = {task: sum(each in stream_of for each in kernels.needs[task]) for task in stream_of}
    place, ends, last = [0] * len(lines), dict[int, float](), 0.0

    def start_all() -> None:
        for stream, line in enumerate(lines):
            at = place[stream]
            if at < len(line) and not waiting[line[at]] and (at == 0 or line[at - 1] in ends):
                task = line[at]
                moments = [
                    ends[each] + kernels.wait_s
                    for each in kernels.needs[task]
                    if stream_of.get(each, stream) != stream
                ]
                if at:
                    moments.append(ends[line[at - 1]] + kernels.gaps_s[task])
                place[stream] += 1
                machine.start(task, max([machine.now_s, *moments]))

    start_all()
    while (ended := machine.next_end()) is not None:
        ends[ended] = last = machine.now_s
        for each in kernels.successors[ended]:
            if each in waiting:
                waiting[each] -= 1
        start_all()
    return last if len(ends) == len(stream_of) else inf


def exhaustive(kernels: Kernels) -> tuple[float, Lines]:
    """The best of all ways to share kernels out to streams, in any order."""
    return min(
        ((makespan_s(kernels, lines), lines) for lines in every(kernels.tasks)), key=lambda each: each[0]
    )


def every(tasks: Sequence[int]) -> Iterator[Lines]:
    """All sets of lists of tasks."""
    if not tasks:
        yield []
        return
    *others, task = tasks
    for lines in every(others):
        for i, line in enumerate(lines):
            for at in range(len(line) + 1):
                yield [*lines[:i], [*line[:at], task, *line[at:]], *lines[i + 1 :]]
        yield [*lines, [task]]


class Stages:
    """The best division into stages, in each of which groups of kernels run at once, and all wait for all."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.bit = {task: 1 << i for i, task in enumerate(kernels.tasks)}
        self.tasks = {bit: task for task, bit in self.bit.items()}
        self.behind = {
            self.bit[task]: sum(self.bit[each] for each in set(kernels.successors[task]))
            for task in kernels.tasks
        }
        self.stage_s = lru_cache(None)(self._stage_s)

    def best(self) -> float:
        """Seconds."""
        best = {0: 0.0}

        def solve(done: int) -> float:
            if done not in best:
                best[done] = min(
                    solve(done & ~ending) + self.stage_s(ending) for ending in self.endings(done)
                )
            return best[done]

        return solve(sum(self.bit.values()))

    def endings(self, done: int) -> Iterator[int]:
        """Parts of what is done that nothing else of it needs, in groups that are not too large."""
        seen = set()

        def grow(ending: int, groups: tuple[int, ...]) -> Iterator[int]:
            for bit in self.bit.values():
                if done & bit and not ending & bit and not self.behind[bit] & done & ~ending:
                    grown = ending | bit
                    if grown in seen:
                        continue
                    joined = [group for group in groups if self._touch(bit, group)]
                    others = tuple(group for group in groups if group not in joined)
                    group = sum(joined) | bit
                    if group.bit_count() <= _MOST_OF_A_GROUP and len(others) < _MOST_GROUPS:
                        seen.add(grown)
                        yield grown
                        yield from grow(grown, (*others, group))

        yield from grow(0, ())

    def _touch(self, bit: int, group: int) -> bool:
        return bool(self.behind[bit] & group) or any(
            self.behind[each] & bit for each in self.tasks if each & group
        )

    def _stage_s(self, stage: int) -> float:
        groups: list[int] = []
        for bit in self.bit.values():
            if bit & stage:
                joined = [group for group in groups if self._touch(bit, group)]
                groups = [*(group for group in groups if group not in joined), sum(joined) | bit]
        lines = [[self.tasks[bit] for bit in self.bit.values() if bit & group] for group in groups]
        between = self.kernels.wait_s if len(lines) > 1 else self.kernels.gaps_s[lines[0][0]]
        return makespan_s(self.kernels, lines) + between
