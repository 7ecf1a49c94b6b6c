"""A program that MetaSchedule tunes, and what its candidates are to a model."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tvm_ffi

from costmodel.arrays import FloatArray
from costmodel.features import COLUMNS, extract
from costmodel.integrations.tvm._target import target_kind
from costmodel.kernels.metaschedule import lowered_launches, open_space
from costmodel.records import Candidate, Config, KernelLaunch, Platform, TargetKind, Workload
from costmodel.workloads import recognise_program

# Launches that are remembered: those of a population and what is bred from it. Each takes some 1 kB.
_REMEMBERED = 8192

Lower = Callable[[Any], tuple[KernelLaunch, ...]]


class Program:
    """One program, told apart by its structural hash.

    Attributes:
        key: The structural hash of the module, in hexadecimal.
        workload: What it computes; a workload without sizes where that is not recognised.
        recognised: Whether it is.
        space: Design space of the workload; None where it is not recognised.
    """

    def __init__(self, module: Any, target: Any, lower: Lower = lowered_launches) -> None:
        """Recognise ``module["main"]``, tuned for ``target``.

        Args:
            module: The program, not scheduled.
            target: TVM's target.
            lower: Gives the launches of a scheduled program that is not recognised.
        """
        kind = target_kind(target)
        self.key = program_key(module)
        found = _recognise(module["main"], kind) if kind else None
        self.recognised = found is not None
        self.workload = found or Workload(f"tvm.program_{self.key}", {}, "")
        self.space = open_space(found, kind) if found and kind else None
        self._lower = lower
        self._launches: OrderedDict[int, tuple[KernelLaunch, ...]] = OrderedDict()

    @property
    def verdict(self) -> str:
        """Whether it was recognised, and what follows for tuning it."""
        if self.recognised:
            return f"is {self.workload.name}: the model screens its design space without lowering"
        return (
            "is no workload that is recognised: TVM's evolution proposes, and what it lowers is ranked "
            "by its launches"
        )

    def features(self, schedules: Sequence[Any], platform: Platform) -> FloatArray:
        """``(n, d)`` columns ``COLUMNS`` of scheduled programs on a platform.

        Of recognised programs they are worked out from decisions: no schedule is lowered. Otherwise they are
        what lowered programs say of their launches, and NaN in all other columns.
        """
        candidates = [self._candidate(schedule) for schedule in schedules]
        table = extract(candidates, [platform] * len(candidates))
        return table.values[:, : len(COLUMNS)]  # behind them are those of foreign workloads: there are none

    def _candidate(self, schedule: Any) -> Candidate:
        config = self.space.config_like(schedule.trace) if self.space else None
        if self.space and config:
            return Candidate(self.workload, self.space.name, config)
        return Candidate(self.workload, "", Config({}), self._launches_of(schedule.mod))

    def _launches_of(self, module: Any) -> tuple[KernelLaunch, ...]:
        """What the lowered program says, remembered: search asks again for what it bred from."""
        key = int(tvm_ffi.structural_hash(module))
        if key not in self._launches:
            self._launches[key] = self._lower(module)
        self._launches.move_to_end(key)
        if len(self._launches) > _REMEMBERED:
            self._launches.popitem(last=False)
        return self._launches[key]


@cache
def tell(task: str, verdict: str) -> None:
    """Say on stderr, once for each task, what became of it."""
    print(f"costmodel: task {task} {verdict}.", file=sys.stderr, flush=True)


def program_key(module: Any) -> str:
    """Structural hash of a module in hexadecimal: the same in every process, whatever names it uses."""
    return f"{int(tvm_ffi.structural_hash(module)) & (1 << 64) - 1:016x}"


def _recognise(function: Any, kind: TargetKind) -> Workload | None:
    return recognise_program(function, lambda workload: open_space(workload, kind).module["main"])
