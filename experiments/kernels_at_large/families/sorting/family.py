"""Kernels that order, rank and search."""

from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "sort_rows": ({"m": 4096, "n": 128}, {"m": 3001, "n": 100}),
    "bitonic_by_hand": ({"m": 4096, "n": 64}, {"m": 1111, "n": 128}),
    "top_k_by_maxima": ({"m": 8192, "n": 256, "k": 8}, {"m": 1001, "n": 999, "k": 5}),
    "top_k_of_packed_keys": ({"m": 1024, "n": 2048, "k": 8}, {"m": 333, "n": 5001, "k": 4}),
    "merge_sorted_rows": ({"m": 64, "n": 4096}, {"m": 501, "n": 777}),
    "rank_by_counting": ({"m": 256, "n": 512}, {"m": 30, "n": 2001}),
    "median_of_rows": ({"m": 8192, "n": 256}, {"m": 2001, "n": 999}),
    "unique_flags": ({"m": 2048, "n": 2048}, {"m": 5001, "n": 555}),
    "digit_histogram": ({"n": 1 << 22}, {"n": 1000003}),
    "digit_ranks": ({"n": 1 << 20}, {"n": 300007}),
    "search_sorted": ({"n": 1 << 20, "e": 4096}, {"n": 700001, "e": 99}),
}


def family(name: str, **told: Any) -> TritonFamily:
    """One of the kernels in ``kernel.py``, at the first of its sizes unless others are asked for."""
    kernel = Path(__file__).with_name("kernel.py")
    return TritonFamily(name=name, kernel=kernel, function=name, dims=SIZES[name][0], **told)


def empty(shape, dtype=np.float32):
    """An output that nobody has written."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def rows(rng, dims):
    """Rows of numbers from 0 to 1, no two of a row alike."""
    m, n = dims["m"], dims["n"]
    return ((rng.permuted(np.tile(np.arange(n), (m, 1)), axis=1) + 0.5) / n).astype(np.float32)


def largest(arrays, dims):
    places = np.argsort(-arrays["x"], axis=1)[:, : dims["k"]]
    return {"values": np.take_along_axis(arrays["x"], places, axis=1), "places": places}


def rank_by_counting(arrays, dims):
    return {"ranks": np.argsort(np.argsort(arrays["x"], axis=1, kind="stable"), axis=1)}


def median_of_rows(arrays, dims):
    middle = (dims["n"] - 1) // 2
    return {"medians": np.partition(arrays["x"], middle, axis=1)[:, middle]}


def unique_flags(arrays, dims):
    flags = np.diff(arrays["x"], axis=1, prepend=-1) != 0
    return {"flags": flags.astype(np.int8), "counts": flags.sum(axis=1).astype(np.int32)}


SHIFT = 8
TILE = 1024


def digits(arrays):
    return arrays["keys"] // 2**SHIFT % 16


def digit_ranks(arrays, dims):
    """By a stable sort of tile and digit: the rank is the distance from where its group starts."""
    group = np.arange(dims["n"]) // TILE * 16 + digits(arrays)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], group[order])
    ranks = np.empty(dims["n"], np.int32)
    ranks[order] = np.arange(dims["n"]) - starts
    return {"ranks": ranks}


WARPS = (1, 2, 4, 8)

FAMILIES = [
    family(
        "sort_rows",
        parameters={"ROWS": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8), "maxnreg": (0, 64, 128)},
        defaults={"ROWS": 4, "num_warps": 4, "maxnreg": 0},
        conditions=("ROWS * n <= 1024 * num_warps", "ROWS * n >= 32 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {"x": rows(rng, dims), "y": empty((dims["m"], dims["n"]))},
        outputs=("y",),
        reference=lambda arrays, dims: {"y": np.sort(arrays["x"], axis=1)},
    ),
    family(
        "bitonic_by_hand",
        parameters={"ROWS": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8), "maxnreg": (0, 64, 128)},
        defaults={"ROWS": 2, "num_warps": 1, "maxnreg": 0},
        conditions=("ROWS * n <= 512 * num_warps", "ROWS * n >= 16 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n", "LOG": "sum([n >= 2 ** i for i in range(1, 12)])"},
        arrays=lambda dims, rng: {
            "x": rng.integers(-1000, 1000, (dims["m"], dims["n"]), np.int32),
            "y": empty((dims["m"], dims["n"]), np.int32),
        },
        outputs=("y",),
        reference=lambda arrays, dims: {"y": np.sort(arrays["x"], axis=1)},
    ),
    family(
        "top_k_by_maxima",
        parameters={"ROWS": (1, 2, 4, 8, 16), "num_warps": WARPS, "maxnreg": (0, 32, 64)},
        defaults={"ROWS": 4, "num_warps": 4, "maxnreg": 0},
        conditions=("ROWS * n <= 2048 * num_warps", "ROWS * n >= 32 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n", "K": "k"},
        arrays=lambda dims, rng: {
            "x": rows(rng, dims),
            "values": empty((dims["m"], dims["k"])),
            "places": empty((dims["m"], dims["k"]), np.int32),
        },
        outputs=("values", "places"),
        reference=largest,
    ),
    family(
        "top_k_of_packed_keys",
        parameters={
            "BLOCK": (64, 128, 256, 512),
            "ROWS": (1, 2, 4, 8),
            "num_warps": WARPS,
        },
        defaults={"BLOCK": 128, "ROWS": 2, "num_warps": 4},
        conditions=("ROWS * BLOCK <= 512 * num_warps", "ROWS * BLOCK >= 32 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m", "N": "n"},
        constants={"K": "k"},
        arrays=lambda dims, rng: {
            "x": rows(rng, dims),
            "values": empty((dims["m"], dims["k"])),
            "places": empty((dims["m"], dims["k"]), np.int32),
        },
        outputs=("values", "places"),
        reference=largest,
    ),
    family(
        "merge_sorted_rows",
        parameters={"BLOCK": (32, 64, 128, 256, 512, 1024), "num_warps": WARPS, "maxnreg": (0, 32)},
        defaults={"BLOCK": 128, "num_warps": 4, "maxnreg": 0},
        conditions=("BLOCK >= 16 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK)", "m"),
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "a": np.sort(rng.integers(0, 5000, (dims["m"], dims["n"])), axis=1).astype(np.float32),
            "b": np.sort(rng.integers(0, 5000, (dims["m"], dims["n"])), axis=1).astype(np.float32),
            "out": empty((dims["m"], 2 * dims["n"])),
        },
        outputs=("out",),
        reference=lambda arrays, dims: {"out": np.sort(np.hstack([arrays["a"], arrays["b"]]), axis=1)},
    ),
    family(
        "rank_by_counting",
        parameters={"BLOCK": (16, 32, 64, 128, 256), "CHUNK": (8, 16, 32, 64, 128), "num_warps": WARPS},
        defaults={"BLOCK": 64, "CHUNK": 32, "num_warps": 4},
        conditions=("BLOCK * CHUNK <= 2048 * num_warps", "BLOCK * CHUNK >= 64 * num_warps"),
        grid=("ceil(n / BLOCK)", "m"),
        scalars={"M": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "x": rng.integers(0, 300, (dims["m"], dims["n"])).astype(np.float32),
            "ranks": empty((dims["m"], dims["n"]), np.int32),
        },
        outputs=("ranks",),
        reference=rank_by_counting,
    ),
    family(
        "median_of_rows",
        parameters={"ROWS": (1, 2, 4, 8, 16), "STEPS": (1, 2, 4), "num_warps": WARPS},
        defaults={"ROWS": 4, "STEPS": 1, "num_warps": 4},
        conditions=("ROWS * n <= 2048 * num_warps", "ROWS * n >= 32 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {"x": rows(rng, dims), "medians": empty(dims["m"])},
        outputs=("medians",),
        reference=median_of_rows,
    ),
    family(
        "unique_flags",
        parameters={"BLOCK": (128, 256, 512, 1024, 2048), "ROWS": (1, 2, 8), "num_warps": WARPS},
        defaults={"BLOCK": 512, "ROWS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "x": np.sort(rng.integers(0, 2000, (dims["m"], dims["n"]), np.int32), axis=1),
            "flags": empty((dims["m"], dims["n"]), np.int8),
            "counts": empty(dims["m"], np.int32),
        },
        outputs=("flags", "counts"),
        reference=unique_flags,
    ),
    family(
        "digit_histogram",
        parameters={"BLOCK": (128, 256, 512, 1024, 2048), "CHUNK": (1, 4, 16, 64), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "CHUNK": 4, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / (BLOCK * CHUNK))",),
        scalars={"n": "n"},
        constants={"SHIFT": SHIFT},
        arrays=lambda dims, rng: {
            "keys": rng.integers(0, 1 << 30, dims["n"], np.int32),
            "counts": np.zeros(16, np.int32),
        },
        outputs=("counts",),
        reference=lambda arrays, dims: {"counts": np.bincount(digits(arrays), minlength=16)},
    ),
    family(
        "digit_ranks",
        parameters={
            "BLOCK": (1, 2, 4, 8),
            "SCAN_ALL": (0, 1),
            "num_warps": WARPS,
            "maxnreg": (0, 64),
        },
        defaults={"BLOCK": 1, "SCAN_ALL": 0, "num_warps": 4, "maxnreg": 0},
        conditions=("BLOCK <= 2 * num_warps",),
        grid=(f"ceil(n / (BLOCK * {TILE}))",),
        scalars={"n": "n"},
        constants={"SHIFT": SHIFT},
        arrays=lambda dims, rng: {
            "keys": rng.integers(0, 1 << 30, dims["n"], np.int32),
            "ranks": empty(dims["n"], np.int32),
        },
        outputs=("ranks",),
        reference=digit_ranks,
    ),
    family(
        "search_sorted",
        parameters={"BLOCK": (64, 128, 256, 512, 1024), "ITEMS": (1, 2, 4), "num_warps": WARPS},
        defaults={"BLOCK": 256, "ITEMS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 512 * num_warps"),
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n", "E": "e"},
        constants={"STEPS": "sum([e >= 2 ** i for i in range(16)])"},
        arrays=lambda dims, rng: {
            "edges": np.sort(rng.uniform(0, 1, dims["e"])).astype(np.float32),
            "x": rng.uniform(0, 1, dims["n"]).astype(np.float32),
            "bins": empty(dims["n"], np.int32),
        },
        outputs=("bins",),
        reference=lambda arrays, dims: {"bins": np.searchsorted(arrays["edges"], arrays["x"], side="right")},
    ),
]
