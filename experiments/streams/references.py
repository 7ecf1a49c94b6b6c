"""Schedules that take longer to find: all of a small graph, and the best stages of a dynamic program.

Reference:
    Y. Ding et al., IOS: Inter-operator scheduler for CNN acceleration, MLSys 2021.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import inf

from cases import EPILOGUE

from costmodel.planner.whatif._schedule import Kernels
from costmodel.planner.whatif._sharing import Machine

Lines = Sequence[Sequence[int]]
# As published: groups of a stage, and operators of a group, at most.
_MOST_GROUPS, _MOST_OF_A_GROUP = 8, 3


def makespan_s(kernels: Kernels, lines: Lines) -> float:
    """Seconds until the last kernel ends; infinite where streams wait for each other in a circle.

    Args:
        kernels: What those in lines need of others counts as done.
        lines: The kernels of each stream, in order.
    """
    machine = Machine(kernels.sharing)
    stream_of = {task: stream for stream, line in enumerate(lines) for task in line}
    waiting = {task: sum(each in stream_of for each in kernels.needs[task]) for task in stream_of}
    place, ends = [0] * len(lines), dict[int, float]()

    def start(stream: int) -> None:
        """Start what a stream has to do next, if it can."""
        line, at = lines[stream], place[stream]
        if at == len(line) or waiting[line[at]] or (at and line[at - 1] not in ends):
            return
        needs = (each for each in kernels.needs[line[at]] if stream_of.get(each, stream) != stream)
        moments = [ends[each] + kernels.wait_s for each in needs]
        moments += [ends[line[at - 1]] + kernels.gaps_s[line[at]]] if at else []
        place[stream] += 1
        machine.start(line[at], max([machine.now_s, *moments]))

    for stream in range(len(lines)):
        start(stream)
    while (ended := machine.next_end()) is not None:
        ends[ended] = machine.now_s
        behind = [each for each in kernels.successors[ended] if each in waiting]
        for each in behind:
            waiting[each] -= 1
        for stream in {stream_of[ended], *(stream_of[each] for each in behind)}:
            start(stream)
    return machine.now_s if len(ends) == len(stream_of) else inf


def exhaustive_s(kernels: Kernels) -> float:
    """Seconds of the best of all ways to share kernels out to streams, in any order."""
    return min(makespan_s(kernels, lines) for lines in _every(kernels.tasks))


def _every(tasks: Sequence[int]) -> Iterator[list[list[int]]]:
    """All sets of lists of tasks."""
    if not tasks:
        yield []
        return
    *others, task = tasks
    for lines in _every(others):
        for i, line in enumerate(lines):
            for at in range(len(line) + 1):
                yield [*lines[:i], [*line[:at], task, *line[at:]], *lines[i + 1 :]]
        yield [*lines, [task]]


def stages_s(kernels: Kernels) -> float:
    """Seconds of the best division of each block into stages, by the model."""
    cost = partial(stage_s, kernels)
    return sum(cost(stage) for stage in best_stages(kernels, cost))


def best_stages(kernels: Kernels, cost: Callable[[Lines], float]) -> list[Lines]:
    """The best division of each block into stages, one after the other, as IOS finds it.

    A block reaches up to the next concatenation. In a stage, groups of operators run at once, the operators
    of each one by one; the next stage starts when all are done.

    Args:
        kernels: Those of all blocks.
        cost: Seconds of a stage, of which lines are the groups.
    """
    return [stage for block in _blocks(kernels) for stage in _Stages(kernels, block, cost).best()]


def stage_s(kernels: Kernels, lines: Lines) -> float:
    """Seconds of a stage by the model, with those until the next begins."""
    between = kernels.wait_s if len(lines) > 1 else kernels.gaps_s[lines[0][0]]
    return makespan_s(kernels, lines) + between


def _blocks(kernels: Kernels) -> list[list[int]]:
    """Kernels by the first concatenation that needs them, or none."""
    first: dict[int, int] = {}
    for task in reversed(kernels.tasks):
        behind = [first[each] for each in kernels.successors[task]]
        ends = _is_join(kernels, task) and not any(
            _is_join(kernels, each) for each in kernels.successors[task]
        )
        first[task] = task if ends else min(behind, default=len(kernels.graph))
    return [[task for task in kernels.tasks if first[task] == end] for end in sorted(set(first.values()))]


def _is_join(kernels: Kernels, task: int) -> bool:
    return kernels.graph.name(task).startswith("cat")


def _operators(kernels: Kernels, block: Sequence[int]) -> list[list[int]]:
    """Kernels that follow each other without a branch, up to a convolution and its epilogue."""
    found: dict[int, list[int]] = {}
    name = kernels.graph.name
    for task in block:
        needs = kernels.needs[task]
        chain = found.get(needs[0]) if len(needs) == 1 and len(kernels.successors[needs[0]]) == 1 else None
        is_whole = chain is not None and any(name(each).startswith("Conv2d") for each in chain)
        if chain and (not is_whole or name(task).startswith(EPILOGUE)):
            chain.append(task)
            found[task] = chain
        else:
            found[task] = [task]
    return list({id(chain): chain for chain in found.values()}.values())


class _Stages:
    """The dynamic program over what of a block is done; sets of operators are numbers of bits."""

    def __init__(self, kernels: Kernels, block: Sequence[int], cost: Callable[[Lines], float]) -> None:
        self.operators = _operators(kernels, block)
        number = {task: i for i, tasks in enumerate(self.operators) for task in tasks}
        self.successors = [0] * len(self.operators)
        for task in block:
            for each in kernels.successors[task]:
                if each in number and number[each] != number[task]:
                    self.successors[number[task]] |= 1 << number[each]
        self.linked = list(self.successors)
        for i, bits in enumerate(self.successors):
            for j in _members(bits):
                self.linked[j] |= 1 << i
        self.stage_s = cache(lambda stage: cost(self._lines(stage)))
        self.last_stage = cache(self._last_stage)

    def best(self) -> list[Lines]:
        """Stages in their order."""
        done, found = (1 << len(self.operators)) - 1, []
        while done:
            found.append(self._lines(self.last_stage(done)[1]))
            done &= ~self.last_stage(done)[1]
        return found[::-1]

    def _last_stage(self, done: int) -> tuple[float, int]:
        """Seconds of what is done at best, and its last stage."""
        if not done:
            return 0.0, 0
        return min(
            (self.last_stage(done & ~stage)[0] + self.stage_s(stage), stage)
            for stage in self._last_stages(done)
        )

    def _last_stages(self, done: int) -> set[int]:
        """What nothing else of what is done needs, in groups that are not too large."""
        found: set[int] = set()

        def grow(stage: int) -> None:
            for i in _members(done & ~stage):
                grown = stage | 1 << i
                if grown not in found and not self.successors[i] & done & ~stage and self._fits(grown):
                    found.add(grown)
                    grow(grown)

        grow(0)
        return found

    def _fits(self, stage: int) -> bool:
        groups = self._groups(stage)
        return len(groups) <= _MOST_GROUPS and max(each.bit_count() for each in groups) <= _MOST_OF_A_GROUP

    def _groups(self, stage: int) -> list[int]:
        groups: list[int] = []
        for i in _members(stage):
            joined = [group for group in groups if group & self.linked[i]]
            groups = [*(group for group in groups if group not in joined), sum(joined) | 1 << i]
        return groups

    def _lines(self, stage: int) -> Lines:
        groups = self._groups(stage)
        return [[task for i in _members(group) for task in self.operators[i]] for group in groups]


def _members(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1
