"""Programs and schedules as MetaSchedule's JSON databases keep them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from costmodel.records._candidate import Config
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


def plain_json(value: Any) -> Any:
    """JSON values of what TVM gives as JSON, which holds numbers and containers of its own."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return str(value)  # TVM's own texts are of another type
    if hasattr(value, "items"):
        return {str(name): plain_json(item) for name, item in value.items()}
    return value.value if hasattr(value, "value") else [plain_json(item) for item in value]


def _entry(workload: Workload) -> Any:
    from tvm.s_tir import meta_schedule as ms

    from costmodel.kernels.metaschedule._workload_ir import workload_module

    return ms.database.Workload(workload_module(workload))
