"""Which workload a kernel of a network is.

A kernel is a workload if its program is structurally equal to what the same passes make of the workload, once
written as Relax operators. The shapes of its arguments say which workloads can be meant. A bias may have the
output's rank too, with ones in front, as the frontends for PyTorch and ``relax.frontend.nn`` write that of a
convolution: such kernels are the same but for how they index it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

from costmodel.records._operators import OPERATORS, Operator
from costmodel.records._workload import DTYPE_BYTES, Workload
from costmodel.workloads.relax._fuse import fuse

_STRIDES = (1, 2, 3, 4)
_ANNOTATIONS = ("global_symbol", "op_pattern", "tirx.noalias")
_COMMUTING = frozenset({"add", "mul"})  # networks write them both ways

Shape = tuple[int, ...]


def recognise(function: Any) -> Workload | None:
    """The workload that a TIR function computes; None where it is none."""
    function = without_annotations(function)
    for workload in possible_workloads(function):
        if any(tvm_ffi.structural_equal(function, kernel) for kernel in relax_kernels(workload, function)):
            return workload
    return None


def relax_kernels(workload: Workload, like: Any = None) -> Iterator[Any]:
    """The TIR functions that Relax makes of a workload, one for each order of its commuting steps.

    Args:
        workload: The workload.
        like: A function whose arguments say the rank of the bias; the workload's own unless given.
    """
    names = list(workload.operator.inputs(workload.dims))
    rank = len(like.params[names.index("bias")].shape) if like is not None and "bias" in names else None
    for swapped in sorted({False, not _COMMUTING.isdisjoint(workload.operator.epilogue)}):
        kernel = _kernel(workload, swapped, rank)
        if kernel is not None:
            yield kernel


def without_annotations(function: Any) -> Any:
    """A TIR function without the attributes that say nothing of what it computes."""
    for name in _ANNOTATIONS:
        function = function.without_attr(name)
    return function


def possible_workloads(function: Any) -> Iterator[Workload]:
    """Workloads whose arguments have the dtype and the shapes of a TIR function's."""
    if not all(map(_is_array, function.params)):
        return
    dtypes = {str(parameter.dtype) for parameter in function.params}
    shapes = [tuple(int(size) for size in parameter.shape) for parameter in function.params]
    if len(shapes) > 1 and all(chain(*shapes)) and dtypes <= DTYPE_BYTES.keys() and len(dtypes) == 1:
        yield from _possible(shapes[:-1], shapes[-1], *dtypes)


def _is_array(parameter: Any) -> bool:
    """Whether a parameter is an array of a shape that is known."""
    shape = getattr(parameter, "shape", None)
    return shape is not None and all(isinstance(size, tvm.tirx.IntImm) for size in shape)


@cache
def _kernel(workload: Workload, swapped: bool, bias_rank: int | None) -> Any:
    """The TIR function that Relax makes of the workload; None where it makes several."""
    module = fuse(_definition(workload, swapped, bias_rank))
    functions = [function for name, function in module.functions.items() if name.name_hint != "forward"]
    return without_annotations(functions[0]) if len(functions) == 1 else None


def _possible(inputs: list[Shape], output: Shape, dtype: str) -> Iterator[Workload]:
    """Workloads whose arguments have these shapes; behind them, those whose bias has more dimensions."""
    for kind in OPERATORS:
        yield from _of_kind(kind, inputs, output, dtype)
    for kind, operator in OPERATORS.items():
        shapes = _without_leading_ones(operator, inputs, len(output))
        if shapes != inputs:
            yield from _of_kind(kind, shapes, output, dtype)


def _of_kind(kind: str, inputs: list[Shape], output: Shape, dtype: str) -> Iterator[Workload]:
    operator = OPERATORS[kind]
    sizes = _match(list(operator.spelled_inputs.values()), inputs)
    if sizes is None:
        return
    for stride in _STRIDES if "s" in operator.dims else (1,):
        dims = {dim: sizes.get(dim, stride) for dim in operator.dims}
        if operator.output(dims) == output:
            yield Workload(kind, dims, dtype)


def _without_leading_ones(operator: Operator, shapes: list[Shape], rank: int) -> list[Shape]:
    """The shapes of a kernel's inputs, with that of an epilogue's bias as the operator spells it."""
    names = list(operator.spelled_inputs)
    if "bias" not in operator.epilogue or len(shapes) != len(names):
        return shapes
    at = names.index("bias")
    ones = rank - len(operator.spelled_inputs["bias"].split())
    if len(shapes[at]) != rank or shapes[at][:ones] != (1,) * ones:
        return shapes
    return [*shapes[:at], shapes[at][ones:], *shapes[at + 1 :]]


def _match(spelled: list[str], shapes: list[Shape]) -> dict[str, int] | None:
    """Size of each dimension when these are the spelled shapes; None where they are not."""
    names = [shape.split() for shape in spelled]
    if [len(shape) for shape in names] != [len(shape) for shape in shapes]:
        return None
    sizes = {"1": 1}
    pairs = zip(chain(*names), chain(*shapes), strict=True)
    return sizes if all(sizes.setdefault(name, size) == size for name, size in pairs) else None


def _definition(workload: Workload, swapped: bool, bias_rank: int | None) -> Any:
    """A Relax module whose function ``forward`` is the workload.

    Args:
        workload: The workload.
        swapped: Whether the commuting steps of its epilogue have their own input first.
        bias_rank: Rank of the bias, which has ones in front; None for the usual one.
    """
    operator, builder = workload.operator, relax.BlockBuilder()
    shapes = operator.inputs(workload.dims)
    if bias_rank:
        shapes["bias"] = (1,) * (bias_rank - len(shapes["bias"])) + shapes["bias"]
    inputs = {
        name: relax.Var(name, relax.TensorType(shape, workload.dtype)) for name, shape in shapes.items()
    }
    own = {step: inputs[step] for step in operator.epilogue if step in inputs}
    with builder.function("forward", list(inputs.values())):
        with builder.dataflow():
            of_anchor = [variable for name, variable in inputs.items() if name not in own]
            result = builder.emit(_ANCHORS[operator.anchor](workload, *of_anchor))
            for step in operator.epilogue:
                operands = [result, own[step]] if step in own else [result]
                if swapped and step in _COMMUTING:
                    operands.reverse()
                result = builder.emit(_STEPS[step](*operands))
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.get()


def _conv2d(data_layout: str, kernel_layout: str) -> Callable[..., Any]:
    def conv2d(workload: Workload, data: Any, weight: Any) -> Any:
        k, stride, channels = (workload.dims[dim] for dim in "ksc")
        groups = channels if workload.operator.family == "depthwise_conv2d" else 1
        layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
        return op.nn.conv2d(data, weight, strides=stride, padding=k // 2, groups=groups, **layouts)

    return conv2d


_ANCHORS: Mapping[str, Callable[..., Any]] = {
    "matmul": lambda _, a, b: op.matmul(a, b),
    "batch_matmul": lambda _, a, b: op.matmul(a, b),
    "conv2d": _conv2d("NCHW", "OIHW"),
    "conv2d_nhwc": _conv2d("NHWC", "HWIO"),
    "depthwise_conv2d": _conv2d("NCHW", "OIHW"),
    "depthwise_conv2d_nhwc": _conv2d("NHWC", "HWIO"),
    "softmax": lambda _, x: op.nn.softmax(x, axis=1),
    "layer_norm": lambda _, x, gain, bias: op.nn.layer_norm(x, gain, bias, axes=[-1], epsilon=1e-5),
    "rms_norm": lambda _, x, gain: op.nn.rms_norm(x, gain, axes=[-1], epsilon=1e-5),
}
_STEPS: Mapping[str, Callable[..., Any]] = {
    "bias": op.add,
    "add": op.add,
    "mul": op.multiply,
    "relu": op.nn.relu,
    "relu6": lambda x: op.clip(x, 0, 6),
    "gelu": op.nn.gelu,
    "silu": op.nn.silu,
}
