"""Scans along rows, columns and time, and the places of extremes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel import TritonFamily

Arrays = Mapping[str, NDArray[Any]]
Dims = Mapping[str, int]

SIZES = {
    "cumsum_rows": ({"m": 2048, "n": 4096}, {"m": 777, "n": 5001}),
    "cumsum_columns": ({"m": 1024, "n": 8192}, {"m": 3001, "n": 1544}),
    "suffix_product": ({"m": 16384, "n": 256}, {"m": 3333, "n": 999}),
    "argmax_rows": ({"m": 512, "n": 32000}, {"m": 6000, "n": 1503}),
    "argmin_columns": ({"m": 2048, "n": 4096}, {"m": 515, "n": 12345}),
    "prefix_max": ({"m": 4096, "n": 2048}, {"m": 300, "n": 20011}),
    "segmented_scan": ({"m": 1024, "n": 4096}, {"m": 211, "n": 9999}),
    "exclusive_scan": ({"m": 1024, "n": 8192}, {"m": 4099, "n": 776}),
    "logcumsumexp": ({"m": 1024, "n": 2048}, {"m": 395, "n": 3001}),
    "recurrence_steps": ({"b": 8, "t": 512, "d": 2048}, {"b": 3, "t": 304, "d": 5000}),
    "recurrence_scan": ({"b": 4, "t": 1024, "d": 1024}, {"b": 9, "t": 333, "d": 1000}),
    "running_mean": ({"m": 2048, "n": 4096}, {"m": 500, "n": 10007}),
}

# Sizes that Triton's interpreter is quick at.
SMALL = {
    "cumsum_rows": {"m": 5, "n": 300},
    "cumsum_columns": {"m": 150, "n": 37},
    "suffix_product": {"m": 21, "n": 51},
    "argmax_rows": {"m": 3, "n": 700},
    "argmin_columns": {"m": 150, "n": 37},
    "prefix_max": {"m": 5, "n": 300},
    "segmented_scan": {"m": 2, "n": 700},
    "exclusive_scan": {"m": 5, "n": 300},
    "logcumsumexp": {"m": 3, "n": 100},
    "recurrence_steps": {"b": 2, "t": 32, "d": 70},
    "recurrence_scan": {"b": 2, "t": 41, "d": 37},
    "running_mean": {"m": 2, "n": 700},
}

_kernel = partial(TritonFamily, kernel=Path(__file__).with_name("kernel.py"))


def _normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def _unwritten(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    """An output that nobody has written: NaN, or a whole number that no kernel gives."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -77, dtype)


def _rows(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"x": _normal(rng, m, n), "y": _unwritten(m, n)}


def _columns(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"X": _normal(rng, m, n, dtype=np.float16), "Y": _unwritten(m, n, dtype=np.float16)}


def _gates(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    gates = 1.0 - 0.1 * rng.random((m, n), np.float32)
    return {"gates": gates.astype(np.float16), "products": _unwritten(m, n)}


def _suffix_product(arrays: Arrays, _: Dims) -> Arrays:
    gates = arrays["gates"].astype(np.float64)
    return {"products": np.cumprod(gates[:, ::-1], axis=1)[:, ::-1]}


def _scores(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"scores": _normal(rng, m, n), "values": _unwritten(m), "places": _unwritten(m, dtype=np.int32)}


def _argmax_rows(arrays: Arrays, _: Dims) -> Arrays:
    scores = arrays["scores"]
    return {"values": scores.max(axis=1), "places": scores.argmax(axis=1).astype(np.int32)}


def _argmin_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    return {"x": _normal(rng, dims["m"], dims["n"]), "out": _unwritten(dims["n"], dtype=np.int32)}


def _levels(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    levels = rng.integers(-(10**6), 10**6, (m, n), np.int32) + 500 * np.arange(n, dtype=np.int32)
    return {"levels_ptr": levels.astype(np.int32), "peaks_ptr": _unwritten(m, n, dtype=np.int32)}


def _segments(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    starts = (rng.random((m, n), np.float32) < 1 / 300).astype(np.int32)
    return {"x": _normal(rng, m, n), "starts": starts, "y": _unwritten(m, n)}


def _segmented_scan(arrays: Arrays, dims: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    sums = np.cumsum(x, axis=1)
    places = np.where(arrays["starts"] != 0, np.arange(dims["n"]), 0)
    first = np.maximum.accumulate(places, axis=1)
    return {"y": sums - np.take_along_axis(sums - x, first, axis=1)}


def _counts(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"counts": rng.integers(0, 100, (m, n), np.int32), "offsets": _unwritten(m, n, dtype=np.int32)}


def _exclusive_scan(arrays: Arrays, _: Dims) -> Arrays:
    counts = arrays["counts"]
    return {"offsets": (np.cumsum(counts, axis=1) - counts).astype(np.int32)}


def _sequences(dims: Dims, rng: np.random.Generator, dtype: Any) -> Arrays:
    shape = (dims["b"], dims["t"], dims["d"])
    decay = 0.8 + 0.2 * rng.random(shape, np.float32)
    drive = _normal(rng, *shape, dtype=dtype)
    return {"decay": decay.astype(dtype), "drive": drive, "state": _unwritten(*shape, dtype=dtype)}


def _recurrence(arrays: Arrays, dims: Dims) -> Arrays:
    decay, drive = arrays["decay"].astype(np.float64), arrays["drive"].astype(np.float64)
    states, state = np.empty_like(drive), np.zeros((dims["b"], dims["d"]))
    for time in range(dims["t"]):
        states[:, time] = state = decay[:, time] * state + drive[:, time]
    return {"state": states}


def _running_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    x = 1.0 + _normal(rng, m, n)
    return {"x": x.astype(np.float16), "out": _unwritten(m, n, dtype=np.float16)}


def _running_mean(arrays: Arrays, dims: Dims) -> Arrays:
    return {"out": np.cumsum(arrays["x"], axis=1, dtype=np.float64) / np.arange(1, dims["n"] + 1)}


FAMILIES = [
    _kernel(
        name="cumsum_rows",
        function="cumsum_rows",
        dims=SIZES["cumsum_rows"][0],
        parameters={"ROWS": (1, 2, 4, 8), "BLOCK": (64, 256, 512, 1024, 2048), "num_warps": (1, 2, 4, 8)},
        defaults={"ROWS": 1, "BLOCK": 1024, "num_warps": 4},
        conditions=("32 * num_warps <= ROWS * BLOCK <= 8192", "ROWS * BLOCK <= 2048 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"m": "m", "n": "n"},
        arrays=_rows,
        outputs=("y",),
        reference=lambda arrays, _: {"y": np.cumsum(arrays["x"], axis=1, dtype=np.float64)},
    ),
    _kernel(
        name="cumsum_columns",
        function="cumsum_columns",
        dims=SIZES["cumsum_columns"][0],
        parameters={
            "BLOCK_M": (8, 16, 32, 64, 128),
            "BLOCK_N": (8, 16, 32, 64, 128),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_M * BLOCK_N <= 2048 * num_warps", "BLOCK_M * BLOCK_N <= 8192"),
        grid=("ceil(n / BLOCK_N)",),
        scalars={"M": "m", "N": "n", "stride_m": "n"},
        arrays=_columns,
        outputs=("Y",),
        reference=lambda arrays, _: {"Y": np.cumsum(arrays["X"], axis=0, dtype=np.float64)},
    ),
    _kernel(
        name="suffix_product",
        function="suffix_product",
        dims=SIZES["suffix_product"][0],
        parameters={
            "ROWS": (1, 2, 4, 8, 16),
            "WIDTH": (64, 128, 256, 512, 1024, 2048),
            "PROGRAMS": (66, 132, 264, 528, 1056),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 4, "PROGRAMS": 264, "num_warps": 4},
        conditions=("n <= WIDTH < 2 * n", "32 * num_warps <= ROWS * WIDTH <= 2048 * num_warps"),
        grid=("min(PROGRAMS, ceil(m / ROWS))",),
        scalars={"rows_total": "m"},
        constants={"N": "n"},
        arrays=_gates,
        outputs=("products",),
        reference=_suffix_product,
    ),
    _kernel(
        name="argmax_rows",
        function="argmax_rows",
        dims=SIZES["argmax_rows"][0],
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192),
            "STAGES": (1, 2, 3, 4),
            "num_warps": (1, 2, 4, 8, 16),
        },
        defaults={"BLOCK": 1024, "STAGES": 2, "num_warps": 4},
        conditions=(
            "32 * num_warps <= BLOCK <= 1024 * num_warps",
            "BLOCK < 2 * n",
            "STAGES == 1 or BLOCK < n",
        ),
        grid=("m",),
        scalars={"n": "n"},
        arrays=_scores,
        outputs=("values", "places"),
        reference=_argmax_rows,
    ),
    _kernel(
        name="argmin_columns",
        function="argmin_columns",
        dims=SIZES["argmin_columns"][0],
        parameters={
            "BLOCK_M": (4, 8, 16, 32, 64, 128),
            "BLOCK_N": (8, 16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_M * BLOCK_N <= 1024 * num_warps",),
        grid=("ceil(n / BLOCK_N)",),
        scalars={"M": "m", "N": "n"},
        arrays=_argmin_arrays,
        outputs=("out",),
        reference=lambda arrays, _: {"out": arrays["x"].argmin(axis=0).astype(np.int32)},
    ),
    _kernel(
        name="prefix_max",
        function="prefix_max",
        dims=SIZES["prefix_max"][0],
        parameters={
            "XBLOCK": (1, 2, 4, 8, 16, 32),
            "RBLOCK": (32, 128, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"XBLOCK": 1, "RBLOCK": 1024, "num_warps": 4},
        conditions=("32 * num_warps <= XBLOCK * RBLOCK <= 2048 * num_warps", "XBLOCK * RBLOCK <= 8192"),
        grid=("ceil(m / XBLOCK)",),
        scalars={"n_rows": "m", "n_cols": "n"},
        arrays=_levels,
        outputs=("peaks_ptr",),
        reference=lambda arrays, _: {"peaks_ptr": np.maximum.accumulate(arrays["levels_ptr"], axis=1)},
    ),
    _kernel(
        name="segmented_scan",
        function="segmented_scan",
        dims=SIZES["segmented_scan"][0],
        parameters={
            "BLOCK": (32, 64, 128, 256, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8, 16),
            "num_stages": (1, 2, 3),
        },
        defaults={"BLOCK": 1024, "num_warps": 4, "num_stages": 2},
        conditions=("32 * num_warps <= BLOCK <= 1024 * num_warps",),
        grid=("m",),
        scalars={"n": "n"},
        arrays=_segments,
        outputs=("y",),
        reference=_segmented_scan,
        tolerance=1e-3,  # where a segment ends near zero the reference's own difference rounds
    ),
    _kernel(
        name="exclusive_scan",
        function="exclusive_scan",
        dims=SIZES["exclusive_scan"][0],
        parameters={
            "ROWS": (1, 2, 4, 8),
            "BLOCK": (64, 128, 256, 512, 1024, 2048),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 1, "BLOCK": 1024, "num_warps": 4},
        conditions=("32 * num_warps <= ROWS * BLOCK <= 2048 * num_warps", "ROWS * BLOCK <= 8192"),
        grid=("ceil(m / ROWS)",),
        scalars={"m": "m", "n": "n"},
        arrays=_counts,
        outputs=("offsets",),
        reference=_exclusive_scan,
    ),
    _kernel(
        name="logcumsumexp",
        function="logcumsumexp",
        dims=SIZES["logcumsumexp"][0],
        parameters={
            "ROWS": (1, 2, 4, 8),
            "BLOCK": (32, 128, 256, 512, 1024, 2048),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 1, "BLOCK": 512, "num_warps": 4},
        conditions=("32 * num_warps <= ROWS * BLOCK <= 512 * num_warps", "ROWS * BLOCK <= 4096"),
        grid=("ceil(m / ROWS)",),
        scalars={"m": "m", "n": "n"},
        arrays=_rows,
        outputs=("y",),
        reference=lambda arrays, _: {"y": np.logaddexp.accumulate(arrays["x"], axis=1, dtype=np.float64)},
    ),
    _kernel(
        name="recurrence_steps",
        function="recurrence_steps",
        dims=SIZES["recurrence_steps"][0],
        parameters={
            "BLOCK_D": (32, 64, 128, 256, 512, 1024),
            "UNROLL": (1, 2, 4, 8, 16),
            "num_warps": (1, 2, 4),
        },
        defaults={"BLOCK_D": 128, "UNROLL": 1, "num_warps": 1},
        conditions=("32 * num_warps <= BLOCK_D <= 256 * num_warps", "t % UNROLL == 0"),
        grid=("ceil(d / BLOCK_D)", "b"),
        scalars={"T": "t", "D": "d"},
        arrays=partial(_sequences, dtype=np.float16),
        outputs=("state",),
        reference=_recurrence,
    ),
    _kernel(
        name="recurrence_scan",
        function="recurrence_scan",
        dims=SIZES["recurrence_scan"][0],
        parameters={
            "BLOCK_T": (8, 16, 32, 64, 128),
            "BLOCK_D": (4, 8, 16, 32, 64),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_T": 32, "BLOCK_D": 32, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_T * BLOCK_D <= 1024 * num_warps", "BLOCK_T * BLOCK_D <= 4096"),
        grid=("b", "ceil(d / BLOCK_D)"),
        scalars={"T": "t", "D": "d"},
        arrays=partial(_sequences, dtype=np.float32),
        outputs=("state",),
        reference=_recurrence,
    ),
    _kernel(
        name="running_mean",
        function="running_mean",
        dims=SIZES["running_mean"][0],
        parameters={
            "BLOCK": (256, 512, 1024, 2048, 4096),
            "PER_THREAD": (1, 2, 4, 8, 16, 32),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 1024, "PER_THREAD": 8, "num_warps": 4},
        conditions=("64 * num_warps <= BLOCK <= 1024 * num_warps", "PER_THREAD * 32 <= BLOCK"),
        grid=("m",),
        scalars={"n": "n"},
        arrays=_running_arrays,
        outputs=("out",),
        reference=_running_mean,
    ),
]
