"""Which workloads a TIR function of anybody, and the kernels that a module calls, compute."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.errors import MissingExtraError
from costmodel.kernels.metaschedule._source import open_space
from costmodel.kernels.metaschedule.programs._source import (
    ProgramSource,
    call_on_json,
    is_python_place,
    module_in,
    read_module,
    require_tvm,
)
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


class FoundSpace(NamedTuple):
    """What a program computes, and the design space of its kernels.

    Attributes:
        operator: The operator that the program computes; None if it is not recognised.
        space: Design space of the operator, or of the program if it is not recognised or its loops are not
            scheduled as the operator's are; None if the program cannot be read.
    """

    operator: Workload | None
    space: Any


def recognise_program(
    function: Any, written_as: Callable[[Workload], Any], *, is_transposed: bool = True
) -> Workload | None:
    """Return the workload that a ``tvm.tirx.PrimFunc`` computes; None if it is not recognised.

    The function must be structurally equal to what Relax makes of the workload in one of the forms that its
    frontends write, or to ``written_as(workload)``. Names, and attributes that do not affect the computation,
    do not matter. This takes 1 to 50 ms.

    Args:
        function: The function, not scheduled.
        written_as: Returns an alternative form of the function for a workload.
        is_transposed: Whether a function that reads the second operand of a product by columns counts.

    Raises:
        MissingExtraError: If TVM is not installed.
    """
    try:
        from tvm_ffi import structural_equal

        from costmodel.workloads._recognise import possible_workloads, recognise, without_annotations
    except ModuleNotFoundError as error:
        raise MissingExtraError("Recognising workloads", "tvm") from error
    found = recognise(function, is_transposed=is_transposed)
    if found is not None:
        return found
    bare = without_annotations(function)
    for workload in possible_workloads(bare):
        if structural_equal(bare, without_annotations(written_as(workload))):
            return workload
    return None


def find_space(module: Any, kind: TargetKind, *, is_transposed: bool = True) -> FoundSpace:
    """Return what ``module["main"]`` computes, and the design space of its kernels.

    Args:
        module: The ``tvm.IRModule``, not scheduled.
        kind: Kind of device.
        is_transposed: Whether a product that reads its second operand by columns is the operator. Such a
            kernel is searched as the operator's are, but measurements of it are not the operator's.
    """

    def program(operator: Workload) -> Any:
        return open_space(operator, kind).module

    try:
        operator = recognise_program(
            module["main"], lambda it: program(it)["main"], is_transposed=is_transposed
        )
        if operator and _loop_counts(module) == _loop_counts(program(operator)):
            return FoundSpace(operator, open_space(operator, kind))
        source = ProgramSource.of(module)
        own = source.space(source.workloads[0], kind)
        is_like = operator is not None and open_space(operator, kind).is_like(own)
        return FoundSpace(operator, open_space(operator, kind) if operator and is_like else own)
    except Exception:  # noqa: BLE001 (a tuning meets any program; TVM raises its own error types)
        return FoundSpace(None, None)


def _loop_counts(module: Any) -> list[int]:
    """How many loops are around each block."""
    from costmodel.kernels.metaschedule.programs._facts import read_blocks  # loads TVM

    return [len(block.loops) for block in read_blocks(module)]


class ModuleCall(NamedTuple):
    """A call of a kernel.

    Attributes:
        name: Name of the called function.
        workload: What it computes: an operator, or a program (``is_program``) if no operator is recognised;
            None if the called function is not in the module.
        after: Positions of the calls whose results it needs.
        moved_bytes: Bytes of the arrays that it reads and writes; 0 if a shape is unknown.
    """

    name: str
    workload: Workload | None
    after: tuple[int, ...]
    moved_bytes: int


def read_calls(place: str) -> list[ModuleCall]:
    """Return the kernels that a Relax module in a file calls, in dataflow order. This takes seconds.

    Args:
        place: ``program.py:module``, ``program.py:module:function``, or JSON of ``tvm.ir.save_json``.

    Raises:
        CostModelError: If there is no such module, it has no such function, or the function branches.
        MissingExtraError: If TVM is not installed.
    """
    require_tvm("Reading a module")
    if is_python_place(place):
        return calls_of(*read_module(place))
    return call_on_json(Path(place), _calls_in_json)


def _calls_in_json(text: str, place: str) -> list[ModuleCall]:
    import tvm

    return calls_of(module_in(tvm.ir.load_json(text), place))


def calls_of(module: Any, function: str = "") -> list[ModuleCall]:
    """Return the kernels that a ``tvm.IRModule`` calls, in dataflow order.

    Raises:
        CostModelError: If it has no such function, or the function branches.
        MissingExtraError: If TVM is not installed.
    """
    try:
        from costmodel.workloads._relax_calls import module_calls
    except ModuleNotFoundError as error:
        raise MissingExtraError("Reading a Relax module", "tvm") from error
    return module_calls(module, function)
