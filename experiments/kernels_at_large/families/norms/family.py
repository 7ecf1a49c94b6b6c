"""Norms, their statistics and backward passes, softmaxes, and quantisation by rows."""

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
    "group_norm": ({"b": 4, "c": 320, "s": 4096, "g": 32}, {"b": 3, "c": 640, "s": 1225, "g": 16}),
    "instance_norm": ({"b": 16, "c": 512, "s": 1024}, {"b": 5, "c": 999, "s": 361}),
    "batch_norm_inference": ({"b": 32, "c": 256, "s": 784}, {"b": 9, "c": 100, "s": 10001}),
    "batch_norm_statistics": ({"m": 25088, "c": 512}, {"m": 100003, "c": 72}),
    "layer_norm_grad_input": ({"m": 3072, "n": 2048}, {"m": 1999, "n": 1601}),
    "layer_norm_grad_weights": ({"m": 6144, "n": 1024}, {"m": 1999, "n": 3001}),
    "rms_norm_grad_input": ({"m": 1536, "n": 4096}, {"m": 333, "n": 11008}),
    "weight_norm": ({"m": 4096, "n": 1024}, {"m": 512, "n": 4611}),
    "normalise_rows": ({"m": 65536, "d": 128}, {"m": 100001, "d": 50}),
    "softmax_grad": ({"m": 6144, "n": 1024}, {"m": 3001, "n": 2047}),
    "log_softmax": ({"m": 1024, "n": 8192}, {"m": 77, "n": 50257}),
    "online_softmax": ({"m": 2048, "n": 4096}, {"m": 99, "n": 65537}),
    "masked_softmax": ({"b": 4, "h": 12, "q": 256, "k": 512}, {"b": 3, "h": 8, "q": 197, "k": 390}),
    "quantise_rows": ({"m": 4096, "n": 4096}, {"m": 1001, "n": 5003}),
    "fake_quantise_groups": ({"m": 65536, "g": 128}, {"m": 200003, "g": 32}),
}
# Sizes that Triton's interpreter is quick at.
SMALL = {
    "group_norm": {"b": 2, "c": 8, "s": 77, "g": 2},
    "instance_norm": {"b": 2, "c": 5, "s": 77},
    "batch_norm_inference": {"b": 2, "c": 9, "s": 300},
    "batch_norm_statistics": {"m": 150, "c": 37},
    "layer_norm_grad_input": {"m": 5, "n": 300},
    "layer_norm_grad_weights": {"m": 70, "n": 37},
    "rms_norm_grad_input": {"m": 3, "n": 700},
    "weight_norm": {"m": 5, "n": 300},
    "normalise_rows": {"m": 77, "d": 50},
    "softmax_grad": {"m": 7, "n": 300},
    "log_softmax": {"m": 5, "n": 300},
    "online_softmax": {"m": 3, "n": 700},
    "masked_softmax": {"b": 2, "h": 4, "q": 13, "k": 50},
    "quantise_rows": {"m": 5, "n": 300},
    "fake_quantise_groups": {"m": 77, "g": 32},
}

_kernel = partial(TritonFamily, kernel=Path(__file__).with_name("kernel.py"))


def _normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Array:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def _unwritten(*shape: int, dtype: Any = np.float32) -> Array:
    """An output that nobody has written: NaN, or a whole number that no kernel gives."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -77, dtype)


def _group_norm_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, c, s = (dims[dim] for dim in "bcs")
    return {
        "x": _normal(rng, b, c, s, dtype=np.float16),
        "gain": _normal(rng, c),
        "bias": _normal(rng, c),
        "y": _unwritten(b, c, s, dtype=np.float16),
    }


def _group_norm(arrays: Arrays, dims: Dims) -> Arrays:
    x = arrays["x"]
    groups = x.astype(np.float64).reshape(dims["b"], dims["g"], -1)
    scaled = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    return {"y": scaled.reshape(x.shape) * arrays["gain"][:, None] + arrays["bias"][:, None]}


def _instance_norm_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    shape = (dims["b"], dims["c"], dims["s"])
    return {"x": 2.0 + _normal(rng, *shape), "y": _unwritten(*shape)}


def _instance_norm(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    x -= x.mean(axis=2, keepdims=True)
    return {"y": x / np.sqrt(np.square(x).mean(axis=2, keepdims=True) + 1e-5)}


def _batch_norm_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, c, s = (dims[dim] for dim in "bcs")
    return {
        "x": _normal(rng, b, c, s, dtype=np.float16),
        "mean": _normal(rng, c),
        "var": 0.5 + rng.random(c, np.float32),
        "gain": _normal(rng, c),
        "bias": _normal(rng, c),
        "y": _unwritten(b, c, s, dtype=np.float16),
    }


def _batch_norm(arrays: Arrays, _: Dims) -> Arrays:
    mean, var, gain, bias = (
        arrays[name].astype(np.float64)[:, None] for name in ("mean", "var", "gain", "bias")
    )
    return {"y": np.maximum((arrays["x"] - mean) / np.sqrt(var + 1e-5) * gain + bias, 0.0)}


def _statistics_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, c = dims["m"], dims["c"]
    return {
        "x": (1.0 + _normal(rng, m, c)).astype(np.float16),
        "mean": _unwritten(c),
        "var": _unwritten(c),
    }


def _statistics(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float32)
    return {"mean": x.mean(axis=0, dtype=np.float64), "var": x.var(axis=0, dtype=np.float64)}


def _row_statistics(x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float32)
    return wide.mean(axis=1), 1 / np.sqrt(wide.var(axis=1) + np.float32(1e-5))


def _grad_input_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    x = _normal(rng, m, n, dtype=np.float16)
    mean, rstd = _row_statistics(x)
    return {
        "DX": _unwritten(m, n, dtype=np.float16),
        "DY": _normal(rng, m, n, dtype=np.float16),
        "W": _normal(rng, n, dtype=np.float16),
        "X": x,
        "Mean": mean,
        "Rstd": rstd,
    }


def _grad_input(arrays: Arrays, _: Dims) -> Arrays:
    rstd = arrays["Rstd"].astype(np.float64)[:, None]
    normed = (arrays["X"] - arrays["Mean"].astype(np.float64)[:, None]) * rstd
    slope = arrays["DY"].astype(np.float64) * arrays["W"].astype(np.float64)
    along = (normed * slope).mean(axis=1, keepdims=True)
    return {"DX": (slope - normed * along - slope.mean(axis=1, keepdims=True)) * rstd}


def _grad_weights_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    x = _normal(rng, m, n, dtype=np.float16)
    mean, rstd = _row_statistics(x)
    slopes = _normal(rng, m, n, dtype=np.float16)
    outputs = {"dgain": _unwritten(n), "dbias": _unwritten(n)}
    return {"dy": slopes, "x": x, "mean": mean, "rstd": rstd, **outputs}


def _grad_weights(arrays: Arrays, _: Dims) -> Arrays:
    mean, rstd = (arrays[name].astype(np.float64)[:, None] for name in ("mean", "rstd"))
    slopes = arrays["dy"].astype(np.float64)
    return {"dgain": (slopes * (arrays["x"] - mean) * rstd).sum(axis=0), "dbias": slopes.sum(axis=0)}


def _rms_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    inputs = {name: _normal(rng, m, n, dtype=np.float16) for name in ("dy", "x")}
    return {**inputs, "gain": _normal(rng, n, dtype=np.float16), "dx": _unwritten(m, n, dtype=np.float16)}


def _rms_grad(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    slope = arrays["dy"].astype(np.float64) * arrays["gain"].astype(np.float64)
    square = np.square(x).mean(axis=1, keepdims=True) + 1e-6
    return {"dx": (slope - x * (slope * x).mean(axis=1, keepdims=True) / square) / np.sqrt(square)}


def _weight_norm_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {
        "v_ptr": _normal(rng, m, n),
        "g_ptr": _normal(rng, m),
        "w_ptr": _unwritten(m, n),
        "norm_ptr": _unwritten(m),
    }


def _weight_norm(arrays: Arrays, _: Dims) -> Arrays:
    v = arrays["v_ptr"].astype(np.float64)
    norms = np.sqrt(np.square(v).sum(axis=1))
    return {"w_ptr": v * (arrays["g_ptr"] / norms)[:, None], "norm_ptr": norms}


def _short_rows(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, d = dims["m"], dims["d"]
    return {"x": _normal(rng, m, d, dtype=np.float16), "y": _unwritten(m, d, dtype=np.float16)}


def _normalised(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    return {"y": x / np.sqrt(np.square(x).sum(axis=1, keepdims=True))}


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _softmax_grad_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {
        "probabilities": _softmax(2.0 * _normal(rng, m, n)).astype(np.float16),
        "slopes": _normal(rng, m, n, dtype=np.float16),
        "out": _unwritten(m, n, dtype=np.float16),
    }


def _softmax_grad(arrays: Arrays, _: Dims) -> Arrays:
    p, slopes = arrays["probabilities"].astype(np.float64), arrays["slopes"]
    return {"out": p * (slopes - (p * slopes).sum(axis=1, keepdims=True))}


def _log_softmax_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"x": _normal(rng, m, n), "y": _unwritten(m, n)}


def _log_softmax(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return {"y": x - np.log(np.exp(x).sum(axis=1, keepdims=True))}


def _rows(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"x": _normal(rng, m, n, dtype=np.float16), "y": _unwritten(m, n, dtype=np.float16)}


def _masked_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, h, q, k = (dims[dim] for dim in "bhqk")
    return {
        "scores": _normal(rng, b, h, q, k, dtype=np.float16),
        "bias": _normal(rng, q, k, dtype=np.float16),
        "lengths": rng.integers(k // 2, k + 1, b).astype(np.int32),
        "out": _unwritten(b, h, q, k, dtype=np.float16),
    }


def _masked_softmax(arrays: Arrays, dims: Dims) -> Arrays:
    scores = arrays["scores"].astype(np.float64) * 0.25 + arrays["bias"]
    hidden = np.arange(dims["k"]) >= arrays["lengths"][:, None, None, None]
    return {"out": _softmax(np.where(hidden, -np.inf, scores))}


def _quantise_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {
        "x": _normal(rng, m, n, dtype=np.float16),
        "codes": _unwritten(m, n, dtype=np.int8),
        "scales": _unwritten(m),
    }


def _quantise(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float32)
    scales = np.exp2(np.ceil(np.log2(np.abs(x).max(axis=1) / np.float32(126.9))))
    return {"codes": np.floor(x / scales[:, None] + np.float32(0.5)).astype(np.int8), "scales": scales}


def _groups(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, g = dims["m"], dims["g"]
    return {"x": _normal(rng, m, g, dtype=np.float16), "y": _unwritten(m, g, dtype=np.float16)}


def _fake_quantised(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    scale = np.abs(x).max(axis=1, keepdims=True) / 7.0
    return {"y": np.clip(np.floor(x / scale + 0.5), -8, 7) * scale}


FAMILIES = [
    _kernel(
        name="group_norm",
        function="group_norm",
        dims=SIZES["group_norm"][0],
        parameters={
            "BLOCK": (256, 512, 1024, 2048, 4096, 8192),
            "STAGES": (1, 2, 3),
            "num_warps": (1, 2, 4, 8, 16),
        },
        defaults={"BLOCK": 2048, "STAGES": 1, "num_warps": 8},
        conditions=("64 * num_warps <= BLOCK <= 1024 * num_warps", "c % g == 0"),
        grid=("g", "b"),
        constants={"C": "c", "S": "s", "GROUPS": "g"},
        arrays=_group_norm_arrays,
        outputs=("y",),
        reference=_group_norm,
    ),
    _kernel(
        name="instance_norm",
        function="instance_norm",
        dims=SIZES["instance_norm"][0],
        parameters={
            "ROWS": (1, 2, 4, 8, 16),
            "WIDTH": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
            "num_warps": (1, 2, 4, 8, 16),
            "num_stages": (1, 3),
            "maxnreg": (0, 64, 128),
        },
        defaults={"ROWS": 2, "num_warps": 4},
        conditions=(
            "s <= WIDTH < 2 * s",
            "64 * num_warps <= ROWS * WIDTH <= 2048 * num_warps",
            "num_stages == 1 or maxnreg == 0",
        ),
        grid=("ceil(b * c / ROWS)",),
        scalars={"planes": "b * c", "S": "s"},
        arrays=_instance_norm_arrays,
        outputs=("y",),
        reference=_instance_norm,
    ),
    _kernel(
        name="batch_norm_inference",
        function="batch_norm_inference",
        dims=SIZES["batch_norm_inference"][0],
        parameters={
            "BLOCK_C": (1, 2, 4, 8, 16, 32),
            "BLOCK_S": (32, 64, 128, 256, 512, 1024),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_C": 4, "BLOCK_S": 256, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_C * BLOCK_S <= 2048 * num_warps", "BLOCK_C * BLOCK_S <= 8192"),
        grid=("ceil(s / BLOCK_S)", "ceil(c / BLOCK_C)", "b"),
        scalars={"C": "c", "S": "s"},
        constants={"RELU": 1},
        arrays=_batch_norm_arrays,
        outputs=("y",),
        reference=_batch_norm,
    ),
    _kernel(
        name="batch_norm_statistics",
        function="batch_norm_statistics",
        dims=SIZES["batch_norm_statistics"][0],
        parameters={
            "BLOCK_M": (8, 16, 32, 64, 128),
            "BLOCK_C": (8, 32, 64, 128, 256),
            "SPLITS": (4, 8, 16, 32, 64),
            "num_warps": (2, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_C": 64, "SPLITS": 32, "num_warps": 4},
        conditions=(
            "64 * num_warps <= BLOCK_M * BLOCK_C <= 2048 * num_warps",
            "SPLITS * BLOCK_C <= 8192",
        ),
        grid=("ceil(c / BLOCK_C)", "SPLITS"),
        scalars={"M": "m", "C": "c"},
        scratch={
            "part_mean": "4 * c * SPLITS",
            "part_m2": "4 * c * SPLITS",
            "part_n": "4 * c * SPLITS",
            "arrivals": "4 * ceil(c / BLOCK_C)",
        },
        scratch_types={
            "part_mean": "float32",
            "part_m2": "float32",
            "part_n": "float32",
            "arrivals": "int32",
        },
        arrays=_statistics_arrays,
        outputs=("mean", "var"),
        reference=_statistics,
    ),
    _kernel(
        name="layer_norm_grad_input",
        function="layer_norm_grad_input",
        dims=SIZES["layer_norm_grad_input"][0],
        parameters={
            "BLOCK_SIZE_N": (64, 128, 256, 512, 1024, 2048, 4096),
            "ROWS": (1, 2, 4, 8, 16),
            "num_warps": (1, 2, 4, 8, 16),
            "num_stages": (1, 2, 4),
        },
        defaults={"ROWS": 1, "num_warps": 8, "num_stages": 2},
        conditions=("n <= BLOCK_SIZE_N < 2 * n", "32 * num_warps <= BLOCK_SIZE_N <= 2048 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"stride": "n", "N": "n", "M": "m"},
        arrays=_grad_input_arrays,
        outputs=("DX",),
        reference=_grad_input,
    ),
    _kernel(
        name="layer_norm_grad_weights",
        function="layer_norm_grad_weights",
        dims=SIZES["layer_norm_grad_weights"][0],
        parameters={
            "BLOCK_M": (8, 16, 32, 64),
            "BLOCK_N": (16, 32, 64, 128),
            "SPLITS": (1, 2, 4, 8, 16, 32),
            "num_warps": (2, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_N": 64, "SPLITS": 8, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_M * BLOCK_N <= 1024 * num_warps", "BLOCK_M * BLOCK_N <= 4096"),
        grid=("ceil(n / BLOCK_N)", "SPLITS"),
        scalars={"M": "m", "N": "n"},
        scratch={"sums": "8 * n", "arrivals": "4 * ceil(n / BLOCK_N)"},
        scratch_types={"sums": "float32", "arrivals": "int32"},
        arrays=_grad_weights_arrays,
        outputs=("dgain", "dbias"),
        reference=_grad_weights,
        tolerance=1e-3,
    ),
    _kernel(
        name="rms_norm_grad_input",
        function="rms_norm_grad_input",
        dims=SIZES["rms_norm_grad_input"][0],
        parameters={
            "BLOCK": (256, 512, 1024, 2048, 4096, 8192, 16384),
            "STAGES": (1, 2, 3),
            "num_warps": (2, 4, 8, 16, 32),
        },
        defaults={"BLOCK": 4096, "STAGES": 1, "num_warps": 8},
        conditions=(
            "64 * num_warps <= BLOCK <= 1024 * num_warps",
            "STAGES == 1 or BLOCK < n",
            "BLOCK < 2 * n",
        ),
        grid=("m",),
        scalars={"m": "m", "n": "n"},
        arrays=_rms_arrays,
        outputs=("dx",),
        reference=_rms_grad,
    ),
    _kernel(
        name="weight_norm",
        function="weight_norm",
        dims=SIZES["weight_norm"][0],
        parameters={
            "XBLOCK": (1, 2, 4, 8, 16, 32, 64),
            "RBLOCK": (8, 32, 128, 512, 1024, 2048),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"XBLOCK": 1, "RBLOCK": 1024, "num_warps": 8},
        conditions=("32 * num_warps <= XBLOCK * RBLOCK <= 1024 * num_warps", "XBLOCK * RBLOCK <= 4096"),
        grid=("ceil(m / XBLOCK)",),
        scalars={"xnumel": "m", "rnumel": "n"},
        arrays=_weight_norm_arrays,
        outputs=("w_ptr", "norm_ptr"),
        reference=_weight_norm,
    ),
    _kernel(
        name="normalise_rows",
        function="normalise_rows",
        dims=SIZES["normalise_rows"][0],
        parameters={
            "WIDTH": (32, 64, 128, 256, 512),
            "ROWS": (1, 4, 8, 16, 32, 64),
            "PROGRAMS": (132, 264, 528, 1056, 2112),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 16, "PROGRAMS": 1056, "num_warps": 4},
        conditions=("d <= WIDTH < 2 * d", "32 * num_warps <= ROWS * WIDTH <= 2048 * num_warps"),
        grid=("PROGRAMS",),
        scalars={"m": "m"},
        constants={"D": "d"},
        arrays=_short_rows,
        outputs=("y",),
        reference=_normalised,
    ),
    _kernel(
        name="softmax_grad",
        function="softmax_grad",
        dims=SIZES["softmax_grad"][0],
        parameters={
            "PROGRAMS": (132, 264, 528, 1056, 2112, 4224),
            "WIDTH": (128, 256, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8, 16),
            "num_stages": (1, 2, 3, 4),
        },
        defaults={"PROGRAMS": 528, "num_warps": 8, "num_stages": 2},
        conditions=("n <= WIDTH < 2 * n", "32 * num_warps <= WIDTH <= 1024 * num_warps"),
        grid=("min(PROGRAMS, m)",),
        scalars={"n_rows": "m", "n_cols": "n"},
        arrays=_softmax_grad_arrays,
        outputs=("out",),
        reference=_softmax_grad,
    ),
    _kernel(
        name="log_softmax",
        function="log_softmax",
        dims=SIZES["log_softmax"][0],
        parameters={
            "ROWS": (1, 2, 4, 8),
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8, 16),
        },
        defaults={"ROWS": 1, "BLOCK": 2048, "num_warps": 8},
        conditions=("64 * num_warps <= ROWS * BLOCK <= 2048 * num_warps", "ROWS * BLOCK <= 8192"),
        grid=("ceil(m / ROWS)",),
        scalars={"m": "m", "n": "n"},
        arrays=_log_softmax_arrays,
        outputs=("y",),
        reference=_log_softmax,
    ),
    _kernel(
        name="online_softmax",
        function="online_softmax",
        dims=SIZES["online_softmax"][0],
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192),
            "PER_LANE": (0, 1),
            "num_warps": (1, 2, 4, 8, 16),
        },
        defaults={"BLOCK": 1024, "PER_LANE": 0, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK <= 1024 * num_warps",),
        grid=("m",),
        scalars={"n": "n"},
        arrays=_rows,
        outputs=("y",),
        reference=lambda arrays, _: {"y": _softmax(arrays["x"].astype(np.float64))},
    ),
    _kernel(
        name="masked_softmax",
        function="masked_softmax",
        dims=SIZES["masked_softmax"][0],
        parameters={
            "BLOCK_Q": (1, 2, 4, 8, 16),
            "WIDTH": (64, 128, 256, 512, 1024),
            "HEADS": (1, 2, 4),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_Q": 4, "HEADS": 1, "num_warps": 4},
        conditions=(
            "k <= WIDTH < 2 * k",
            "h % HEADS == 0",
            "32 * num_warps <= BLOCK_Q * WIDTH <= 2048 * num_warps",
        ),
        grid=("ceil(q / BLOCK_Q)", "h // HEADS", "b"),
        scalars={"H": "h", "Q": "q", "K": "k", "scale": 0.25},
        arrays=_masked_arrays,
        outputs=("out",),
        reference=_masked_softmax,
    ),
    _kernel(
        name="quantise_rows",
        function="quantise_rows",
        dims=SIZES["quantise_rows"][0],
        parameters={
            "ROWS": (1, 2, 4, 8),
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 1, "BLOCK": 2048, "num_warps": 4},
        conditions=("64 * num_warps <= ROWS * BLOCK <= 2048 * num_warps", "ROWS * BLOCK <= 8192"),
        grid=("ceil(m / ROWS)",),
        scalars={"m": "m"},
        constants={"N": "n"},
        arrays=_quantise_arrays,
        outputs=("codes", "scales"),
        reference=_quantise,
    ),
    _kernel(
        name="fake_quantise_groups",
        function="fake_quantise_groups",
        dims=SIZES["fake_quantise_groups"][0],
        parameters={
            "PER_PROGRAM": (1, 2, 4, 8, 16, 32, 64, 128),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        defaults={"PER_PROGRAM": 16, "num_warps": 4, "num_stages": 1},
        conditions=("32 * num_warps <= PER_PROGRAM * g <= 4096 * num_warps",),
        grid=("ceil(m / PER_PROGRAM)",),
        scalars={"groups": "m"},
        constants={"GROUP": "g"},
        arrays=_groups,
        outputs=("y",),
        reference=_fake_quantised,
    ),
]
