"""The kernels that a module calls, as data; reading a module takes TVM."""

from typing import Any, NamedTuple

from costmodel.errors import MissingExtraError
from costmodel.records._workload import Workload


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
    from costmodel.kernels.metaschedule.programs._file import read_module

    module, function = read_module(place)
    return calls_of(module, function)


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
