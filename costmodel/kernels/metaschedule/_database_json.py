"""Programs and schedules as MetaSchedule's JSON databases keep them."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from costmodel.kernels.metaschedule._choices import plain_json
from costmodel.kernels.metaschedule._source import lowered_launches
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records._candidate import Config, KernelLaunch
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace


@lru_cache(maxsize=256)
def database_workload(workload: Workload) -> tuple[str, str]:
    """The row of a workload's program: its structural hash, and the program.

    TVM computes the hash when a program is stored, and looks programs up by it. Programs that differ in names
    only have the same. Loads TVM.
    """
    program, text = _entry(workload).as_json()
    return str(program), str(text)


def database_record(
    space: "MetaScheduleSpace", config: Config, target: Any, latencies_s: Sequence[float]
) -> list[Any]:
    """The record of a config: its trace, latencies, target and the shapes of its arguments. Loads TVM.

    Args:
        space: The space of the config.
        config: The choice.
        target: TVM target that the kernel was made for.
        latencies_s: Seconds of each repeat.

    Raises:
        InvalidConfigError: No valid kernel comes of it.
    """
    from tvm.s_tir import meta_schedule as ms

    record = ms.database.TuningRecord(
        space.schedule(config).trace,
        _entry(space.workload),
        list(latencies_s),
        target,
        ms.arg_info.ArgInfo.from_prim_func(space.module["main"]),
    )
    return record_fields(record)


def record_fields(record: Any) -> list[Any]:
    """A record's fields as a database keeps them: trace, seconds of each repeat, target, arguments.

    ``TuningRecord.as_json`` gives the same, but raises where the trace changes a layout (TVM 0.27).
    """
    arguments = [argument.as_json() for argument in record.args_info]
    target = record.target.export() if record.target else None
    fields: list[Any] = plain_json([record.trace.as_json(), record.run_secs, target, arguments])
    return fields


def check_program(row: list[Any]) -> None:
    """Let TVM read the row of a program, and go through what it is. Call it apart: see ``call_apart``."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    tvm.s_tir.Schedule(ms.database.Workload.from_json(row).mod)


def check_record(row: list[Any], fields: list[Any]) -> None:
    """Let TVM read a record of the program of a row, and apply its trace; see ``check_program``."""
    from tvm.s_tir import meta_schedule as ms

    ms.database.TuningRecord.from_json(fields, ms.database.Workload.from_json(row))


def _entry(workload: Workload) -> Any:
    from tvm.s_tir import meta_schedule as ms

    from costmodel.kernels.metaschedule._workload_ir import workload_module

    return ms.database.Workload(workload_module(workload))


class TracedProgram:
    """A program of a MetaSchedule database. Loads TVM when it is first asked for launches.

    Args:
        structural_hash: First column of the program's row.
        text: Second column: the program.
    """

    def __init__(self, structural_hash: str, text: str) -> None:
        self._row = structural_hash, text

    def replay(self, trace: Any) -> Any:
        """The schedule that a trace makes of the program: 5 to 30 ms.

        Args:
            trace: Its JSON, with the postprocessors' instructions, as a database keeps it.

        Returns:
            The ``tvm.s_tir.Schedule``; None where program or trace cannot be read or applied.
        """
        if self.module is None:
            return None
        from tvm.s_tir import Schedule
        from tvm.s_tir.schedule import Trace

        schedule = Schedule(self.module, debug_mask=0)
        try:
            if any(kind == "Tensorize" for kind, *_ in trace[0]):
                register_tensor_intrinsics()  # which takes seconds
            Trace.apply_json_to_schedule(trace, schedule)
        except Exception:  # noqa: BLE001 (TVM raises its own error types for what does not fit)
            return None
        return schedule

    def replayed(self, trace: Any) -> Any:
        """The trace that TVM keeps of a replay, in JSON; None where it cannot be replayed."""
        schedule = self.replay(trace)
        if schedule is None:
            return None
        return plain_json(schedule.trace.as_json())

    def launches(self, trace: Any) -> tuple[KernelLaunch, ...]:
        """What the kernels launch that a trace makes of the program: 10 to 50 ms.

        Grid, block, tiles and cached buffers are those of the lowered program; nothing is recognised, and
        nothing compiled. There are none where the trace cannot be replayed, or what it makes not be lowered.
        """
        schedule = self.replay(trace)
        return () if schedule is None else lowered_launches(schedule.mod)

    @cached_property
    def module(self) -> Any:
        """The ``tvm.IRModule``; None where it cannot be read."""
        from tvm.s_tir import meta_schedule as ms

        try:
            return ms.database.Workload.from_json(list(self._row)).mod
        except Exception:  # noqa: BLE001 (a program of another version of TVM, or damaged)
            return None
