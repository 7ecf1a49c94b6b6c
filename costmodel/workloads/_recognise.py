"""Which workload a kernel of a network is.

A kernel is a workload if its program is structurally equal to what the same passes make of the workload, once
written as Relax operators. The shapes of its arguments say which workloads can be meant, and in which form:
frontends write the same in several, see ``Form``. A transpose in front of a product is what the product
indexes its operand by.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain, product
from math import prod
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import relax, tirx, topi, transform
from tvm.relax import op

from costmodel.records._operators import OPERATORS, Operator
from costmodel.records._workload import DTYPE_BYTES, Workload

_STRIDES = (1, 2, 3, 4)
_ANNOTATIONS = ("global_symbol", "op_pattern", "tirx.noalias")
_COMMUTING = frozenset({"bias", "add", "mul"})  # networks write them both ways
_NORMS = frozenset({"layer_norm", "rms_norm"})
_EPSILON, _MOST_EPSILON = 1e-5, 1e-2

Shape = tuple[int, ...]


class Form(NamedTuple):
    """How a kernel writes a workload.

    Attributes:
        rows: Extents of the axes that together are its rows ``m``, as in ``(batch, tokens, k)``; none where
            one axis is.
        bias_rank: Rank of a bias with ones in front; 0 for the operator's own.
        is_transposed: Whether the second operand of its product has the last two axes swapped, as weights
            of ``torch.nn.Linear`` have.
    """

    rows: Shape = ()
    bias_rank: int = 0
    is_transposed: bool = False


def recognise(function: Any, *, is_transposed: bool = True) -> Workload | None:
    """The workload that a TIR function computes; None where it is none.

    Args:
        function: The function, not scheduled.
        is_transposed: Whether one that reads the second operand of a product by columns counts as the
            workload: its best kernels are near those of the workload, and not the same.
    """
    function = without_annotations(_without_transposes(function))
    for workload, form in _readings(function):
        if form.is_transposed and not is_transposed:
            continue
        if any(tvm_ffi.structural_equal(function, kernel) for kernel in _kernels(workload, form, function)):
            return workload
    return None


def relax_kernels(workload: Workload) -> Iterator[Any]:
    """The TIR functions that Relax makes of a workload, one for each order of its commuting steps."""
    return _kernels(workload, Form())


def _kernels(workload: Workload, form: Form, like: Any = None) -> Iterator[Any]:
    """The TIR functions that Relax makes of a workload in a form, with the small constants of another."""
    steps = [step for step in workload.operator.epilogue if step in _COMMUTING]
    for swapped in product((False, True), repeat=len(steps)):
        for epsilon in _epsilons(workload, like):
            first = frozenset(step for step, swap in zip(steps, swapped, strict=True) if swap)
            kernel = _kernel(workload, form, first, epsilon)
            if kernel is not None:
                yield kernel


def without_annotations(function: Any) -> Any:
    """A TIR function without the attributes that say nothing of what it computes."""
    for name in _ANNOTATIONS:
        function = function.without_attr(name)
    return function


def possible_workloads(function: Any) -> Iterator[Workload]:
    """Workloads whose arguments have the dtype and the shapes of a TIR function's."""
    return (workload for workload, form in _readings(function) if form == Form())


def _without_transposes(function: Any) -> Any:
    """A TIR function whose blocks read its arguments, not copies with the axes in another order.

    A fused transpose also puts its argument first: they are ordered by the blocks that are left.
    """
    try:
        schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        transposes = [block for block in blocks[:-1] if _is_transpose(schedule.get(block))]
        for block in transposes:
            schedule.compute_inline(block)
        left = [schedule.get(block) for block in blocks if block not in transposes]
    except Exception:  # noqa: BLE001 (TVM raises its own error types for what is no tree of blocks)
        return function
    return _in_order_of_reads(schedule.mod["main"], left) if transposes else function


def _in_order_of_reads(function: Any, blocks: list[Any]) -> Any:
    """A TIR function with the inputs in the order in which its blocks read them."""
    *inputs, output = function.params
    reads = [region.source for block in blocks for region in block.reads]
    first = [next((i for i, one in enumerate(reads) if one.same_as(it)), len(reads)) for it in inputs]
    ordered = [inputs[i] for i in sorted(range(len(inputs)), key=first.__getitem__)]
    return tirx.PrimFunc([*ordered, output], function.body, function.ret_type, function.attrs)


def _is_transpose(block: Any) -> bool:
    """Whether a block copies an array with its axes in another order, and does nothing else."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not hasattr(store.value, "indices"):
        return False
    written, read = list(store.indices), list(store.value.indices)
    order = [[i for i, one in enumerate(read) if one.same_as(each)] for each in written]
    return sorted(order) == [[i] for i in range(len(read))] != order


def _epsilons(workload: Workload, like: Any) -> list[float]:
    """What a norm may add to a variance: small constants of a function, on which no speed depends."""
    if workload.operator.anchor not in _NORMS or like is None:
        return [_EPSILON]
    found: list[float] = []
    tvm_ffi.structural_visit(like.body, ((tirx.FloatImm, lambda each, _: found.append(float(each.value))),))
    return sorted({value for value in found if 0.0 < value < _MOST_EPSILON})


@cache
def _kernel(workload: Workload, form: Form, first: frozenset[str], epsilon: float) -> Any:
    """The TIR function that Relax makes of the workload; None where it makes several."""
    module = _definition(workload, form, first, epsilon)
    if form.is_transposed:
        module = relax.transform.FuseTransposeMatmul()(module)
    module = fuse_operators(module)
    functions = [function for name, function in module.functions.items() if name.name_hint != "forward"]
    return without_annotations(functions[0]) if len(functions) == 1 else None


def _readings(function: Any) -> Iterator[tuple[Workload, Form]]:
    """Workloads whose arguments have the dtype and the shapes of a TIR function's, in some form."""
    if not all(map(_is_array, function.params)):
        return
    dtypes = {str(parameter.dtype) for parameter in function.params}
    shapes = [tuple(int(size) for size in parameter.shape) for parameter in function.params]
    if len(shapes) < 2 or not all(chain(*shapes)) or not dtypes <= DTYPE_BYTES.keys() or len(dtypes) != 1:
        return
    *inputs, output = shapes
    for form in _forms(output):
        for kind, operator in OPERATORS.items():
            own = _own_shapes(operator, form, inputs)
            if own is not None:
                result = (prod(form.rows), *output[len(form.rows) :]) if form.rows else output
                yield from ((workload, form) for workload in _of_kind(kind, own, result, *dtypes))


def _is_array(parameter: Any) -> bool:
    """Whether a parameter is an array of a shape that is known."""
    shape = getattr(parameter, "shape", None)
    return shape is not None and all(isinstance(size, tirx.IntImm) for size in shape)


def _forms(output: Shape) -> Iterator[Form]:
    """The forms that a kernel with this output may have, from the usual one on."""
    rank = len(output)
    for is_transposed in (False, True):
        for rows in ((), output[:-1]) if rank > 2 else ((),):
            for bias_rank in (0, rank):
                yield Form(rows, bias_rank, is_transposed)


def _own_shapes(operator: Operator, form: Form, inputs: list[Shape]) -> list[Shape] | None:
    """The shapes of a kernel's inputs as the operator spells them; None where it has no such form."""
    spelled = operator.spelled_inputs
    has_form = (
        len(spelled) == len(inputs)
        and (not form.rows or operator.dims[0] == "m")
        and (not form.is_transposed or "B" in spelled)
        and (not form.bias_rank or ("bias" in operator.epilogue and form.bias_rank > _rank(spelled["bias"])))
    )
    if not has_form:
        return None
    shapes = zip(spelled.items(), inputs, strict=True)
    own = [_own_shape(name, dims, form, shape) for (name, dims), shape in shapes]
    return [shape for shape in own if shape is not None] if None not in own else None


def _own_shape(name: str, dims: str, form: Form, shape: Shape) -> Shape | None:
    """The shape of an input as an operator spells it; None where it is not what the form says."""
    if form.rows and dims.startswith("m "):
        rows = len(form.rows)
        return (prod(form.rows), *shape[rows:]) if shape[:rows] == form.rows else None
    if form.is_transposed and name == "B":
        return (*shape[:-2], *reversed(shape[-2:]))
    if form.bias_rank and name == "bias":
        ones = form.bias_rank - _rank(dims)
        return shape[ones:] if len(shape) == form.bias_rank and shape[:ones] == (1,) * ones else None
    return shape


def _rank(spelled: str) -> int:
    return len(spelled.split())


def _of_kind(kind: str, inputs: list[Shape], output: Shape, dtype: str) -> Iterator[Workload]:
    operator = OPERATORS[kind]
    sizes = _match(list(operator.spelled_inputs.values()), inputs)
    if sizes is None:
        return
    for stride in _STRIDES if "s" in operator.dims else (1,):
        dims = {dim: sizes.get(dim, stride) for dim in operator.dims}
        if operator.output(dims) == output:
            yield Workload(kind, dims, dtype)


def _match(spelled: list[str], shapes: list[Shape]) -> dict[str, int] | None:
    """Size of each dimension when these are the spelled shapes; None where they are not."""
    names = [shape.split() for shape in spelled]
    if [len(shape) for shape in names] != [len(shape) for shape in shapes]:
        return None
    sizes = {"1": 1}
    pairs = zip(chain(*names), chain(*shapes), strict=True)
    return sizes if all(sizes.setdefault(name, size) == size for name, size in pairs) else None


def _definition(workload: Workload, form: Form, first: frozenset[str], epsilon: float) -> Any:
    """A Relax module whose function ``forward`` is the workload.

    Args:
        workload: The workload.
        form: How it is written.
        first: Steps of its epilogue that have their own input first.
        epsilon: What a norm adds to a variance.
    """
    operator, builder = workload.operator, relax.BlockBuilder()
    inputs = {
        name: relax.Var(name, relax.TensorType(shape, workload.dtype))
        for name, shape in _written_shapes(workload, form).items()
    }
    own = {step: inputs[step] for step in operator.epilogue if step in inputs}
    with builder.function("forward", list(inputs.values())):
        with builder.dataflow():
            of_anchor = [variable for name, variable in inputs.items() if name not in own]
            if form.is_transposed:
                *batch, last, columns = range(len(of_anchor[1].ty.shape))
                of_anchor[1] = builder.emit(op.permute_dims(of_anchor[1], [*batch, columns, last]))
            settings = {"epsilon": epsilon} if operator.anchor in _NORMS else {}
            result = builder.emit(_ANCHORS[operator.anchor](workload, *of_anchor, **settings))
            for step in operator.epilogue:
                operands = [result, own[step]] if step in own else [result]
                if step in first:
                    operands.reverse()
                result = builder.emit(_STEPS[step](*operands))
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.get()


def _written_shapes(workload: Workload, form: Form) -> dict[str, Shape]:
    """The shapes of a workload's inputs in a form, the inverse of ``_own_shapes``."""
    shapes = workload.operator.inputs(workload.dims)
    for name, dims in workload.operator.spelled_inputs.items():
        shape = shapes[name]
        if form.rows and dims.startswith("m "):
            shapes[name] = (*form.rows, *shape[1:])
        elif name == "B" and form.is_transposed:
            shapes[name] = (*shape[:-2], shape[-1], shape[-2])
        elif name == "bias" and form.bias_rank:
            shapes[name] = (1,) * (form.bias_rank - len(shape)) + shape
    return shapes


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
    "softmax": lambda _, x: op.nn.softmax(x, axis=len(x.ty.shape) - 1),
    "layer_norm": lambda _, x, *more, epsilon: op.nn.layer_norm(x, *more, axes=[-1], epsilon=epsilon),
    "rms_norm": lambda _, x, gain, epsilon: op.nn.rms_norm(x, gain, axes=[-1], epsilon=epsilon),
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


def _softmax(builder: Any, call: Any) -> Any:
    """Softmax with sums in float32: a sum of many float16 exponentials would stop growing."""

    def softmax(x: Any) -> Any:
        if x.dtype == "float32":
            return topi.nn.softmax(x, axis=call.attrs.axis)
        return topi.cast(topi.nn.softmax(topi.cast(x, "float32"), axis=call.attrs.axis), x.dtype)

    return builder.call_te(softmax, call.args[0])


def fuse_operators(module: Any) -> Any:
    """The module with one TIR function a kernel, called by ``forward``."""
    passes = transform.Sequential(
        [
            relax.transform.LegalizeOps({"relax.nn.softmax": _softmax}),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    return passes(module)


def kernel_calls(module: Any) -> Counter[str]:
    """How often ``forward`` calls each TIR function of a fused module, by the function's name."""
    bindings = [binding for block in module["forward"].body.blocks for binding in block.bindings]
    calls = [binding.value for binding in bindings if isinstance(binding.value, relax.Call)]
    return Counter(call.args[0].name_hint for call in calls if call.op.name == "relax.call_tir")
