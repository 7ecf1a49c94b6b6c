"""What a Relax module calls in dataflow order, and which call needs the results of which."""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import tvm
from tvm import relax

from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.records._workload import Workload
from costmodel.workloads._programs import ModuleCall
from costmodel.workloads._recognise import fuse_operators, recognise

# The function that a model is, by what frontends and exporters call it.
_ENTRIES = ("main", "forward")
# What gives another view of the same memory: no kernel runs.
_VIEWS = ("relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_offset")


def module_calls(module: Any, function: str = "") -> list[ModuleCall]:
    """The kernels that a Relax module calls, fused as Relax fuses it where it is not yet.

    Args:
        module: The ``tvm.IRModule``.
        function: Its function that is run; ``main``, ``forward`` or the only one unless given.

    Raises:
        CostModelError: There is no such function, it branches, or TVM cannot fuse the module.
    """
    entry = _entry(module, function)
    try:
        fused = relax.transform.RewriteDataflowReshape()(fuse_operators(module))
    except Exception as error:
        raise CostModelError(
            f"A Relax module must be one that TVM can legalise and fuse, but: {last_line(error)}"
        ) from error
    known = {name.name_hint: each for name, each in fused.functions.items()}
    return list(_calls(known[entry], known))


def _entry(module: Any, function: str) -> str:
    names = [name.name_hint for name, each in module.functions.items() if isinstance(each, relax.Function)]
    usual = [name for name in _ENTRIES if name in names] or (names if len(names) == 1 else [])
    found = [name for name in names if name == function] if function else usual
    if not found:
        raise CostModelError(
            f"A Relax module must have a function {' or '.join(_ENTRIES)}, a single one, or the one that is "
            f"named (program.py:module:function), but got {function or 'no name'} and "
            f"{', '.join(names) or 'none'}."
        )
    return found[0]


def _calls(function: Any, known: dict[str, Any]) -> Iterator[ModuleCall]:
    makers: dict[Any, frozenset[int]] = {}
    workloads: dict[str, Any] = {}
    count = 0
    for binding in (each for block in function.body.blocks for each in block.bindings):
        value = getattr(binding, "value", None)
        if isinstance(value, relax.If):
            raise CostModelError(
                "A Relax function must be a sequence of calls, but it branches: plan a branch."
            )
        needed = frozenset[int]().union(*(makers.get(each, frozenset()) for each in _variables(value)))
        if not _is_kernel(value):
            makers[binding.var] = needed
            continue
        name = _name(value)
        if name not in workloads:
            workloads[name] = _workload(known.get(name))
        yield ModuleCall(name, workloads[name], tuple(sorted(needed)), _moved(value, binding.var))
        makers[binding.var] = frozenset({count})
        count += 1


def _workload(program: Any) -> Workload | None:
    """What a function computes; None where it is none of this module, or of sizes that are not known."""
    if not isinstance(program, tvm.tirx.PrimFunc):
        return None
    found = recognise(program)
    if found is not None:
        return found
    with suppress(CostModelError):
        return ProgramSource.of(tvm.IRModule({"main": program.with_attr("global_symbol", "main")})).workloads[
            0
        ]
    return None


def _is_kernel(value: Any) -> bool:
    """Whether a kernel runs: a call that gives arrays, and no other view of one."""
    is_call = isinstance(value, relax.Call)
    return is_call and str(getattr(value.op, "name", "")) not in _VIEWS and bool(list(_arrays(value.ty)))


def _name(call: Any) -> str:
    """What is called: a function of the module, a function of another library, or an operator."""
    callee = call.args[0] if getattr(call.op, "name", "").startswith("relax.call_") else call.op
    return str(getattr(callee, "name_hint", None) or getattr(callee, "global_symbol", None) or callee.name)


def _variables(value: Any) -> Iterable[Any]:
    """The variables that a value is made of, those in tuples included."""
    if isinstance(value, relax.Call):
        return [each for argument in value.args for each in _variables(argument)]
    if isinstance(value, relax.Tuple):
        return [each for field in value.fields for each in _variables(field)]
    if isinstance(value, relax.TupleGetItem):
        return _variables(value.tuple_value)
    return [value] if isinstance(value, relax.Var) else []


def _moved(call: Any, result: Any) -> int:
    """Bytes of the arrays that a call reads and writes, each once; 0 where a shape is not known."""
    read = list(dict.fromkeys(_variables(call)))
    arrays = [each for variable in (*read, result) for each in _arrays(variable.ty)]
    sizes = [_bytes(each) for each in arrays]
    return sum(sizes) if all(sizes) else 0


def _arrays(kind: Any) -> Iterator[Any]:
    if isinstance(kind, relax.TensorType):
        yield kind
    elif isinstance(kind, relax.TupleType):
        for field in kind.fields:
            yield from _arrays(field)


def _bytes(array: Any) -> int:
    shape = getattr(array.shape, "values", None)
    if shape is None or not all(isinstance(size, tvm.tirx.IntImm) for size in shape):
        return 0
    return int(math.prod(int(size) for size in shape) * tvm.DataType(array.dtype).itemsize)
