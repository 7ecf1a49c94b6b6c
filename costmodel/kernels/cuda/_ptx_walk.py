"""Walks a kernel's PTX as one warp runs it, and counts what it does. Data are unknown.

Lanes that went different ways are run one basic block after the other, the first in the text first, so that
they meet again where compilers let them. Once two turns of a loop went the same way, those that follow are
counted and not run: what changed by the same number in both tells how long comparisons stay as they are.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.kernels.cuda._ptx import PtxInstruction, PtxKernel
from costmodel.kernels.cuda._ptx_values import LANES, Known, Lanes, compute_lanes, typed
from costmodel.kernels.cuda._warp_counts import WarpCounts

_ADDRESS = re.compile(r"\[\s*([%$\w.]+|-?\d+)\s*(?:\+\s*(-?\d+))?\s*\]")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)U?")
_GUESSED_TURNS = 8  # of a loop whose end data decide
_MOST_STEPS = 200_000  # basic blocks that are run of a warp
_FAR = 1 << 60


class WarpPlace(NamedTuple):
    """Which warp of a launch is walked.

    Attributes:
        block: Place of its block in the grid.
        first: Number of its first thread in the block.
        grid: Blocks along each axis.
        threads: Threads of a block along each axis.
    """

    block: tuple[int, int, int]
    first: int
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]


class _Test(NamedTuple):
    """A comparison: how, and of what."""

    instruction: PtxInstruction
    given: tuple[Known, ...]


@dataclass
class _Arrival:
    """What was there when a loop turned."""

    steps: int
    tests: int
    registers: Mapping[str, Known]
    counts: FloatArray


@dataclass
class WarpWalk:
    """A walk of one warp.

    Attributes:
        kernel: The kernel.
        arguments: What it is called with: numbers, None of such as are no whole numbers, addresses of arrays.
        place: The warp.
        counts: What is counted.
    """

    kernel: PtxKernel
    arguments: Sequence[int | None]
    place: WarpPlace
    counts: WarpCounts
    _registers: dict[str, Known] = field(default_factory=dict)
    _steps: list[tuple[int, bytes]] = field(default_factory=list)
    _tests: list[_Test] = field(default_factory=list)
    _arrivals: dict[tuple[int, int], list[_Arrival]] = field(default_factory=dict)
    _guessed: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def run(self) -> None:
        """Walk to the end.

        Raises:
            CostModelError: It takes too long.
        """
        x, y, z = self.place.threads
        number = self.place.first + np.arange(LANES)
        at = np.where(number < x * y * z, 0, -1)  # the block that each lane runs next
        self._registers |= self._special(number)
        while (alive := at >= 0).any():
            block = int(at[alive].min())
            active = at == block
            for arrived in [key for key in self._arrivals if not key[1] <= block <= key[0]]:
                del self._arrivals[arrived]
            self._steps.append((block, active.tobytes()))
            if len(self._steps) > _MOST_STEPS:
                raise CostModelError("A warp must end its kernel after a while, but does not.")
            at = self._run_block(block, active, at)

    def _run_block(self, block: int, active: Lanes, at: Lanes) -> Lanes:
        """Run a basic block, and return which one each lane runs next."""
        self.counts.enter(block, self.kernel.blocks[block])
        following = np.where(active, block + 1 if block + 1 < len(self.kernel.blocks) else -1, at)
        for each in self.kernel.blocks[block]:
            if each.name == "bra":
                taken = self._taken(each, block, active)
                to = self.kernel.labels[each.operands[0]]
                following = np.where(taken, to, following)
                if to <= block and (taken == active).all():
                    self._turn(block, to)
            elif each.name in ("ret", "exit"):
                following = np.where(active & self._holds(each), -1, following)
            else:
                self._execute(each, active)
        self.counts.leave()
        return following

    def _holds(self, instruction: PtxInstruction) -> Lanes:
        """Lanes where a guard holds; all where data decide."""
        if not instruction.guard:
            return np.ones(LANES, bool)
        known = self._registers.get(instruction.guard)
        if known is None:
            return np.ones(LANES, bool)
        return ~known if instruction.is_negated else known

    def _taken(self, branch: PtxInstruction, block: int, active: Lanes) -> Lanes:
        """Lanes that take a branch. Where data decide it goes on, or turns a loop some times."""
        if not branch.guard or self._registers.get(branch.guard) is not None:
            return active & self._holds(branch)
        is_back = self.kernel.labels[branch.operands[0]] <= block
        self.counts.add("guessed_bounds" if is_back else "guessed_branches", 1)
        self._guessed[block] += 1
        return active & (is_back and self._guessed[block] % _GUESSED_TURNS != 0)

    def _execute(self, instruction: PtxInstruction, active: Lanes) -> None:
        lanes = active & self._holds(instruction)
        name, operands = instruction.name, instruction.operands
        if name == "ld" and "param" in instruction.parts:
            self._set(operands[0], self._parameter(operands[1], instruction.parts[-1]), lanes)
            return
        addressed = [each for each in operands if each.startswith("[")]
        if addressed:
            found = [self._address(each) for each in addressed]
            self.counts.access(instruction, found, lanes, active)
            if name in ("ld", "atom", "ldmatrix", "ldu"):
                for register in operands[0].strip("{}").split(","):
                    self._registers[register.strip()] = None
            return
        if not operands or not operands[0].startswith(("%", "{")):
            return
        given = [self._value(each) for each in operands[1:]]
        value = compute_lanes(instruction, given) if not operands[0].startswith("{") else None
        if name == "setp" and value is not None:
            self._tests.append(_Test(instruction, tuple(given)))
        for register in operands[0].strip("{}").split(","):
            self._set(register.strip(), value, lanes)

    def _set(self, register: str, value: Known, lanes: Lanes) -> None:
        before = self._registers.get(register)
        if value is not None and before is not None and not lanes.all() and before.dtype == value.dtype:
            value = np.where(lanes, value, before)
        elif value is not None:
            value = np.broadcast_to(value, (LANES,))
        self._registers[register] = value

    def _value(self, operand: str) -> Known:
        if operand in self._registers:
            return self._registers[operand]
        if _NUMBER.fullmatch(operand):
            return np.broadcast_to(np.int64(int(operand.removesuffix("U"), 0)), (LANES,))
        if operand in self.kernel.shared:
            return np.broadcast_to(np.int64(self.kernel.shared[operand]), (LANES,))
        return None

    def _parameter(self, operand: str, kind: str) -> Known:
        found = _ADDRESS.fullmatch(operand)
        if found is None or found[1] not in self.kernel.parameters or kind.startswith("f"):
            return None
        value = self.arguments[self.kernel.parameters.index(found[1])]
        return None if value is None else np.broadcast_to(typed(value, kind), (LANES,))

    def _address(self, operand: str) -> Known:
        found = _ADDRESS.fullmatch(operand)
        base = self._value(found[1]) if found else None
        return None if base is None or found is None else base.astype(np.int64) + int(found[2] or 0)

    def _special(self, number: Lanes) -> dict[str, Known]:
        x, y, _ = self.place.threads
        threads = (number % x, number // x % y, number // (x * y))
        found: dict[str, Any] = {"%laneid": np.arange(LANES), "%warpid": number // LANES}
        for i, axis in enumerate("xyz"):
            found[f"%tid.{axis}"] = threads[i]
            found[f"%ctaid.{axis}"] = self.place.block[i]
            found[f"%nctaid.{axis}"] = self.place.grid[i]
            found[f"%ntid.{axis}"] = self.place.threads[i]
        return {name: np.broadcast_to(typed(value, "u32"), (LANES,)) for name, value in found.items()}

    def _turn(self, block: int, to: int) -> None:
        """Note that a loop turns; skip the turns that are like the last two."""
        self.counts.turn(block, is_first=(block, to) not in self._arrivals)
        seen = self._arrivals.setdefault((block, to), [])
        seen.append(_Arrival(len(self._steps), len(self._tests), dict(self._registers), self.counts.sums()))
        if len(seen) < 3:
            return
        first, second, third = seen[-3:]
        if self._steps[first.steps : second.steps] != self._steps[second.steps : third.steps]:
            return
        before, now = self._tests[first.tests : second.tests], self._tests[second.tests : third.tests]
        turns = min(map(_turns_alike, before, now), default=0)
        if not 0 < turns < _FAR:
            return
        for name, value in third.registers.items():
            old, older = second.registers.get(name), first.registers.get(name)
            if value is None or old is None or older is None or value.dtype == bool or value is old:
                continue
            step = value - old
            if (step == old - older).all():
                self._registers[name] = (value + turns * step.astype(np.int64)).astype(value.dtype)
        self.counts.skip(block, third.counts - second.counts, turns)
        seen.clear()
        self._steps.append((block, str(turns).encode()))


def _turns_alike(old: _Test, new: _Test) -> int:
    """For how many further turns a comparison ends alike, if its sides go on as between the last two."""
    if old.instruction != new.instruction:
        return 0
    (a, b), (a_before, b_before) = new.given[:2], old.given[:2]
    if a is None or b is None or a_before is None or b_before is None:
        return 0
    apart = a.astype(np.int64) - b
    step = apart - (a_before.astype(np.int64) - b_before)
    # It may change where both sides meet; the turn before is the last that is surely alike.
    meets = (apart != 0) & (apart * step < 0)
    turns = np.where(meets, (np.abs(apart) - 1) // np.maximum(1, np.abs(step)), _FAR)
    return int(np.where((apart == 0) & (step != 0), 0, turns).min())
