"""Kernels of a program that nobody has recognised, by the traces that schedule it."""

from typing import Any

from costmodel.kernels.metaschedule._sample import lowered_launches
from costmodel.kernels.metaschedule._tensor_intrin import register_tensor_intrinsics
from costmodel.records import KernelLaunch


class TracedProgram:
    """A program of a MetaSchedule database. Loads TVM when it is first asked for launches.

    Args:
        structural_hash: First column of the program's row.
        text: Second column: the program.
    """

    def __init__(self, structural_hash: str, text: str) -> None:
        self._row = structural_hash, text
        self._module: Any = None
        self._is_read = False

    def launches(self, trace: Any) -> tuple[KernelLaunch, ...]:
        """What the kernels launch that a trace makes of the program: 10 to 50 ms.

        Grid, block, tiles and cached buffers are those of the lowered program; nothing is recognised, and
        nothing compiled.

        Args:
            trace: Its JSON, with the postprocessors' instructions, as a database keeps it.

        Returns:
            The kernels in order of launch; none where program or trace cannot be read or lowered.
        """
        module = self._read()
        if module is None:
            return ()
        from tvm.s_tir import Schedule
        from tvm.s_tir.schedule import Trace

        schedule = Schedule(module, debug_mask=0)
        try:
            if any(kind == "Tensorize" for kind, *_ in trace[0]):
                register_tensor_intrinsics()  # which takes seconds
            Trace.apply_json_to_schedule(trace, schedule)
        except Exception:  # noqa: BLE001 (TVM raises its own error types for what does not fit)
            return ()
        return lowered_launches(schedule.mod)

    def _read(self) -> Any:
        """The program; None where it cannot be read."""
        if not self._is_read:
            from tvm.s_tir import meta_schedule as ms

            self._is_read = True
            try:
                self._module = ms.database.Workload.from_json(list(self._row)).mod
            except Exception:  # noqa: BLE001 (a program of another version of TVM, or damaged)
                self._module = None
        return self._module
