"""Kernels of a program that nobody has recognised, by the traces that schedule it."""

from functools import cached_property
from typing import Any

from costmodel.kernels.metaschedule._database_json import plain_json
from costmodel.kernels.metaschedule._sample import lowered_launches
from costmodel.kernels.metaschedule._tensor_intrin import register_tensor_intrinsics
from costmodel.records._candidate import KernelLaunch


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
