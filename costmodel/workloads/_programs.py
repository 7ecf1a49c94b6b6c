"""Which workload a TIR function of anybody computes."""

from collections.abc import Callable
from typing import Any

from costmodel.errors import MissingExtraError
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
