"""Convolutions, pooling, resampling and stencils."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel import TritonFamily

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Dims = Mapping[str, int]

SIZES = {
    "conv1d": (
        {"b": 8, "l": 1024, "c": 256, "o": 256, "k": 3},
        {"b": 3, "l": 1501, "c": 80, "o": 384, "k": 5},
    ),
    "causal_depthwise_conv1d": ({"b": 4, "t": 2048, "d": 1536}, {"b": 3, "t": 1201, "d": 2000}),
    "conv2d_direct": (
        {"c": 3, "o": 16, "h": 512, "w": 512, "k": 3},
        {"c": 4, "o": 5, "h": 301, "w": 1203, "k": 5},
    ),
    "depthwise_conv2d_planes": (
        {"b": 16, "c": 192, "h": 56, "w": 56, "k": 3, "s": 1},
        {"b": 5, "c": 100, "h": 113, "w": 113, "k": 5, "s": 2},
    ),
    "conv2d_implicit": (
        {"b": 8, "h": 28, "w": 28, "c": 128, "o": 256, "k": 3, "s": 1},
        {"b": 3, "h": 57, "w": 57, "c": 72, "o": 96, "k": 3, "s": 2},
    ),
    "grouped_conv2d": (
        {"b": 8, "h": 28, "w": 28, "g": 16, "c": 32, "k": 3},
        {"b": 3, "h": 57, "w": 57, "g": 10, "c": 16, "k": 5},
    ),
    "max_pool2d": ({"p": 1024, "h": 112, "w": 112, "k": 2}, {"p": 333, "h": 113, "w": 113, "k": 3}),
    "average_pool2d": (
        {"b": 16, "h": 56, "w": 56, "c": 256, "k": 2},
        {"b": 3, "h": 111, "w": 111, "c": 200, "k": 3},
    ),
    "upsample_bilinear": ({"p": 256, "h": 64, "w": 64, "s": 2}, {"p": 33, "h": 77, "w": 101, "s": 4}),
    "stencil_5_points": ({"h": 2048, "w": 4096}, {"h": 3001, "w": 1003}),
    "stencil_9_points": ({"h": 2048, "w": 4096}, {"h": 999, "w": 3001}),
    "stencil_3d": ({"a": 128, "b": 256, "c": 256}, {"a": 201, "b": 100, "c": 203}),
    "im2col": (
        {"c": 64, "h": 112, "w": 112, "k": 3, "s": 1},
        {"c": 100, "h": 151, "w": 101, "k": 5, "s": 2},
    ),
}
# Sizes that Triton's interpreter is quick at.
SMALL = {
    "conv1d": {"b": 2, "l": 70, "c": 20, "o": 40, "k": 3},
    "causal_depthwise_conv1d": {"b": 2, "t": 70, "d": 37},
    "conv2d_direct": {"c": 2, "o": 2, "h": 30, "w": 41, "k": 3},
    "depthwise_conv2d_planes": {"b": 2, "c": 2, "h": 20, "w": 21, "k": 3, "s": 2},
    "conv2d_implicit": {"b": 2, "h": 9, "w": 11, "c": 20, "o": 40, "k": 3, "s": 2},
    "grouped_conv2d": {"b": 2, "h": 5, "w": 21, "g": 2, "c": 16, "k": 3},
    "max_pool2d": {"p": 2, "h": 21, "w": 23, "k": 3},
    "average_pool2d": {"b": 2, "h": 7, "w": 20, "c": 20, "k": 3},
    "upsample_bilinear": {"p": 2, "h": 9, "w": 13, "s": 2},
    "stencil_5_points": {"h": 37, "w": 70},
    "stencil_9_points": {"h": 21, "w": 150},
    "stencil_3d": {"a": 7, "b": 20, "c": 37},
    "im2col": {"c": 3, "h": 11, "w": 13, "k": 3, "s": 2},
}

_kernel = partial(TritonFamily, kernel=Path(__file__).with_name("kernel.py"))
_OUT = {"OH": "(h - 1) // s + 1", "OW": "(w - 1) // s + 1"}  # windows are centred on every s-th pixel


def _normal(rng: np.random.Generator, *shape: int, scale: float = 1.0, dtype: Any = np.float16) -> Array:
    return (np.float32(scale) * rng.standard_normal(shape, np.float32)).astype(dtype)


def _unwritten(*shape: int, dtype: Any = np.float16) -> Array:
    """An output that nobody has written: NaN, or a whole number that no kernel gives."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -77, dtype)


def _windows(x: Array, size: int, stride: int, axes: tuple[int, int]) -> Array:
    """View of (..., size, size) windows that begin at every ``stride``-th pixel along two axes."""
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axes)
    steps = [slice(None, None, stride) if axis in axes else slice(None) for axis in range(x.ndim)]
    return view[tuple(steps)]


def _padded(x: Array, size: int, axes: tuple[int, int]) -> Array:
    return np.pad(x, [(size // 2,) * 2 if axis in axes else (0, 0) for axis in range(x.ndim)])


def _conv1d_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, n, c, o, k = (dims[dim] for dim in "blcok")
    return {
        "x": _normal(rng, b, n, c),
        "w": _normal(rng, k, c, o, scale=(k * c) ** -0.5),
        "y": _unwritten(b, n, o),
    }


def _conv1d(arrays: Arrays, dims: Dims) -> Arrays:
    n, k = dims["l"], dims["k"]
    x = np.pad(arrays["x"].astype(np.float64), ((0, 0), (k // 2, k // 2), (0, 0)))
    return {"y": sum(x[:, tap : tap + n] @ arrays["w"][tap].astype(np.float64) for tap in range(k))}


def _causal_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, t, d = (dims[dim] for dim in "btd")
    return {
        "x": _normal(rng, b, t, d),
        "weight": _normal(rng, 4, d, dtype=np.float32),
        "bias": _normal(rng, d, dtype=np.float32),
        "out": _unwritten(b, t, d),
    }


def _causal(arrays: Arrays, dims: Dims) -> Arrays:
    x = np.pad(arrays["x"].astype(np.float32), ((0, 0), (3, 0), (0, 0)))
    taps = (x[:, tap : tap + dims["t"]] * arrays["weight"][tap] for tap in range(4))
    total = sum(taps, start=arrays["bias"])
    return {"out": total / (1 + np.exp(-total))}


def _direct_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    c, o, h, w, k = (dims[dim] for dim in "cohwk")
    return {
        "image": _normal(rng, c, h, w, dtype=np.float32),
        "kernels": _normal(rng, o, c, k, k, dtype=np.float32),
        "out": _unwritten(o, h - k + 1, w - k + 1, dtype=np.float32),
    }


def _direct(arrays: Arrays, dims: Dims) -> Arrays:
    c, o, h, w, k = (dims[dim] for dim in "cohwk")
    image, kernels = arrays["image"].astype(np.float64), arrays["kernels"].astype(np.float64)
    rows, columns = h - k + 1, w - k + 1
    total = np.zeros((o, rows * columns))
    for i, j in np.ndindex(k, k):
        shifted = image[:, i : i + rows, j : j + columns].reshape(c, -1)
        total += kernels[:, :, i, j] @ shifted
    return {"out": total.reshape(o, rows, columns)}


def _depthwise_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, c, h, w, k, s = (dims[dim] for dim in "bchwks")
    return {
        "x": _normal(rng, b, c, h, w),
        "w": _normal(rng, c, k, k),
        "y": _unwritten(b, c, (h - 1) // s + 1, (w - 1) // s + 1),
    }


def _depthwise(arrays: Arrays, dims: Dims) -> Arrays:
    h, w, k, s = (dims[dim] for dim in "hwks")
    x = _padded(arrays["x"].astype(np.float32), k, (2, 3))
    total = np.zeros(arrays["y"].shape)
    for i, j in np.ndindex(k, k):
        total += x[:, :, i : i + h : s, j : j + w : s] * arrays["w"][:, i, j, None, None].astype(np.float32)
    return {"y": total}


def _implicit_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, h, w, c, o, k, s = (dims[dim] for dim in "bhwcoks")
    return {
        "x": _normal(rng, b, h, w, c),
        "w": _normal(rng, k, k, c, o, scale=(k * k * c) ** -0.5),
        "y": _unwritten(b, (h - 1) // s + 1, (w - 1) // s + 1, o),
    }


def _implicit(arrays: Arrays, dims: Dims) -> Arrays:
    h, w, k, s = (dims[dim] for dim in "hwks")
    x = _padded(arrays["x"].astype(np.float32), k, (1, 2))
    weights = arrays["w"].astype(np.float32)
    total = np.zeros(arrays["y"].shape)
    for i, j in np.ndindex(k, k):
        total += np.ascontiguousarray(x[:, i : i + h : s, j : j + w : s]) @ weights[i, j]
    return {"y": total}


def _grouped_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, h, w, g, c, k = (dims[dim] for dim in "bhwgck")
    return {
        "x": _normal(rng, b, h, w, g * c),
        "w": _normal(rng, g, k, k, c, c, scale=(k * k * c) ** -0.5),
        "y": _unwritten(b, h, w, g * c),
    }


def _grouped(arrays: Arrays, dims: Dims) -> Arrays:
    b, h, w, g, c, k = (dims[dim] for dim in "bhwgck")
    x = _padded(arrays["x"].astype(np.float32), k, (1, 2)).reshape(b, h + k - 1, w + k - 1, g, c)
    weights = arrays["w"].astype(np.float32)
    total = np.zeros((g, b, h, w, c))
    for i, j in np.ndindex(k, k):
        shifted = np.moveaxis(x[:, i : i + h, j : j + w], 3, 0).reshape(g, -1, c)
        total += (shifted @ weights[:, i, j]).reshape(total.shape)
    return {"y": np.moveaxis(total, 0, 3).reshape(b, h, w, g * c)}


def _max_pool_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    p, h, w, k = (dims[dim] for dim in "phwk")
    out = (p, (h - k) // 2 + 1, (w - k) // 2 + 1)
    return {
        "x": _normal(rng, p, h, w, dtype=np.float32),
        "values": _unwritten(*out, dtype=np.float32),
        "places": _unwritten(*out, dtype=np.int32),
    }


def _max_pool(arrays: Arrays, dims: Dims) -> Arrays:
    w, k = dims["w"], dims["k"]
    rows, columns = arrays["values"].shape[1:]
    best, where = np.full(arrays["values"].shape, -np.inf), np.zeros(arrays["values"].shape, np.int32)
    first = 2 * w * np.arange(rows)[:, None] + 2 * np.arange(columns)
    for i, j in np.ndindex(k, k):
        value = arrays["x"][:, i : i + 2 * rows - 1 : 2, j : j + 2 * columns - 1 : 2]
        where = np.where(value > best, first + i * w + j, where)
        best = np.maximum(best, value)
    return {"values": best, "places": where.astype(np.int32)}


def _average_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, h, w, c, k = (dims[dim] for dim in "bhwck")
    return {"x": _normal(rng, b, h, w, c), "y": _unwritten(b, h // k, w // k, c)}


def _average(arrays: Arrays, dims: Dims) -> Arrays:
    b, h, w, c, k = (dims[dim] for dim in "bhwck")
    x = arrays["x"][:, : h // k * k, : w // k * k].astype(np.float32)
    return {"y": x.reshape(b, h // k, k, w // k, k, c).mean(axis=(2, 4))}


def _upsample_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    p, h, w, s = (dims[dim] for dim in "phws")
    return {
        "x_ptr": _normal(rng, p, h, w, dtype=np.float32),
        "y_ptr": _unwritten(p, s * h, s * w, dtype=np.float32),
    }


def _weights(size: int, scale: int) -> Array:
    """``(scale * size, size)`` shares of each source pixel in the pixels between."""
    place = np.maximum((np.arange(scale * size) + 0.5) / scale - 0.5, 0.0)
    low = place.astype(int)
    weights = np.zeros((scale * size, size))
    np.add.at(weights, (np.arange(scale * size), low), 1 - (place - low))
    np.add.at(weights, (np.arange(scale * size), np.minimum(low + 1, size - 1)), place - low)
    return weights


def _upsample(arrays: Arrays, dims: Dims) -> Arrays:
    rows, columns = (_weights(dims[dim], dims["s"]) for dim in "hw")
    return {"y_ptr": rows @ arrays["x_ptr"].astype(np.float64) @ columns.T}


def _field(dims: Dims, rng: np.random.Generator) -> Arrays:
    shape = tuple(dims.values())
    return {"u": _normal(rng, *shape, dtype=np.float32), "out": _unwritten(*shape, dtype=np.float32)}


def _five_points(arrays: Arrays, _: Dims) -> Arrays:
    u = arrays["u"].astype(np.float64)
    out = u.copy()
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    out[1:-1, 1:-1] += 0.125 * (around - 4 * u[1:-1, 1:-1])
    return {"out": out}


def _nine_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    return {**_field(dims, rng), "coefficients": _normal(rng, 3, 3, dtype=np.float32)}


def _nine_points(arrays: Arrays, _: Dims) -> Arrays:
    u = np.pad(arrays["u"].astype(np.float64), 1, mode="wrap")
    h, w = arrays["u"].shape
    shifted = (u[i : i + h, j : j + w] * arrays["coefficients"][i, j] for i, j in np.ndindex(3, 3))
    return {"out": sum(shifted)}


def _seven_points(arrays: Arrays, _: Dims) -> Arrays:
    u = np.pad(arrays["u"].astype(np.float64), 1)
    middle = (slice(1, -1),) * 3
    out = -6.0 * u[middle]
    for axis in range(3):
        for side in (slice(None, -2), slice(2, None)):
            out += u[(*middle[:axis], side, *middle[axis + 1 :])]
    return {"out": out}


def _im2col_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    c, h, w, k, s = (dims[dim] for dim in "chwks")
    pixels = ((h - 1) // s + 1) * ((w - 1) // s + 1)
    return {"x": _normal(rng, c, h, w), "columns": _unwritten(pixels, c * k * k)}


def _im2col(arrays: Arrays, dims: Dims) -> Arrays:
    c, k, s = (dims[dim] for dim in "cks")
    windows = _windows(_padded(arrays["x"], k, (1, 2)), k, s, (1, 2))
    return {"columns": windows.transpose(1, 2, 0, 3, 4).reshape(-1, c * k * k)}


FAMILIES = [
    _kernel(
        name="conv1d",
        function="conv1d",
        dims=SIZES["conv1d"][0],
        parameters={
            "BLOCK_L": (16, 32, 64, 128),
            "BLOCK_O": (32, 64, 128),
            "BLOCK_I": (16, 32, 64),
            "num_warps": (2, 4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={"BLOCK_L": 64, "BLOCK_O": 64, "BLOCK_I": 32, "num_warps": 4, "num_stages": 3},
        conditions=(
            "512 * num_warps <= BLOCK_L * BLOCK_O <= 4096 * num_warps",
            "2 * (BLOCK_L + BLOCK_O) * BLOCK_I * num_stages <= 160 * 1024",
        ),
        grid=("ceil(l / BLOCK_L)", "ceil(o / BLOCK_O)", "b"),
        scalars={"L": "l"},
        constants={"C_IN": "c", "C_OUT": "o", "TAPS": "k"},
        arrays=_conv1d_arrays,
        outputs=("y",),
        reference=_conv1d,
    ),
    _kernel(
        name="causal_depthwise_conv1d",
        function="causal_depthwise_conv1d",
        dims=SIZES["causal_depthwise_conv1d"][0],
        parameters={
            "BLOCK_T": (1, 4, 8, 16, 32, 64, 128),
            "BLOCK_D": (16, 32, 64, 128, 256, 512),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_T": 16, "BLOCK_D": 128, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_T * BLOCK_D <= 1024 * num_warps",),
        grid=("ceil(d / BLOCK_D)", "ceil(t / BLOCK_T)", "b"),
        scalars={"T": "t", "D": "d"},
        constants={"TAPS": 4},
        arrays=_causal_arrays,
        outputs=("out",),
        reference=_causal,
    ),
    _kernel(
        name="conv2d_direct",
        function="conv2d_direct",
        dims=SIZES["conv2d_direct"][0],
        parameters={
            "BLOCK_H": (1, 2, 4, 8, 16, 32),
            "BLOCK_W": (16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_H": 8, "BLOCK_W": 64, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_H * BLOCK_W <= 512 * num_warps",),
        grid=("ceil((h - k + 1) / BLOCK_H) * ceil((w - k + 1) / BLOCK_W)", "o"),
        scalars={"H": "h", "W": "w"},
        constants={"C": "c", "TAPS": "k"},
        arrays=_direct_arrays,
        outputs=("out",),
        reference=_direct,
    ),
    _kernel(
        name="depthwise_conv2d_planes",
        function="depthwise_conv2d_planes",
        dims=SIZES["depthwise_conv2d_planes"][0],
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8),
            "maxnreg": (0, 32, 64),
        },
        defaults={"BLOCK": 512, "num_warps": 4, "maxnreg": 0},
        conditions=("32 * num_warps <= BLOCK <= 512 * num_warps",),
        grid=("ceil(((h - 1) // s + 1) * ((w - 1) // s + 1) / BLOCK)", "b * c"),
        scalars={"C": "c", "H": "h", "W": "w", **_OUT},
        constants={"TAPS": "k", "STRIDE": "s"},
        arrays=_depthwise_arrays,
        outputs=("y",),
        reference=_depthwise,
    ),
    _kernel(
        name="conv2d_implicit",
        function="conv2d_implicit",
        dims=SIZES["conv2d_implicit"][0],
        parameters={
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_N": (32, 64, 128),
            "BLOCK_K": (16, 32, 64),
            "num_warps": (2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        defaults={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2},
        conditions=(
            "512 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps",
            "BLOCK_M * BLOCK_K <= 1024 * num_warps",
        ),
        grid=("ceil(b * ((h - 1) // s + 1) * ((w - 1) // s + 1) / BLOCK_M)", "ceil(o / BLOCK_N)"),
        scalars={"batch": "b", "H": "h", "W": "w", "C": "c", "O": "o", **_OUT},
        constants={"TAPS": "k", "STRIDE": "s"},
        arrays=_implicit_arrays,
        outputs=("y",),
        reference=_implicit,
    ),
    _kernel(
        name="grouped_conv2d",
        function="grouped_conv2d",
        dims=SIZES["grouped_conv2d"][0],
        parameters={
            "BLOCK_P": (16, 32, 64, 128),
            "ROWS": (1, 2, 4, 8),
            "num_warps": (1, 2, 4),
            "num_stages": (1, 2, 3),
        },
        defaults={"BLOCK_P": 32, "ROWS": 1, "num_warps": 1, "num_stages": 2},
        conditions=("c in [16, 32, 64]", "BLOCK_P * c <= 4096 * num_warps", "BLOCK_P < 4 * w"),
        grid=("ceil(w / BLOCK_P) * ceil(h / ROWS)", "g", "b"),
        scalars={"H": "h", "W": "w", "GROUPS": "g"},
        constants={"CG": "c", "TAPS": "k"},
        arrays=_grouped_arrays,
        outputs=("y",),
        reference=_grouped,
    ),
    _kernel(
        name="max_pool2d",
        function="max_pool2d",
        dims=SIZES["max_pool2d"][0],
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8),
            "maxnreg": (0, 32, 64),
        },
        defaults={"BLOCK": 512, "num_warps": 4, "maxnreg": 0},
        conditions=("32 * num_warps <= BLOCK <= 512 * num_warps",),
        grid=("p", "ceil(((h - k) // 2 + 1) * ((w - k) // 2 + 1) / BLOCK)"),
        scalars={"H": "h", "W": "w", "OH": "(h - k) // 2 + 1", "OW": "(w - k) // 2 + 1"},
        constants={"SIZE": "k", "STRIDE": 2},
        arrays=_max_pool_arrays,
        outputs=("values", "places"),
        reference=_max_pool,
    ),
    _kernel(
        name="average_pool2d",
        function="average_pool2d",
        dims=SIZES["average_pool2d"][0],
        parameters={
            "BLOCK_C": (8, 16, 32, 64, 128, 256),
            "COLUMNS": (1, 2, 4, 8, 16, 32),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_C": 64, "COLUMNS": 8, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_C * COLUMNS <= 2048 * num_warps",),
        grid=("ceil(c / BLOCK_C)", "ceil((w // k) / COLUMNS)", "b * (h // k)"),
        scalars={"H": "h", "W": "w", "C": "c"},
        constants={"SIZE": "k"},
        arrays=_average_arrays,
        outputs=("y",),
        reference=_average,
    ),
    _kernel(
        name="upsample_bilinear",
        function="upsample_bilinear",
        dims=SIZES["upsample_bilinear"][0],
        parameters={
            "BLOCK_Y": (1, 2, 4, 8, 16, 32),
            "BLOCK_X": (16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_Y": 8, "BLOCK_X": 64, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_Y * BLOCK_X <= 1024 * num_warps",),
        grid=("ceil(s * w / BLOCK_X)", "ceil(s * h / BLOCK_Y)", "p"),
        scalars={"H": "h", "W": "w"},
        constants={"SCALE": "s"},
        arrays=_upsample_arrays,
        outputs=("y_ptr",),
        reference=_upsample,
    ),
    _kernel(
        name="stencil_5_points",
        function="stencil_5_points",
        dims=SIZES["stencil_5_points"][0],
        parameters={
            "BLOCK_H": (1, 2, 4, 8, 16, 32, 64),
            "BLOCK_W": (16, 32, 64, 128, 256, 512),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_H": 16, "BLOCK_W": 64, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_H * BLOCK_W <= 1024 * num_warps",),
        grid=("ceil(w / BLOCK_W)", "ceil(h / BLOCK_H)"),
        scalars={"H": "h", "W": "w", "alpha": 0.125},
        arrays=_field,
        outputs=("out",),
        reference=_five_points,
    ),
    _kernel(
        name="stencil_9_points",
        function="stencil_9_points",
        dims=SIZES["stencil_9_points"][0],
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048),
            "ROWS": (1, 2, 4, 8, 16, 32),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 256, "ROWS": 4, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK <= 512 * num_warps",),
        grid=("ceil(w / BLOCK)", "ceil(h / ROWS)"),
        scalars={"H": "h", "W": "w"},
        arrays=_nine_arrays,
        outputs=("out",),
        reference=_nine_points,
    ),
    _kernel(
        name="stencil_3d",
        function="stencil_3d",
        dims=SIZES["stencil_3d"][0],
        parameters={
            "BLOCK_B": (1, 2, 4, 8, 16, 32),
            "BLOCK_C": (16, 32, 64, 128, 256),
            "PLANES": (2, 8, 32, 128),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_B": 8, "BLOCK_C": 64, "PLANES": 8, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_B * BLOCK_C <= 512 * num_warps",),
        grid=("ceil(c / BLOCK_C)", "ceil(b / BLOCK_B)", "ceil(a / PLANES)"),
        scalars={"A": "a", "B": "b", "C": "c"},
        arrays=_field,
        outputs=("out",),
        reference=_seven_points,
    ),
    _kernel(
        name="im2col",
        function="im2col",
        dims=SIZES["im2col"][0],
        parameters={
            "BLOCK_P": (1, 4, 8, 16, 32, 64),
            "BLOCK_K": (16, 32, 64, 128, 256, 512),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_P": 16, "BLOCK_K": 64, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_P * BLOCK_K <= 1024 * num_warps",),
        grid=("ceil(c * k * k / BLOCK_K)", "ceil(((h - 1) // s + 1) * ((w - 1) // s + 1) / BLOCK_P)"),
        scalars={"H": "h", "W": "w", "C": "c", **_OUT},
        constants={"TAPS": "k", "STRIDE": "s"},
        arrays=_im2col_arrays,
        outputs=("columns",),
        reference=_im2col,
    ),
]
