"""What the models for CP-SAT share: costs as integers, slots in a row, and the solver."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import floor, inf
from typing import Any

import numpy as np

from costmodel.errors import MissingExtraError
from costmodel.planner.placement._blocks import Blocks, Kind

# The value of a placement that is already known is so many units: finer than any latency is measured. With
# 2**30 the presolve of OR-tools 9.15 calls a problem infeasible that is not (the operator graph of BERT-3).
_UNITS = 2**24

Found = tuple[dict[int, str] | None, float]  # device of each node, if any were found, and the bound


def has_solver() -> bool:
    """Whether OR-tools is installed."""
    return find_spec("ortools") is not None


def import_cp_model() -> Any:
    """CP-SAT.

    Raises:
        MissingExtraError: OR-tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise MissingExtraError("Proving a placement", "planner") from error
    return cp_model


@dataclass(frozen=True)
class Scale:
    """Times as whole units, rounded down, so that what is proven of them holds for the exact times too.

    A bound is below the exact one by at most a unit for each block and each transfer.

    Attributes:
        known: Value of a placement that is known; nothing slower is searched for.
        count: How many units that is.
    """

    known: float
    count: int = _UNITS

    @property
    def unit(self) -> float:
        """Time of one unit."""
        return self.known / self.count or 1.0

    def units(self, time: float) -> int:
        """Whole units; more than ``most`` for all that takes longer."""
        return min(floor(time / self.unit), self.count + 2)

    @property
    def most(self) -> int:
        """Units of what is known, and one for what sums of floats leave over."""
        return self.count + 1


@dataclass(frozen=True)
class Solved:
    """What the solver found.

    Attributes:
        solver: Its values; None if it found no placement.
        bound: No placement is better than this, in the times of the problem; infinite if there is none.
    """

    solver: Any
    bound: float


def solve(model: Any, scale: Scale, time_limit_s: float, seed: int) -> Solved:
    """Run CP-SAT with one worker, which takes the same way each time."""
    cp_model = import_cp_model()
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = max(time_limit_s, 0.0)
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Solved(None, inf)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return Solved(solver if found else None, max(solver.best_objective_bound, 0.0) * scale.unit)


class Slots:
    """For each item one of ``count`` slots in a row.

    Attributes:
        at: For each item a list of ``count`` literals, of which one is true.
    """

    def __init__(self, model: Any, items: int, count: int, *, ordered: bool) -> None:
        self._model = model
        self.at = [[model.new_bool_var("") for _ in range(count)] for _ in range(items)]
        for literals in self.at:
            model.add_exactly_one(literals)
        self._until = [self._prefixes(literals) for literals in self.at] if ordered else []

    def column(self, slot: int) -> list[Any]:
        """For each item the literal that it is in a slot."""
        return [literals[slot] for literals in self.at]

    def slot_of(self, solver: Any, item: int) -> int:
        """Where the solver put an item."""
        return [solver.boolean_value(each) for each in self.at[item]].index(True)

    def add_order(self, edges: Sequence[tuple[int, int]]) -> None:
        """Let no edge lead to an earlier slot."""
        for u, v in edges:
            for before, after in zip(self._until[u], self._until[v], strict=True):
                self._model.add_implication(after, before)

    def _prefixes(self, literals: list[Any]) -> list[Any]:
        """For each slot but the last whether an item is in it or before."""
        until: list[Any] = []
        for literal in literals[:-1]:
            added = self._model.new_bool_var("")
            self._model.add(added == literal + (until[-1] if until else 0))
            until.append(added)
        return until


def kind_choice(model: Any, counts: Sequence[int]) -> list[list[Any]]:
    """For each slot a literal for each kind of device; one holds, as often as the kind has devices."""
    chosen = [[model.new_bool_var("") for _ in counts] for _ in range(sum(counts))]
    for literals in chosen:
        model.add_exactly_one(literals)
    for kind, count in enumerate(counts):
        model.add(sum(literals[kind] for literals in chosen) == count)
    return chosen


def device_names(solver: Any, chosen: list[list[Any]], kinds: Sequence[Kind]) -> list[str]:
    """The device of each slot: of its kind the next that is not taken."""
    free = [iter(kind.names) for kind in kinds]
    return [next(free[[solver.boolean_value(each) for each in literals].index(True)]) for literals in chosen]


def moved(model: Any, blocks: Blocks, scale: Scale, mine: Sequence[Any]) -> Any:
    """Units of all that crosses the border of a device that has the blocks whose literals hold."""
    return sum(
        scale.units(value.cost) * _crossing(model, [mine[block] for block in value.blocks])
        for value in blocks.values
        if scale.units(value.cost)
    )


def limit(model: Any, blocks: Blocks, kind: int, mine: Sequence[Any], here: Any) -> None:
    """Let a device have only what it runs and what fits into its memory, where it is of a kind."""
    for block in np.flatnonzero(~blocks.runs[:, kind]).tolist():
        model.add_implication(mine[block], here.negated())
    device = blocks.kinds[kind].device
    if not device.is_cpu and blocks.memory.sum() > device.memory:
        taken = sum(int(size) * literal for size, literal in zip(blocks.memory, mine, strict=True))
        model.add(taken <= int(device.memory)).only_enforce_if(here)


def _crossing(model: Any, members: Sequence[Any]) -> Any:
    """A literal that must hold where some of the members do but not all; the first is the writer."""
    crosses = model.new_bool_var("")
    writer, *readers = members
    for reader in readers:
        model.add_bool_or(crosses, writer.negated(), reader)
        model.add_bool_or(crosses, writer, reader.negated())
    return crosses
