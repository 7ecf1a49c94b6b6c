"""The kernels that a module calls, as data; reading a module takes TVM."""

from typing import Any, NamedTuple

from costmodel.errors import MissingExtraError
from costmodel.records import Workload


class ModuleCall(NamedTuple):
    """A call of a kernel.

    Attributes:
        name: Of the function that is called.
        workload: What it computes: an operator, or a program (``is_program``) that none is recognised in;
            None where what is called is not in the module.
        after: Positions of the calls whose results it needs.
        moved_bytes: Bytes of the arrays that it reads and writes; 0 where a shape is not known.
    """

    name: str
    workload: Workload | None
    after: tuple[int, ...]
    moved_bytes: int


def read_calls(place: str) -> list[ModuleCall]:
    """The kernels that a Relax module in a file calls, in dataflow order; seconds.

    Args:
        place: ``program.py:module``, ``program.py:module:function``, or JSON of ``tvm.ir.save_json``.

    Raises:
        CostModelError: There is no such module, it has no such function, or that branches.
        MissingExtraError: TVM is not installed.
    """
    from costmodel.kernels.metaschedule import read_module

    module, function = read_module(place)
    return calls_of(module, function)


def calls_of(module: Any, function: str = "") -> list[ModuleCall]:
    """The same of a ``tvm.IRModule``.

    Raises:
        CostModelError: It has no such function, or that branches.
        MissingExtraError: TVM is not installed.
    """
    try:
        from costmodel.workloads.relax import module_calls
    except ModuleNotFoundError as error:
        raise MissingExtraError("Reading a Relax module", "tvm") from error
    return module_calls(module, function)
