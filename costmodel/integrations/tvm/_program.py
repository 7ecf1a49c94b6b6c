"""A program that MetaSchedule tunes, where it is to run, and what its candidates are to a model."""

import json
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tvm_ffi

from costmodel.arrays import FloatArray
from costmodel.collector.runners._devices import CpuRunner, CudaRunner
from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.features._extract import COLUMNS, extract, extract_batch
from costmodel.kernels.metaschedule._choices import plain_json
from costmodel.kernels.metaschedule._source import lowered_launches
from costmodel.printable import make_printable
from costmodel.records._candidate import Candidate, Config, KernelLaunch, config_batches
from costmodel.records._device_table import find_device
from costmodel.records._platform import Platform, TargetKind, part_of
from costmodel.records._workload import Workload
from costmodel.search.spaces._kernel import KernelSpace
from costmodel.workloads._programs import FoundSpace, find_space

# What our parts raise comes out of TVM, which calls them, as what it is: else it would be a RuntimeError.
tvm_ffi.register_error("CostModelError", CostModelError)

RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}
_KINDS: dict[str, TargetKind] = {"cuda": "cuda", "llvm": "cpu"}


def local_platform(kind: TargetKind, sms: int | None = None) -> Platform:
    """Return the platform with ``sms`` SMs of this machine's device, opening the device in a process.

    This takes seconds.

    Args:
        kind: Kind of device.
        sms: Number of SMs (threads on a CPU). Default: the whole device.

    Raises:
        CostModelError: If there is no such device, or it cannot grant this number of SMs.
    """
    try:
        runner = RUNNERS[kind](build_workers=1)
    except DeviceUnavailableError as error:
        raise CostModelError(
            f"The platform must be known, but no {kind} device can be opened here. Name one: "
            f"platform=named_platform('NVIDIA H100 80GB HBM3', sms=32). ({error})"
        ) from error
    with runner:
        return runner.platform(sms)


def platform_for(target: Any, sms: int | None = None) -> Platform:
    """The platform of this machine that a TVM target is for.

    Raises:
        CostModelError: The target is for no kind of device that is known, or ``local_platform`` finds none.
    """
    kind = target_kind(target)
    if kind is None:
        raise CostModelError(
            "The target must be of kind cuda or llvm so that its device can be found, but got "
            f"{target.kind.name}. Give the platform."
        )
    return local_platform(kind, sms)


def refuse_other_sms(sms: int | None, platform: Platform | None) -> None:
    """Refuse SMs that are not those of the platform beside which they are given.

    Raises:
        CostModelError: They are not.
    """
    if sms is not None and platform is not None and sms != platform.sms_granted:
        raise CostModelError(
            f"sms must be left out if a platform is given, which has {platform.sms_granted}, but got {sms}."
        )


def named_platform(device: str, sms: int | None = None) -> Platform:
    """Return a platform on a named device, which need not be in this machine.

    Args:
        device: Name of a device; ``costmodel devices`` lists them.
        sms: Number of SMs of a green context (threads on a CPU). Default: the whole device.

    Raises:
        CostModelError: If no device has this name, or it has fewer SMs.
    """
    return part_of(find_device(device), sms)


def target_kind(target: Any) -> TargetKind | None:
    """Kind of device of a TVM target; None for one that no runner of ours can measure on."""
    return _KINDS.get(str(target.kind.name))


def target_json(target: Any) -> str:
    """Canonical JSON of a target's fields, from which ``tvm.target.Target`` can be made again."""
    return json.dumps(plain_json(target.export()), sort_keys=True)


def drop_host(target: str) -> str:
    """The canonical JSON without the host: kernels of a device are the same whoever launches them."""
    fields = json.loads(target)
    fields.pop("host", None)
    return json.dumps(fields, sort_keys=True)


# Launches that are remembered: those of a population and what is bred from it. Each takes some 1 kB.
_REMEMBERED = 8192

Lower = Callable[[Any], tuple[KernelLaunch, ...]]


class TunedProgram:
    """A program, identified by its structural hash.

    Attributes:
        key: Structural hash of the module, in hexadecimal.
        operator: The operator that the program computes; None if it is not recognised.
        space: Design space of its kernels, see ``find_space``; None if it cannot be read, or for an unknown
            target.
        workload: That of the space.
    """

    def __init__(self, module: Any, target: Any, lower: Lower = lowered_launches) -> None:
        """Recognise ``module["main"]``, tuned for ``target``, or read what it computes.

        Args:
            module: The program, not scheduled.
            target: TVM's target.
            lower: Gives the launches of a scheduled program of which no design space is known.
        """
        kind = target_kind(target)
        self.key = program_key(module)
        found = find_space(module, kind) if kind else FoundSpace(None, None)
        self.operator, self.space = found.operator, found.space
        self.workload = self.space.workload if self.space else Workload(f"tvm.program_{self.key}", {}, "")
        self._lower = lower
        self._launches: OrderedDict[int, tuple[KernelLaunch, ...]] = OrderedDict()

    @property
    def verdict(self) -> str:
        """Return what the program was recognised as, and what follows for tuning it."""
        if self.space is None:
            return "cannot be read: TVM's evolution proposes, and what it lowers is ranked by its launches"
        what = f"is {self.operator.name}" if self.operator else "is no known operator"
        return f"{what}: the model screens its design space without lowering"

    def features(self, schedules: Sequence[Any], platform: Platform) -> FloatArray:
        """Compute the features of scheduled programs on a platform.

        The features are computed from decisions; no schedule is lowered. If the trace of a program follows no
        sketch of the design space, they describe the launches of the lowered program, and the columns of
        configs are NaN.

        Returns:
            ``(n, d)`` array with the columns ``COLUMNS``.
        """
        candidates = [self._candidate(schedule) for schedule in schedules]
        values = extract(candidates, [platform] * len(candidates)).values[:, : len(COLUMNS)]
        if self.space and self.workload.is_program:
            for rows, batch in config_batches(candidates):
                if batch.decisions:
                    values[rows] = extract_batch(batch, platform, self.space.launches(batch)).values
        return values

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
def announce(task: str, verdict: str) -> None:
    """Say on stderr, once for each task, what became of it."""
    print(make_printable(f"costmodel: task {task} {verdict}."), file=sys.stderr, flush=True)


def program_key(module: Any) -> str:
    """Return the structural hash of a module in hexadecimal, independent of process and names."""
    return f"{int(tvm_ffi.structural_hash(module)) & (1 << 64) - 1:016x}"


class ScheduledSpace(KernelSpace):
    """The space of an operator, whose configs schedule somebody's program of it.

    Args:
        space: Space of the operator.
        platform: Where the kernels would run.
        program: The program, as ``MetaKernelSpace.other_program`` gives it.
    """

    def __init__(self, space: Any, platform: Platform, program: Any) -> None:
        super().__init__(space, platform)
        self._program = program
        self._schedules: dict[str, Any] = {}

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config of which a schedule of the program comes.

        Raises:
            InvalidConfigError: None does.
        """
        if config.config_id not in self._schedules:
            self._schedules[config.config_id] = self._program.schedule(config)
        return Candidate(self.space.workload, self.space.name, config)

    def take_schedule(self, config: Config) -> Any:
        """The schedule of a candidate, which is forgotten."""
        self.candidate(config)
        return self._schedules.pop(config.config_id)
