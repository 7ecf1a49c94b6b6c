"""Programs that are none of costmodel's operators, written in TE, TVMScript and Relax."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te, topi
from tvm.script import tirx as T  # noqa: N812 (the dialect's usual name)

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(make: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[make.__name__] = make
    return make


def module_of(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors)).with_attr("global_symbol", "main")})


def dense(rows: int, columns: int, depth: int, dtype: str, accumulated: str) -> tuple[Any, Any, Any]:
    """Both operands, the second by columns, and their product."""
    x, w = te.placeholder((rows, depth), dtype, "x"), te.placeholder((columns, depth), dtype, "w")
    k = te.reduce_axis((0, depth), "k")
    result = te.compute(
        (rows, columns),
        lambda i, j: te.sum(x[i, k].astype(accumulated) * w[j, k].astype(accumulated), axis=k),
        name="dense",
    )
    return x, w, result


def tanh_gelu(x: Any) -> Any:
    """GELU by the hyperbolic tangent, as GPT-2 has it."""

    def value(*i: Any) -> Any:
        one = x(*i)
        inner = one * (1.0 + 0.044715 * one * one) * 0.7978845608
        return 0.5 * one * (1.0 + te.tanh(inner))

    return te.compute(x.shape, value, name="tanh_gelu")


@program
def dense_tanh_gelu(m: int = 512, n: int = 1024, k: int = 512) -> Any:
    x, w, product = dense(m, n, k, "float32", "float32")
    bias = te.placeholder((n,), "float32", "bias")
    biased = te.compute((m, n), lambda i, j: product[i, j] + bias[j], name="biased")
    return module_of(x, w, bias, tanh_gelu(biased))


@program
def int8_dense(m: int = 512, n: int = 1024, k: int = 1024) -> Any:
    return module_of(*dense(m, n, k, "int8", "int32"))


@program
def dense_bias_relu6(m: int = 256, n: int = 1024, k: int = 1024) -> Any:
    x, w, product = dense(m, n, k, "float32", "float32")
    bias = te.placeholder((n,), "float32", "bias")
    result = te.compute(
        (m, n), lambda i, j: te.min(te.max(product[i, j] + bias[j], 0.0), 6.0), name="clipped"
    )
    return module_of(x, w, bias, result)


@program
def layer_norm(rows: int = 2048, columns: int = 768) -> Any:
    """In two passes: the mean, then the variance."""
    x = te.placeholder((rows, columns), name="x")
    gain = te.placeholder((columns,), name="gain")
    k, q = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "q")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    spread = te.compute(
        (rows,),
        lambda i: te.sum((x[i, q] - total[i] / columns) * (x[i, q] - total[i] / columns), axis=q),
        name="spread",
    )
    result = te.compute(
        (rows, columns),
        lambda i, j: (x[i, j] - total[i] / columns) * te.rsqrt(spread[i] / columns + 1e-5) * gain[j],
        name="normed",
    )
    return module_of(x, gain, result)


@program
def residual_rms_norm(rows: int = 1024, columns: int = 1024) -> Any:
    x, y = te.placeholder((rows, columns), name="x"), te.placeholder((rows, columns), name="y")
    k = te.reduce_axis((0, columns), "k")
    both = te.compute((rows, columns), lambda i, j: x[i, j] + y[i, j], name="both")
    squares = te.compute((rows,), lambda i: te.sum(both[i, k] * both[i, k], axis=k), name="squares")
    result = te.compute(
        (rows, columns), lambda i, j: both[i, j] * te.rsqrt(squares[i] / columns + 1e-6), name="normed"
    )
    return module_of(x, y, result)


@program
def row_sums(rows: int = 4096, columns: int = 1024) -> Any:
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, columns), "k")
    return module_of(x, te.compute((rows,), lambda i: te.sum(te.exp(x[i, k]), axis=k), name="sums"))


@program
def column_maxima(rows: int = 1024, columns: int = 4096) -> Any:
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, rows), "k")
    return module_of(x, te.compute((columns,), lambda j: te.max(x[k, j], axis=k), name="maxima"))


@program
def conv2d_bias_relu(size: int = 58, channels: int = 64) -> Any:
    """Without padding, and the bias by channel."""
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((channels, channels, 3, 3), name="weight")
    bias = te.placeholder((channels,), name="bias")
    result = topi.nn.conv2d_nchw(data, weight, 1, 0, 1)
    biased = te.compute(result.shape, lambda n, c, y, x: result[n, c, y, x] + bias[c], name="biased")
    return module_of(data, weight, bias, topi.nn.relu(biased))


@program
def dilated_conv2d(size: int = 28, channels: int = 128) -> Any:
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((channels, channels, 3, 3), name="weight")
    return module_of(data, weight, topi.nn.conv2d_nchw(data, weight, 1, 2, 2))


@program
def conv1d(length: int = 512, channels: int = 128) -> Any:
    data = te.placeholder((4, channels, length), name="data")
    weight = te.placeholder((channels, channels, 5), name="weight")
    return module_of(data, weight, topi.nn.conv1d_ncw(data, weight, 1, 2, 1))


@program
def gated_product(m: int = 256, n: int = 1024, k: int = 512) -> Any:
    """Two products of one input, of which one gates the other."""
    x, gate = te.placeholder((m, k), name="x"), te.placeholder((k, n), name="gate")
    up = te.placeholder((k, n), name="up")
    first, second = te.reduce_axis((0, k), "k1"), te.reduce_axis((0, k), "k2")
    gated = te.compute((m, n), lambda i, j: te.sum(x[i, first] * gate[first, j], axis=first), name="gated")
    raised = te.compute((m, n), lambda i, j: te.sum(x[i, second] * up[second, j], axis=second), name="raised")
    result = te.compute(
        (m, n), lambda i, j: gated[i, j] * te.sigmoid(gated[i, j]) * raised[i, j], name="result"
    )
    return module_of(x, gate, up, result)


@T.prim_func(s_tir=True)
def _scores(
    q: T.Buffer((12, 128, 64), "float32"),
    k: T.Buffer((12, 128, 64), "float32"),
    scores: T.Buffer((12, 128, 128), "float32"),
):
    product = T.sblock_alloc_buffer((12, 128, 128), "float32")
    for b, i, j, d in T.grid(12, 128, 128, 64):
        with T.sblock("product"):
            vb, vi, vj, vd = T.axis.remap("SSSR", [b, i, j, d])
            with T.init():
                product[vb, vi, vj] = T.float32(0)
            product[vb, vi, vj] = product[vb, vi, vj] + q[vb, vi, vd] * k[vb, vj, vd]
    for b, i, j in T.grid(12, 128, 128):
        with T.sblock("scaled"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            scores[vb, vi, vj] = product[vb, vi, vj] * T.float32(0.125)


@program
def attention_scores() -> Any:
    """In TVMScript."""
    return tvm.IRModule({"main": _scores.with_attr("global_symbol", "main")})


@program
def relax_log_softmax(rows: int = 2048, columns: int = 512) -> Any:
    x = relax.Var("x", relax.TensorType((rows, columns), "float32"))
    return of_relax([x], lambda: relax.op.nn.log_softmax(x, axis=-1))


@program
def relax_grouped_conv2d(size: int = 28, channels: int = 128) -> Any:
    data = relax.Var("data", relax.TensorType((1, channels, size, size), "float32"))
    weight = relax.Var("weight", relax.TensorType((channels, channels // 4, 3, 3), "float32"))
    return of_relax(
        [data, weight], lambda: relax.op.nn.relu(relax.op.nn.conv2d(data, weight, padding=1, groups=4))
    )


def of_relax(inputs: list[Any], body: Callable[[], Any]) -> Any:
    """The one tensor function that Relax makes of an expression."""
    builder = relax.BlockBuilder()
    with builder.function("forward", inputs):
        with builder.dataflow():
            result = builder.emit_output(body())
        builder.emit_func_output(result)
    passes = tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    fused = passes(builder.get())
    (function,) = (each for each in fused.functions.values() if isinstance(each, tvm.tirx.PrimFunc))
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
