"""Which workload a TIR function of anybody computes."""

from collections.abc import Callable
from typing import Any

from costmodel.errors import MissingExtraError
from costmodel.kernels.metaschedule._sample import open_space
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


def recognise_program(function: Any, written_as: Callable[[Workload], Any]) -> Workload | None:
    """Return the workload that a ``tvm.tirx.PrimFunc`` computes; None if it is not recognised.

    The function must be structurally equal to what Relax makes of the workload, or to
    ``written_as(workload)``. Names, and attributes that do not affect the computation, do not matter. This
    takes 1 to 50 ms.

    Args:
        function: The function, not scheduled.
        written_as: Returns an alternative form of the function for a workload.

    Raises:
        MissingExtraError: If TVM is not installed.
    """
    try:
        from tvm_ffi import structural_equal

        from costmodel.workloads.relax._recognise import possible_workloads, recognise, without_annotations
    except ModuleNotFoundError as error:
        raise MissingExtraError("Recognising workloads", "tvm") from error
    found = recognise(function)
    if found is not None:
        return found
    bare = without_annotations(function)
    for workload in possible_workloads(bare):
        if structural_equal(bare, without_annotations(written_as(workload))):
            return workload
    return None


def find_space(module: Any, kind: TargetKind) -> Any:
    """Return the design space of the operator that ``module["main"]`` is, else of the module itself.

    Args:
        module: The ``tvm.IRModule``, not scheduled.
        kind: Kind of device.

    Returns:
        The space; None where the module cannot be read.
    """
    try:
        found = recognise_program(module["main"], lambda workload: open_space(workload, kind).module["main"])
        if found:
            return open_space(found, kind)
        source = ProgramSource.of(module)
        return source.space(source.workloads[0], kind)
    except Exception:  # noqa: BLE001 (a tuning meets any program; TVM raises its own error types)
        return None
