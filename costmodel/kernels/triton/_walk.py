"""Walks a kernel's IR as one program runs it: loops with the trips that arguments tell, branches as taken.

Bounds and branches that depend on what is loaded are guessed, and counted.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from costmodel.kernels.triton._ir import IrOperation, Module, Region, parameters_of
from costmodel.kernels.triton._values import Argument, Rules, Value, passed_value, takes_last
from costmodel.kernels.triton.accesses._alignment import align_counter

GUESSED_TRIPS = 8
GUESSED_EXTENT = 64  # of a range that data decide, where its step is known
_MOST_TRIPS = 2**40


class Counter(Protocol):
    """Counts operations as the walk comes by."""

    def count(
        self, operation: IrOperation, operands: Sequence[Value], results: Sequence[Value], walk: "Walk"
    ) -> None:
        """Count one operation."""

    def enter_loop(
        self, operation: IrOperation, carried: Sequence[Value], trips: float, walk: "Walk"
    ) -> None:
        """Count a loop that is about to be entered."""

    def facts(self, walk: "Walk") -> dict[str, float]:
        """Return what was counted on a walk."""


@dataclass
class Guesses:
    """How many times the walk had to guess.

    Attributes:
        bounds: Loops whose trips are unknown.
        branches: Branches that data decide.
        unknown: Operations that the walk does not know.
    """

    bounds: int = 0
    branches: int = 0
    unknown: int = 0


@dataclass
class Walk:
    """One walk.

    Attributes:
        module: What is walked.
        arguments: What the kernel is called with, by position among those that are not compiled in.
        rules: What operations make of what is known.
        counter: Counts.
        guesses: How often it had to guess.
        depends_on_program: Whether the program's place decides how often a loop turns or what a branch does.
        waits: Loads that followed one another so far.
    """

    module: Module
    arguments: Sequence[Argument]
    rules: Rules
    counter: Counter
    guesses: Guesses = field(default_factory=Guesses)
    depends_on_program: bool = False
    waits: float = 0.0
    _values: dict[str, Value] = field(default_factory=dict)
    _trips: list[float] = field(default_factory=list)
    _share: float = 1.0
    _silent: bool = False
    _depth_of_calls: int = 0

    def run(self) -> None:
        """Walk the kernel."""
        for position, (name, kind) in enumerate(parameters_of(self.module.kernel)):
            given = self.arguments[position] if position < len(self.arguments) else None
            self._values[name] = passed_value(position, kind, given)
        self._run(self.module.kernel.regions[0])

    @property
    def times(self) -> float:
        """How often a program comes by the place where the walk is."""
        return self.times_at(len(self._trips))

    def times_at(self, depth: int) -> float:
        """How often something changes that varies in so many of the loops around."""
        return math.prod(self._trips[:depth], start=self._share)

    @property
    def loops(self) -> int:
        """How many loops are around."""
        return len(self._trips)

    def _run(self, region: Region) -> list[Value]:
        """Walk a region; return what its last operation passes on."""
        passed: list[Value] = []
        for operation in region.operations:
            operands = [self._values[name] for name in operation.operands if name in self._values]
            if operation.name.endswith((".yield", ".return", "scf.condition")):
                passed = operands
                continue
            step = _CONTROL.get(operation.name, Walk._step)
            results = step(self, operation, operands)
            self._values |= dict(zip(operation.results, results, strict=False))
        return passed

    def _step(self, operation: IrOperation, operands: Sequence[Value]) -> list[Value]:
        """Do an operation that changes no flow of control."""
        results = [self.rules.result(operation, kind, operands) for kind in operation.result_types]
        if operation.regions and operation.name not in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
            self.guesses.unknown += 1
            for region in operation.regions:
                self._run(region)
        self.waits = max(self.waits, *(each.waits for each in results))
        self.guesses.branches += operation.name == "arith.select" and takes_last(operands)
        if not self._silent:
            self.counter.count(operation, operands, results, self)
        return results if operation.results else []

    def _for(self, operation: IrOperation, _: Sequence[Value]) -> list[Value]:
        match = re.search(r"(%\S+) = (%\S+) to (%\S+) step (%[\w$.-]+(?:#\d+)?)", operation.text)
        if match is None:
            raise ValueError(f"scf.for must have bounds, but is {operation.text[:80]!r}")
        low, high, step = (self._values[match[i]] for i in (2, 3, 4))
        self._decides(low, high, step)
        trips = self._count_trips(low, high, step)
        header = operation.text.partition("iter_args(")[2].partition(") ->")[0]
        pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)", header)
        carried = [self._values[initial] for _, initial in pairs]
        if trips <= 0:
            return carried

        def turn(number: int, passed: Sequence[Value]) -> list[Value]:
            first, stride = low.number, step.number
            at = first + number * stride if isinstance(first, int) and isinstance(stride, int) else None
            index = replace(low, number=at, depth=self.loops, is_guess=low.is_guess or high.is_guess)
            if low.alignment and step.alignment:
                index = replace(index, alignment=align_counter(low.alignment, step.alignment))
            self._values[match[1]] = index
            self._values |= dict(zip([name for name, _ in pairs], passed, strict=True))
            return self._run(operation.regions[0])

        return self._loop(operation, carried, trips, turn)

    def _count_trips(self, low: Value, high: Value, step: Value) -> int:
        numbers = [each.number for each in (low, high, step)]
        if any(each.is_guess for each in (low, high, step)) or not all(isinstance(n, int) for n in numbers):
            self.guesses.bounds += 1
            return _guessed_trips(step.number if isinstance(step.number, int) and not step.is_guess else 0)
        first, last, stride = (int(number) for number in numbers)  # type: ignore[arg-type]
        return max(0, -(-(last - first) // max(1, stride)))

    def _decides(self, *values: Value) -> None:
        """Note whether the flow of control depends on the program, as far as that is known."""
        self.depends_on_program |= any(each.by_program and not each.is_guess for each in values)

    def _loop(
        self,
        operation: IrOperation,
        carried: Sequence[Value],
        trips: int,
        turn: Callable[[int, Sequence[Value]], list[Value]],
    ) -> list[Value]:
        """Walk the body of a loop: both turns of two, else that in the middle, which stands for all."""
        if not self._silent:
            self.counter.enter_loop(operation, carried, trips, self)
        used = [self._values[name].waits for name in operation.free_names if name in self._values]
        outside, begin = self.waits, max(used, default=0.0)
        sampled = range(trips) if trips <= 2 else [trips // 2]
        self._trips.append(trips / len(sampled))
        inside = [replace(each, depth=self.loops, waits=begin) for each in carried]
        passed: list[Value] = list(inside)
        self.waits = begin
        for number in sampled:
            passed = turn(number, passed)
        length = max(0.0, self.waits - begin) * trips / len(sampled)
        self._trips.pop()
        self.waits = max(outside, begin + length)
        if trips > len(sampled):
            passed = [_after(first, each, trips) for first, each in zip(inside, passed, strict=False)]
        return [replace(each, depth=min(each.depth, self.loops), waits=begin + length) for each in passed]

    def _while(self, operation: IrOperation, operands: Sequence[Value]) -> list[Value]:
        before, body = operation.regions
        names = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)", operation.text)
        carried = [self._values[initial] for _, initial in names]

        def test(passed: Sequence[Value]) -> list[Value]:
            self._values |= dict(zip([name for name, _ in names], passed, strict=True))
            return self._run(before)

        def turn(_: int, passed: Sequence[Value]) -> list[Value]:
            condition, *told = test(passed)
            del condition
            self._values |= dict(zip(body.arguments, told, strict=False))
            return self._run(body)

        trips = self._count_turns(carried, test, turn)
        if trips <= 0:
            return test(carried)[1:]
        last = self._loop(operation, carried, trips, turn)
        was, self._silent = self._silent, True
        try:
            return test(last)[1:]
        finally:
            self._silent = was

    def _count_turns(
        self,
        carried: Sequence[Value],
        test: Callable[[Sequence[Value]], list[Value]],
        turn: Callable[[int, Sequence[Value]], list[Value]],
    ) -> int:
        """Count the turns of a while loop whose numbers change by as much in each turn as in the first."""
        was, self._silent = self._silent, True
        try:
            passed = turn(0, carried)

            def condition(turns: int) -> Value:
                at = [_after(first, each, turns) for first, each in zip(carried, passed, strict=False)]
                truth = test(at)[0]
                self._decides(truth)
                return truth

            self.guesses.bounds += condition(0).is_guess  # what data decide is taken to hold
            trips = _first_failure(lambda turns: _holds(condition(turns)))
            return _guessed_trips(_longest_step(carried, passed)) if trips is None else trips
        finally:
            self._silent = was

    def _if(self, operation: IrOperation, operands: Sequence[Value]) -> list[Value]:
        condition = operands[0]
        self._decides(condition)
        if condition.number is not None and not condition.is_guess:
            taken = bool(np.all(condition.number))
            regions = operation.regions[:1] if taken else operation.regions[1:]
            passed = [self._run(region) for region in regions]
            return passed[0] if passed else []
        self.guesses.branches += condition.share == 1.0
        first = condition.share if condition.share < 1.0 or len(operation.regions) == 1 else 0.5
        whole, found = self._share, []
        for region, share in zip(operation.regions, (first, 1.0 - first), strict=False):
            self._share = whole * share
            found.append(self._run(region))
        self._share = whole
        return [replace(each, is_guess=True) for each in found[0]]

    def _call(self, operation: IrOperation, operands: Sequence[Value]) -> list[Value]:
        match = re.search(r"@([\w.$-]+|\"[^\"]+\")", operation.text)
        function = self.module.functions[match[1]] if match else None
        if function is None or self._depth_of_calls > 16:
            raise ValueError(
                f"a function that is called must be in the module, but is not: {operation.text[:80]}"
            )
        outer, self._values = self._values, {}
        self._values = dict(zip([name for name, _ in parameters_of(function)], operands, strict=False))
        self._depth_of_calls += 1
        try:
            return self._run(function.regions[0])
        finally:
            self._depth_of_calls -= 1
            self._values = outer


_CONTROL: Mapping[str, Callable[[Walk, IrOperation, Sequence[Value]], list[Value]]] = {
    "scf.for": Walk._for,
    "scf.while": Walk._while,
    "scf.if": Walk._if,
    "tt.call": Walk._call,
}


def _after(first: Value, second: Value, turns: int) -> Value:
    """What a carried value is after so many turns, if it changes in each as it did in one."""
    a, b = first.number, second.number
    if a is None or b is None or np.shape(a) != np.shape(b) or np.asarray(b).dtype == bool:
        return second if turns else first
    return replace(second, number=a + turns * (b - a))


def _holds(truth: Value) -> bool:
    return truth.number is None or bool(np.all(truth.number))


def _guessed_trips(step: int) -> int:
    """Return how often a loop is taken to turn whose end data decide; a step of 0 is not known."""
    return math.ceil(GUESSED_EXTENT / step) if step > 0 else GUESSED_TRIPS


def _longest_step(first: Sequence[Value], second: Sequence[Value]) -> int:
    """Return by how much the counter of a loop changes in a turn; 0 if there is none."""
    counters = [(a.number, b.number) for a, b in zip(first, second, strict=False) if not a.type.is_pointer]
    return max((abs(b - a) for a, b in counters if isinstance(a, int) and isinstance(b, int)), default=0)


def _first_failure(goes_on: Callable[[int], bool]) -> int | None:
    """Return the smallest number of turns after which a loop ends, by doubling and then halving.

    None if it does not.
    """
    if not goes_on(0):
        return 0
    high = 1
    while goes_on(high):
        high *= 2
        if high > _MOST_TRIPS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if goes_on(middle) else (low, middle)
    return high
