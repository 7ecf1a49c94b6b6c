"""Reductions of rows, columns, channels, segments and whole arrays."""

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
    "column_sums": ({"m": 4096, "n": 4096}, {"m": 10001, "n": 520}),
    "row_norms": ({"m": 4096, "n": 4096}, {"m": 999, "n": 11000}),
    "variance_two_pass": ({"m": 4096, "n": 2048}, {"m": 701, "n": 5005}),
    "variance_welford": ({"m": 2048, "n": 4096}, {"m": 1111, "n": 3003}),
    "column_statistics": ({"m": 4096, "n": 2048}, {"m": 1500, "n": 5001}),
    "segment_sums": ({"s": 2048, "r": 8, "d": 512}, {"s": 300, "r": 77, "d": 300}),
    "split_dot": ({"n": 8388608}, {"n": 3000001}),
    "any_all": ({"m": 4096, "n": 8192}, {"m": 300, "n": 50001}),
    "channel_extremes": ({"b": 16, "c": 256, "s": 3136}, {"b": 5, "c": 1000, "s": 777}),
    "bucket_counts": ({"m": 1024, "n": 8192, "k": 64}, {"m": 300, "n": 10001, "k": 256}),
    "mean_pool": ({"b": 64, "t": 512, "d": 768}, {"b": 7, "t": 1999, "d": 1000}),
    "argmax_split": ({"m": 64, "n": 131072}, {"m": 5, "n": 500009}),
}
# Sizes that Triton's interpreter is quick at.
SMALL = {
    "column_sums": {"m": 150, "n": 37},
    "row_norms": {"m": 3, "n": 700},
    "variance_two_pass": {"m": 5, "n": 300},
    "variance_welford": {"m": 5, "n": 300},
    "column_statistics": {"m": 150, "n": 37},
    "segment_sums": {"s": 5, "r": 7, "d": 50},
    "split_dot": {"n": 50001},
    "any_all": {"m": 3, "n": 700},
    "channel_extremes": {"b": 3, "c": 2, "s": 77},
    "bucket_counts": {"m": 2, "n": 700, "k": 16},
    "mean_pool": {"b": 2, "t": 41, "d": 70},
    "argmax_split": {"m": 2, "n": 5003},
}

_kernel = partial(TritonFamily, kernel=Path(__file__).with_name("kernel.py"))


def _normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def _unwritten(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    """An output that nobody has written: NaN, or a whole number that no kernel gives."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -77, dtype)


def _column_sums_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    return {"x": _normal(rng, dims["m"], dims["n"], dtype=np.float16), "out": _unwritten(dims["n"])}


def _row_norms_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    outputs = {name: _unwritten(m) for name in ("l1_ptr", "l2_ptr", "linf_ptr")}
    return {"x_ptr": _normal(rng, m, n, dtype=np.float16), **outputs}


def _row_norms(arrays: Arrays, _: Dims) -> Arrays:
    sizes = np.abs(arrays["x_ptr"])
    l2 = np.sqrt(np.square(sizes, dtype=np.float32).sum(axis=1, dtype=np.float64))
    return {"l1_ptr": sizes.sum(axis=1, dtype=np.float64), "l2_ptr": l2, "linf_ptr": sizes.max(axis=1)}


def _two_pass_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"x": 3.0 + _normal(rng, m, n), "variance": _unwritten(m)}


def _welford_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"in_ptr": 3.0 + _normal(rng, m, n), "out_mean": _unwritten(m), "out_var": _unwritten(m)}


def _welford(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["in_ptr"].astype(np.float64)
    return {"out_mean": x.mean(axis=1), "out_var": x.var(axis=1)}


def _column_statistics_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n = dims["m"], dims["n"]
    return {"x": 3.0 + _normal(rng, m, n), "mean": _unwritten(n), "std": _unwritten(n)}


def _column_statistics(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    return {"mean": x.mean(axis=0), "std": x.std(axis=0)}


def _segments(dims: Dims, rng: np.random.Generator) -> Arrays:
    """Segments of any lengths, r rows in the mean; some are empty."""
    count, rows = dims["s"], dims["s"] * dims["r"]
    cuts = np.sort(rng.integers(0, rows, count - 1))
    offsets = np.concatenate([[0], cuts, [rows]]).astype(np.int32)
    values = _normal(rng, rows, dims["d"], dtype=np.float16)
    return {"values": values, "offsets": offsets, "sums": _unwritten(count, dims["d"])}


def _segment_sums(arrays: Arrays, _: Dims) -> Arrays:
    sums = np.cumsum(arrays["values"], axis=0, dtype=np.float64)
    up_to = np.concatenate([np.zeros_like(sums[:1]), sums])[arrays["offsets"]]
    return {"sums": np.diff(up_to, axis=0)}


def _vectors(dims: Dims, rng: np.random.Generator) -> Arrays:
    """Vectors whose product is far from zero."""
    a, b = (0.5 + _normal(rng, dims["n"]) for _ in range(2))
    return {"a": a.astype(np.float16), "b": b.astype(np.float16), "out": _unwritten(1)}


def _dot(arrays: Arrays, _: Dims) -> Arrays:
    return {"out": np.array([arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64)])}


def _flags(dims: Dims, rng: np.random.Generator) -> Arrays:
    """Rows of zeros, of ones, and of both."""
    m, n = dims["m"], dims["n"]
    share = rng.choice([0.0, 1.0, 0.5, 2 / n, 1 - 2 / n], (m, 1)).astype(np.float32)
    flags = (rng.random((m, n), np.float32) < share).astype(np.int8)
    outputs = {name: _unwritten(m, dtype=np.int32) for name in ("any_out", "all_out")}
    return {"flags": flags, **outputs}


def _any_all(arrays: Arrays, _: Dims) -> Arrays:
    flags = arrays["flags"] != 0
    return {
        "any_out": flags.any(axis=1).astype(np.int32),
        "all_out": flags.all(axis=1).astype(np.int32),
    }


def _channels(dims: Dims, rng: np.random.Generator) -> Arrays:
    """Images; an extreme is where the search for it begins until a kernel has seen numbers."""
    b, c, s = dims["b"], dims["c"], dims["s"]
    lowest, highest = np.full(c, np.inf, np.float32), np.full(c, -np.inf, np.float32)
    return {"x": _normal(rng, b, c, s), "lowest": lowest, "highest": highest}


def _channel_extremes(arrays: Arrays, _: Dims) -> Arrays:
    return {"lowest": arrays["x"].min(axis=(0, 2)), "highest": arrays["x"].max(axis=(0, 2))}


def _bucket_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n, k = (dims[dim] for dim in "mnk")
    return {"x": rng.random((m, n), np.float32), "counts": _unwritten(m, k, dtype=np.int32)}


def _bucket_counts(arrays: Arrays, dims: Dims) -> Arrays:
    m, k = dims["m"], dims["k"]
    buckets = np.minimum((arrays["x"] * np.float32(k)).astype(np.int64), k - 1)
    flat = (buckets + k * np.arange(m)[:, None]).ravel()
    return {"counts": np.bincount(flat, minlength=m * k).reshape(m, k).astype(np.int32)}


def _tokens(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, t, d = (dims[dim] for dim in "btd")
    return {
        "tokens": _normal(rng, b, t, d, dtype=np.float16),
        "lengths": rng.integers(t // 4, t + 1, b).astype(np.int32),
        "pooled": _unwritten(b, d, dtype=np.float16),
    }


def _mean_pool(arrays: Arrays, _: Dims) -> Arrays:
    sequences = zip(arrays["tokens"], arrays["lengths"], strict=True)
    return {"pooled": np.stack([tokens[:length].mean(0, np.float64) for tokens, length in sequences])}


def _logits(dims: Dims, rng: np.random.Generator) -> Arrays:
    return {"logits": _normal(rng, dims["m"], dims["n"]), "tokens": _unwritten(dims["m"], dtype=np.int32)}


FAMILIES = [
    _kernel(
        name="column_sums",
        function="column_sums",
        dims=SIZES["column_sums"][0],
        parameters={
            "BLOCK_M": (4, 8, 16, 32, 64),
            "BLOCK_N": (32, 64, 128, 256, 512),
            "SPLITS": (1, 2, 4, 8, 16, 32),
            "num_warps": (1, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_N": 64, "SPLITS": 4, "num_warps": 4},
        conditions=(
            "64 * num_warps <= BLOCK_M * BLOCK_N <= 2048 * num_warps",
            "BLOCK_M * BLOCK_N <= 8192",
            "SPLITS == 1 or SPLITS * BLOCK_M < 2 * m",
        ),
        grid=("ceil(n / BLOCK_N)", "SPLITS"),
        scalars={"M": "m", "N": "n"},
        scratch={"sums": "4 * n", "arrivals": "4 * ceil(n / BLOCK_N)"},
        scratch_types={"sums": "float32", "arrivals": "int32"},
        arrays=_column_sums_arrays,
        outputs=("out",),
        reference=lambda arrays, _: {"out": arrays["x"].sum(axis=0, dtype=np.float64)},
    ),
    _kernel(
        name="row_norms",
        function="row_norms",
        dims=SIZES["row_norms"][0],
        parameters={
            "BLOCK": (64, 256, 512, 1024, 2048, 4096, 8192),
            "WIDE": (0, 1),
            "num_warps": (1, 2, 4, 8, 16),
        },
        defaults={"BLOCK": 1024, "WIDE": 1, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK <= 2048 * num_warps",),
        grid=("m",),
        scalars={"n_cols": "n"},
        arrays=_row_norms_arrays,
        outputs=("l1_ptr", "l2_ptr", "linf_ptr"),
        reference=_row_norms,
    ),
    _kernel(
        name="variance_two_pass",
        function="variance_two_pass",
        dims=SIZES["variance_two_pass"][0],
        parameters={
            "ROWS": (1, 2, 4, 8, 16),
            "BLOCK": (64, 256, 512, 1024, 2048),
            "STAGES": (1, 2, 3),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 1, "BLOCK": 1024, "STAGES": 1, "num_warps": 4},
        conditions=("64 * num_warps <= ROWS * BLOCK <= 2048 * num_warps", "ROWS * BLOCK <= 4096"),
        grid=("ceil(m / ROWS)",),
        scalars={"m": "m", "n": "n"},
        arrays=_two_pass_arrays,
        outputs=("variance",),
        reference=lambda arrays, _: {"variance": arrays["x"].var(axis=1, ddof=1, dtype=np.float64)},
    ),
    _kernel(
        name="variance_welford",
        function="variance_welford",
        dims=SIZES["variance_welford"][0],
        parameters={
            "XBLOCK": (1, 2, 4, 8, 16, 32),
            "RBLOCK": (32, 128, 512, 1024, 2048, 4096),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"XBLOCK": 1, "RBLOCK": 2048, "num_warps": 8},
        conditions=("32 * num_warps <= XBLOCK * RBLOCK <= 1024 * num_warps", "XBLOCK * RBLOCK <= 4096"),
        grid=("ceil(m / XBLOCK)",),
        scalars={"xnumel": "m", "rnumel": "n"},
        arrays=_welford_arrays,
        outputs=("out_mean", "out_var"),
        reference=_welford,
    ),
    _kernel(
        name="column_statistics",
        function="column_statistics",
        dims=SIZES["column_statistics"][0],
        parameters={
            "BLOCK_M": (8, 16, 32, 64, 128),
            "BLOCK_N": (8, 16, 32, 64, 128),
            "DEPTH": (1, 2, 3, 4),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_N": 32, "DEPTH": 2, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_M * BLOCK_N <= 1024 * num_warps", "BLOCK_M * BLOCK_N <= 4096"),
        grid=("ceil(n / BLOCK_N)",),
        scalars={"M": "m", "N": "n"},
        arrays=_column_statistics_arrays,
        outputs=("mean", "std"),
        reference=_column_statistics,
    ),
    _kernel(
        name="segment_sums",
        function="segment_sums",
        dims=SIZES["segment_sums"][0],
        parameters={
            "BLOCK_R": (1, 2, 4, 8, 16, 32),
            "BLOCK_D": (32, 64, 128, 256, 512),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_R": 4, "BLOCK_D": 128, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_R * BLOCK_D <= 2048 * num_warps", "BLOCK_D < 2 * d"),
        grid=("s", "ceil(d / BLOCK_D)"),
        constants={"D": "d"},
        arrays=_segments,
        outputs=("sums",),
        reference=_segment_sums,
    ),
    _kernel(
        name="split_dot",
        function="split_dot",
        dims=SIZES["split_dot"][0],
        parameters={
            "BLOCK": (256, 512, 1024, 2048, 4096, 8192),
            "PROGRAMS": (33, 132, 264, 528, 1056, 2112),
            "UNROLL": (1, 2, 4),
            "num_warps": (2, 4, 8),
        },
        defaults={"BLOCK": 1024, "PROGRAMS": 528, "UNROLL": 1, "num_warps": 4},
        conditions=("64 * num_warps <= BLOCK <= 1024 * num_warps", "BLOCK * UNROLL <= 16384"),
        grid=("PROGRAMS",),
        scalars={"n": "n"},
        scratch={"total": "4", "arrivals": "4"},
        scratch_types={"total": "float32", "arrivals": "int32"},
        arrays=_vectors,
        outputs=("out",),
        reference=_dot,
    ),
    _kernel(
        name="any_all",
        function="any_all",
        dims=SIZES["any_all"][0],
        parameters={
            "BLOCK": (128, 512, 1024, 2048, 4096, 8192, 16384),
            "EARLY": (0, 1),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 1024, "EARLY": 0, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK <= 4096 * num_warps",),
        grid=("m",),
        scalars={"n": "n"},
        arrays=_flags,
        outputs=("any_out", "all_out"),
        reference=_any_all,
    ),
    _kernel(
        name="channel_extremes",
        function="channel_extremes",
        dims=SIZES["channel_extremes"][0],
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "SPLITS": (1, 2, 4, 8, 16),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 1024, "SPLITS": 4, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK <= 1024 * num_warps",),
        grid=("SPLITS", "c"),
        scalars={"batch": "b", "channels": "c"},
        constants={"SPACE": "s"},
        arrays=_channels,
        outputs=("lowest", "highest"),
        reference=_channel_extremes,
    ),
    _kernel(
        name="bucket_counts",
        function="bucket_counts",
        dims=SIZES["bucket_counts"][0],
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192),
            "num_warps": (1, 2, 4, 8, 16),
            "num_stages": (1, 2, 3),
        },
        defaults={"BLOCK": 1024, "num_warps": 4, "num_stages": 2},
        conditions=("32 * num_warps <= BLOCK <= 2048 * num_warps",),
        grid=("m",),
        scalars={"n": "n"},
        constants={"BINS": "k"},
        arrays=_bucket_arrays,
        outputs=("counts",),
        reference=_bucket_counts,
    ),
    _kernel(
        name="mean_pool",
        function="mean_pool",
        dims=SIZES["mean_pool"][0],
        parameters={
            "BLOCK_T": (4, 8, 16, 32, 64, 128),
            "BLOCK_D": (16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_T": 32, "BLOCK_D": 64, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_T * BLOCK_D <= 2048 * num_warps", "BLOCK_T * BLOCK_D <= 8192"),
        grid=("ceil(d / BLOCK_D)", "b"),
        scalars={"T": "t", "D": "d"},
        arrays=_tokens,
        outputs=("pooled",),
        reference=_mean_pool,
    ),
    _kernel(
        name="argmax_split",
        function="argmax_split",
        dims=SIZES["argmax_split"][0],
        parameters={
            "BLOCK": (256, 512, 1024, 2048, 4096),
            "SPLITS": (1, 4, 8, 16, 32, 64),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 1024, "SPLITS": 16, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK <= 1024 * num_warps",),
        grid=("SPLITS", "m"),
        scalars={"N": "n"},
        scratch={"part_values": "4 * m * SPLITS", "part_places": "4 * m * SPLITS", "arrivals": "4 * m"},
        scratch_types={"part_values": "float32", "part_places": "int32", "arrivals": "int32"},
        arrays=_logits,
        outputs=("tokens",),
        reference=lambda arrays, _: {"tokens": arrays["logits"].argmax(axis=1).astype(np.int32)},
    ),
]
