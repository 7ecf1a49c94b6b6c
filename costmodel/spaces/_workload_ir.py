"""The tensor program of a workload, as TVM sees it."""

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import te, topi

from costmodel.records import Workload

Dims = Mapping[str, int]


def workload_module(workload: Workload) -> Any:
    """``tvm.IRModule`` with one function ``main``: inputs in order, then the output."""
    return tvm.IRModule({"main": te.create_prim_func(_tensors(workload))})


def argument_shapes(workload: Workload) -> list[tuple[int, ...]]:
    """Shapes of the arguments of ``main``: inputs in order, then the output."""
    return [tuple(int(size) for size in tensor.shape) for tensor in _tensors(workload)]


def _tensors(workload: Workload) -> list[Any]:
    return _DEFINITIONS[workload.kind](workload.dims, workload.dtype)


def _product(a: Any, b: Any, reduction: int, name: str = "C") -> Any:
    """Matrix product over the last axis of ``a`` and the last but one of ``b``, batched where they are."""
    k = te.reduce_axis((0, reduction), "k")
    if len(a.shape) == 2:
        return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name)
    return te.compute(
        (a.shape[0], a.shape[1], b.shape[2]),
        lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k),
        name=name,
    )


def _matmul(d: Dims, dtype: str) -> list[Any]:
    a = te.placeholder((d["m"], d["k"]), dtype, name="A")
    b = te.placeholder((d["k"], d["n"]), dtype, name="B")
    return [a, b, _product(a, b, d["k"])]


def _matmul_bias_gelu(d: Dims, dtype: str) -> list[Any]:
    a, b, product = _matmul(d, dtype)
    bias = te.placeholder((d["n"],), dtype, name="bias")
    biased = te.compute(product.shape, lambda i, j: product[i, j] + bias[j], name="biased")
    half, root = tvm.tirx.const(0.5, dtype), tvm.tirx.const(0.5**0.5, dtype)
    gelu = te.compute(
        product.shape,
        lambda i, j: half * biased[i, j] * (1 + tvm.tirx.erf(biased[i, j] * root)),
        name="gelu",
    )
    return [a, b, bias, gelu]


def _batch_matmul(d: Dims, dtype: str) -> list[Any]:
    a = te.placeholder((d["b"], d["m"], d["k"]), dtype, name="A")
    b = te.placeholder((d["b"], d["k"], d["n"]), dtype, name="B")
    return [a, b, _product(a, b, d["k"])]


def _conv2d(d: Dims, dtype: str) -> list[Any]:
    data = te.placeholder((d["n"], d["c"], d["h"], d["w"]), dtype, name="data")
    weight = te.placeholder((d["o"], d["c"], d["k"], d["k"]), dtype, name="weight")
    return [data, weight, topi.nn.conv2d_nchw(data, weight, d["s"], d["k"] // 2, 1)]


def _depthwise_conv2d(d: Dims, dtype: str) -> list[Any]:
    data = te.placeholder((d["n"], d["c"], d["h"], d["w"]), dtype, name="data")
    weight = te.placeholder((d["c"], 1, d["k"], d["k"]), dtype, name="weight")
    pad = (d["k"] // 2,) * 4
    return [data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, (d["s"],) * 2, pad, (1, 1))]


def _softmax(d: Dims, dtype: str) -> list[Any]:
    x = te.placeholder((d["m"], d["n"]), dtype, name="x")
    return [x, topi.nn.softmax(x, axis=1)]


def _layer_norm(d: Dims, dtype: str) -> list[Any]:
    x = te.placeholder((d["m"], d["n"]), dtype, name="x")
    gain = te.placeholder((d["n"],), dtype, name="gain")
    bias = te.placeholder((d["n"],), dtype, name="bias")
    return [x, gain, bias, topi.nn.layer_norm(x, gain, bias, axis=[1], epsilon=1e-5)]


_DEFINITIONS: Mapping[str, Callable[[Dims, str], list[Any]]] = {
    "matmul": _matmul,
    "matmul_bias_gelu": _matmul_bias_gelu,
    "batch_matmul": _batch_matmul,
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise_conv2d,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
}
