"""Programs that are none of the operators."""

from typing import Any

import tvm
from tvm import te, topi


def int8_dense(rows: int = 64, columns: int = 96, depth: int = 128) -> Any:
    """A product of 8-bit integers, summed up in 32 bits; the weights come by columns."""
    x, w = te.placeholder((rows, depth), "int8", "x"), te.placeholder((columns, depth), "int8", "w")
    k = te.reduce_axis((0, depth), "k")
    return _module(
        x,
        w,
        te.compute(
            (rows, columns),
            lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k),
            name="dense",
        ),
    )


def dilated_conv2d(size: int = 14, channels: int = 16) -> Any:
    """Every other pixel of a window of 5 x 5."""
    data = te.placeholder((2, channels, size, size), name="data")
    weight = te.placeholder((channels, channels, 3, 3), name="weight")
    return _module(data, weight, topi.nn.relu(topi.nn.conv2d_nchw(data, weight, 1, 2, 2)))


def grouped_conv2d(size: int = 14, channels: int = 32) -> Any:
    """Four groups: a channel is divided by the channels of a group to find the inputs of that group."""
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((channels, channels // 4, 3, 3), name="weight")
    return _module(data, weight, topi.nn.group_conv2d_nchw(data, weight, 1, 1, 1, 4))


def layer_norm(rows: int = 96, columns: int = 160) -> Any:
    """In two passes, without a bias."""
    x, gain = te.placeholder((rows, columns), name="x"), te.placeholder((columns,), name="gain")
    k, q = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "q")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    spread = te.compute(
        (rows,),
        lambda i: te.sum((x[i, q] - total[i] / columns) * (x[i, q] - total[i] / columns), axis=q),
        name="spread",
    )
    return _module(
        x,
        gain,
        te.compute(
            (rows, columns),
            lambda i, j: (x[i, j] - total[i] / columns) * te.rsqrt(spread[i] / columns + 1e-5) * gain[j],
            name="normed",
        ),
    )


def gated_product(rows: int = 64, columns: int = 64, depth: int = 64) -> Any:
    """Two products of one input in two kernels, and a third kernel for what they make together."""
    x, gate = te.placeholder((rows, depth), name="x"), te.placeholder((depth, columns), name="gate")
    up = te.placeholder((depth, columns), name="up")
    k, q = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, depth), "q")
    shape = rows, columns
    gated = te.compute(shape, lambda i, j: te.sum(x[i, k] * gate[k, j], axis=k), name="gated")
    raised = te.compute(shape, lambda i, j: te.sum(x[i, q] * up[q, j], axis=q), name="raised")
    return _module(
        x, gate, up, te.compute(shape, lambda i, j: gated[i, j] * raised[i, j] + gated[i, j], name="result")
    )


def column_maxima(rows: int = 256, columns: int = 512) -> Any:
    """A reduction over the axis along which memory does not run."""
    x, k = te.placeholder((rows, columns), name="x"), te.reduce_axis((0, rows), "k")
    return _module(x, te.compute((columns,), lambda j: te.max(x[k, j], axis=k), name="maxima"))


def row_sums(rows: int = 512, columns: int = 256) -> Any:
    """A reduction over the axis along which memory runs."""
    x, k = te.placeholder((rows, columns), name="x"), te.reduce_axis((0, columns), "k")
    return _module(x, te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="sums"))


def _module(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors)).with_attr("global_symbol", "main")})
