"""Which workload a TIR function of anybody computes."""

from collections.abc import Callable
from typing import Any

from costmodel.errors import MissingExtraError
from costmodel.records import Workload


def recognise_program(function: Any, written_as: Callable[[Workload], Any]) -> Workload | None:
    """The workload that a ``tvm.tirx.PrimFunc`` computes; None where it is none.

    It is one if it is structurally equal to what Relax makes of the workload, or to ``written_as(workload)``.
    Names, and attributes that say nothing of the computation, do not matter. Takes 1 to 50 ms.

    Args:
        function: The function, not scheduled.
        written_as: The function as it may be written too.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    try:
        from tvm_ffi import structural_equal

        from costmodel.workloads.relax import possible_workloads, recognise, without_annotations
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
