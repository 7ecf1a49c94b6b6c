"""The tensor program of a workload, as TVM sees it.

The names of blocks and loops are those of decisions in recorded configs: they must not change.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import te, topi

from costmodel.records._workload import Workload


def workload_module(workload: Workload) -> Any:
    """``tvm.IRModule`` with one function ``main``: inputs in order, then the output."""
    return tvm.IRModule({"main": te.create_prim_func(_tensors(workload))})


def _tensors(workload: Workload) -> list[Any]:
    """The inputs, then what the anchor and the epilogue make of them."""
    operator = workload.operator
    inputs = {
        name: te.placeholder(shape, workload.dtype, name)
        for name, shape in operator.inputs(workload.dims).items()
    }
    own = {step: inputs[step] for step in operator.epilogue if step in inputs}
    result = _ANCHORS[operator.anchor](workload, *(inputs[name] for name in inputs if name not in own))
    for step in operator.epilogue:
        result = _STEPS[step](result, own.get(step))
    return [*inputs.values(), result]


def _product(_: Workload, a: Any, b: Any) -> Any:
    """Matrix product over the last axis of ``a`` and the last but one of ``b``, batched where they are."""
    k = te.reduce_axis((0, a.shape[-1]), "k")
    if len(a.shape) == 2:
        return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.compute(
        (a.shape[0], a.shape[1], b.shape[2]),
        lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k),
        name="C",
    )


def _conv2d(workload: Workload, data: Any, weight: Any) -> Any:
    k, stride = workload.dims["k"], workload.dims["s"]
    return topi.nn.conv2d_nchw(data, weight, stride, k // 2, 1)


def _conv2d_nhwc(workload: Workload, data: Any, weight: Any) -> Any:
    k, stride = workload.dims["k"], workload.dims["s"]
    return topi.nn.conv2d_nhwc(data, weight, stride, k // 2, 1, workload.dtype)


def _depthwise_conv2d(workload: Workload, data: Any, weight: Any) -> Any:
    k, stride = workload.dims["k"], workload.dims["s"]
    return topi.nn.depthwise_conv2d_nchw(data, weight, (stride,) * 2, (k // 2,) * 4, (1, 1))


def _depthwise_conv2d_nhwc(workload: Workload, data: Any, weight: Any) -> Any:
    k, stride = workload.dims["k"], workload.dims["s"]
    return topi.nn.depthwise_conv2d_nhwc(data, weight, (stride,) * 2, (k // 2,) * 4, (1, 1), "HWIO")


def _softmax(workload: Workload, x: Any) -> Any:
    if workload.dtype == "float32":
        return topi.nn.softmax(x, axis=1)
    # A sum of a thousand float16 exponentials would stop growing: each is less than its last digit.
    return topi.cast(topi.nn.softmax(topi.cast(x, "float32"), axis=1), workload.dtype)


def _layer_norm(_: Workload, x: Any, gain: Any, bias: Any) -> Any:
    return topi.nn.layer_norm(x, gain, bias, axis=[1], epsilon=1e-5)


def _rms_norm(_: Workload, x: Any, gain: Any) -> Any:
    return topi.nn.rms_norm(x, gain, axis=[1], epsilon=1e-5)


_ANCHORS: Mapping[str, Callable[..., Any]] = {
    "matmul": _product,
    "batch_matmul": _product,
    "conv2d": _conv2d,
    "conv2d_nhwc": _conv2d_nhwc,
    "depthwise_conv2d": _depthwise_conv2d,
    "depthwise_conv2d_nhwc": _depthwise_conv2d_nhwc,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}

_LOOPS = {2: ["i", "j"], 3: ["n", "i", "j"], 4: ["i0", "i1", "i2", "i3"]}  # names by number of axes


def _elementwise(x: Any, name: str, value: Callable[..., Any]) -> Any:
    """``value(x[i], i)`` at each index i."""
    return te.compute(x.shape, lambda *i: value(x(*i), i), name=name, varargs_names=_LOOPS[len(x.shape)])


def _bias(x: Any, bias: Any) -> Any:
    _, *ones = bias.shape  # ones stand for the axes behind the channel
    axis = -1 - len(ones)
    return _elementwise(x, "biased", lambda value, i: value + bias(i[axis], *(0 for _ in ones)))


def _add(x: Any, other: Any) -> Any:
    return _elementwise(x, "added", lambda value, i: value + other(*i))


def _mul(x: Any, other: Any) -> Any:
    return _elementwise(x, "scaled", lambda value, i: value * other(*i))


def _relu(x: Any, _: None) -> Any:
    return _elementwise(x, "relu", lambda value, i: tvm.te.max(value, tvm.tirx.const(0, x.dtype)))


def _relu6(x: Any, _: None) -> Any:
    zero, six = tvm.tirx.const(0, x.dtype), tvm.tirx.const(6, x.dtype)
    return _elementwise(x, "relu6", lambda value, i: tvm.te.min(tvm.te.max(value, zero), six))


def _gelu(x: Any, _: None) -> Any:
    half, root = tvm.tirx.const(0.5, x.dtype), tvm.tirx.const(0.5**0.5, x.dtype)

    def erf(value: Any) -> Any:
        if x.dtype == "float32":
            return tvm.tirx.erf(value)
        return tvm.tirx.erf(value.astype("float32")).astype(x.dtype)  # CUDA has no erf of another type

    return _elementwise(x, "gelu", lambda value, i: half * value * (1 + erf(value * root)))


def _silu(x: Any, _: None) -> Any:
    one = tvm.tirx.const(1, x.dtype)
    return _elementwise(x, "silu", lambda value, i: value / (one + tvm.te.exp(-value)))


_STEPS: Mapping[str, Callable[..., Any]] = {
    "bias": _bias,
    "add": _add,
    "mul": _mul,
    "relu": _relu,
    "relu6": _relu6,
    "gelu": _gelu,
    "silu": _silu,
}
