"""Kernels that compute each element from the elements at its place."""

from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "gelu_tanh": ({"n": 4 << 20}, {"n": 2999999}),
    "swiglu_halves": ({"m": 2048, "n": 1408}, {"m": 77, "n": 13825}),
    "bias_dropout_residual": ({"m": 4096, "n": 1024}, {"m": 513, "n": 5001}),
    "horner_polynomial": ({"n": 1 << 22}, {"n": 1234567}),
    "lambert_w": ({"n": 1 << 20}, {"n": 300007}),
    "morton_codes": ({"n": 1 << 21}, {"n": 1500001}),
    "shared_exponent_quantise": ({"n": 1 << 17}, {"n": 50021}),
    "dequantise_int4": ({"m": 2048, "k": 4096}, {"m": 999, "k": 2944}),
    "complex_multiply": ({"n": 1 << 21}, {"n": 700001}),
    "select_and_clamp": ({"m": 1024, "n": 4096}, {"m": 3001, "n": 528}),
    "scale_rows_shift_columns": ({"m": 2048, "n": 2048}, {"m": 257, "n": 9999}),
    "weighted_sum_of_six": ({"n": 1 << 21}, {"n": 1000003}),
}


def family(name: str, **told: Any) -> TritonFamily:
    """One of the kernels in ``kernel.py``, at the first of its sizes unless others are asked for."""
    kernel = Path(__file__).with_name("kernel.py")
    return TritonFamily(name=name, kernel=kernel, function=name, dims=SIZES[name][0], **told)


def empty(shape, dtype=np.float32):
    """An output that nobody has written."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def normal(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape, np.float32).astype(dtype)


def gelu_tanh(arrays, dims):
    x = arrays["x"].astype(np.float64)
    return {"out": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))}


def swiglu_halves(arrays, dims):
    gate, up = np.split(arrays["x_ptr"].astype(np.float64), 2, axis=1)
    return {"y_ptr": gate / (1 + np.exp(-gate)) * up}


SEED = 12345


def bias_dropout_residual(arrays, dims):
    word = np.arange(dims["m"] * dims["n"], dtype=np.uint32) ^ np.uint32(SEED)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        word = (word ^ (word >> np.uint32(shift))) * np.uint32(factor)
    kept = word.reshape(dims["m"], dims["n"]) >= 1 << 30
    value = arrays["x"].astype(np.float64) + arrays["bias"]
    return {"out": np.where(kept, value * 4 / 3, 0) + arrays["residual"]}


DEGREE = 11


def horner_polynomial(arrays, dims):
    return {"out": np.polyval(arrays["coefficients"].astype(np.float64), arrays["x"].astype(np.float64))}


def lambert_w(arrays, dims):
    """By interpolation in a table of ``w exp(w)``: its distances are squared in the error."""
    w = np.linspace(0, 8, 1 << 20)
    return {"w": np.interp(arrays["x"].astype(np.float64), w * np.exp(w), w)}


def morton_codes(arrays, dims):
    codes = np.zeros(dims["n"], np.int32)
    ones = np.zeros(dims["n"], np.int8)
    for bit in range(15):
        column, row = ((arrays[name] >> bit) & 1 for name in ("columns", "rows"))
        codes |= (column << (2 * bit)) | (row << (2 * bit + 1))
        ones += (column + row).astype(np.int8)
    return {"codes": codes, "ones": ones}


GROUP = 32


def shared_exponent_quantise(arrays, dims):
    x = arrays["x"].astype(np.float64)
    exponents = np.frexp(np.abs(x).max(axis=1))[1] - 1
    codes = np.floor(x * 2.0 ** (6 - exponents)[:, None] + 0.5)
    return {"codes": np.clip(codes, -127, 127).astype(np.int8), "exponents": exponents.astype(np.int8)}


def dequantise_int4(arrays, dims):
    codes = np.stack([arrays["packed"] & 15, arrays["packed"] >> 4], axis=-1)
    codes = codes.reshape(dims["m"], -1, GROUP).astype(np.float64)
    scales, zeros = (arrays[name].astype(np.float64)[..., None] for name in ("scales", "zeros"))
    return {"out": ((codes - zeros) * scales).reshape(dims["m"], dims["k"])}


def complex_multiply(arrays, dims):
    a, b = (arrays[name].view(np.complex64).astype(np.complex128) for name in "ab")
    return {"out": (a * b).view(np.float64)}


def select_and_clamp(arrays, dims):
    chosen = np.choose(arrays["choice"], [arrays[name] for name in "abc"])
    return {"out": 2.0 * np.clip(chosen.astype(np.float64), -1, 1)}


def scale_rows_shift_columns(arrays, dims):
    x = arrays["x"].astype(np.float64)
    return {"out": x * arrays["row_scale"][:, None] + arrays["column_shift"]}


WEIGHTS = {"a": 0.5, "b": -0.25, "c": 0.125, "d": 2.0, "e": 1.5, "f": -0.75}


def weighted_sum_of_six(arrays, dims):
    return {"out": sum(weight * arrays[name].astype(np.float64) for name, weight in WEIGHTS.items())}


FAMILIES = [
    family(
        "gelu_tanh",
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192),
            "ITEMS": (1, 2, 4),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 1024, "ITEMS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 2048 * num_warps"),
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {"x": normal(rng, dims["n"]), "out": empty(dims["n"], np.float16)},
        outputs=("out",),
        reference=gelu_tanh,
    ),
    family(
        "swiglu_halves",
        parameters={
            "BLOCK_M": (1, 2, 8, 32),
            "BLOCK_N": (32, 128, 512, 2048),
            "COLUMNS_FIRST": (0, 1),
            "num_warps": (1, 4, 8),
        },
        defaults={"BLOCK_M": 1, "BLOCK_N": 512, "COLUMNS_FIRST": 1, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_M * BLOCK_N", "BLOCK_M * BLOCK_N <= 2048 * num_warps"),
        grid=(
            "ceil(n / BLOCK_N) if COLUMNS_FIRST else ceil(m / BLOCK_M)",
            "ceil(m / BLOCK_M) if COLUMNS_FIRST else ceil(n / BLOCK_N)",
        ),
        scalars={"M": "m", "N": "n"},
        arrays=lambda dims, rng: {
            "x_ptr": normal(rng, dims["m"], 2 * dims["n"]),
            "y_ptr": empty((dims["m"], dims["n"]), np.float16),
        },
        outputs=("y_ptr",),
        reference=swiglu_halves,
    ),
    family(
        "bias_dropout_residual",
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
            "ROWS": (1, 4, 16),
            "num_warps": (1, 2, 4, 8, 16),
        },
        defaults={"BLOCK": 1024, "ROWS": 1, "num_warps": 4},
        conditions=("BLOCK >= 16 * num_warps", "BLOCK < 4 * n"),
        grid=("ceil(n / BLOCK)", "ceil(m / ROWS)"),
        scalars={"rows": "m", "seed": SEED},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["n"]),
            "bias": normal(rng, dims["n"]),
            "residual": normal(rng, dims["m"], dims["n"]),
            "out": empty((dims["m"], dims["n"]), np.float16),
        },
        outputs=("out",),
        reference=bias_dropout_residual,
    ),
    family(
        "horner_polynomial",
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "PROGRAMS": (66, 132, 264, 528, 1056, 2112),
            "num_warps": (1, 4, 8),
        },
        defaults={"BLOCK": 1024, "PROGRAMS": 528, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps",),
        grid=("min(PROGRAMS, ceil(n / BLOCK))",),
        scalars={"n": "n"},
        constants={"DEGREE": DEGREE},
        arrays=lambda dims, rng: {
            "x": rng.uniform(-1, 1, dims["n"]).astype(np.float32),
            "coefficients": normal(rng, DEGREE + 1, dtype=np.float32),
            "out": empty(dims["n"]),
        },
        outputs=("out",),
        reference=horner_polynomial,
    ),
    family(
        "lambert_w",
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048, 4096),
            "UNROLL": (1, 2, 4),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 256, "UNROLL": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n"},
        constants={"STEPS": 12},
        arrays=lambda dims, rng: {
            "x": rng.uniform(0, 1000, dims["n"]).astype(np.float32),
            "w": empty(dims["n"]),
        },
        outputs=("w",),
        reference=lambert_w,
    ),
    family(
        "morton_codes",
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "PARTS": (1, 2, 4, 8),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 512, "PARTS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 2048 * num_warps"),
        grid=("ceil(n / (BLOCK * PARTS))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            "rows": rng.integers(0, 1 << 15, dims["n"], np.int32),
            "columns": rng.integers(0, 1 << 15, dims["n"], np.int32),
            "codes": empty(dims["n"], np.int32),
            "ones": empty(dims["n"], np.int8),
        },
        outputs=("codes", "ones"),
        reference=morton_codes,
    ),
    family(
        "shared_exponent_quantise",
        parameters={"ROWS": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), "num_warps": (1, 2, 4, 8, 16)},
        defaults={"ROWS": 32, "num_warps": 4},
        conditions=("ROWS >= num_warps / 4",),
        grid=("ceil(n / ROWS)",),
        scalars={"groups": "n"},
        constants={"GROUP": GROUP},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["n"], GROUP)
            * 2.0 ** rng.integers(-6, 6, (dims["n"], 1)).astype(np.float16),
            "codes": empty((dims["n"], GROUP), np.int8),
            "exponents": empty(dims["n"], np.int8),
        },
        outputs=("codes", "exponents"),
        reference=shared_exponent_quantise,
    ),
    family(
        "dequantise_int4",
        parameters={
            "BM": (1, 4, 16, 64),
            "BK": (32, 64, 128, 256, 512, 1024),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BM": 4, "BK": 256, "num_warps": 4},
        conditions=("BM * BK >= 64 * num_warps", "BM * BK <= 4096 * num_warps"),
        grid=("ceil(m / BM)", "ceil(k / BK)"),
        scalars={"M": "m"},
        constants={"K": "k", "GROUP": GROUP},
        arrays=lambda dims, rng: {
            "packed": rng.integers(0, 256, (dims["m"], dims["k"] // 2), np.uint8),
            "scales": rng.uniform(0.5, 1.5, (dims["m"], dims["k"] // GROUP)).astype(np.float16),
            "zeros": rng.integers(4, 12, (dims["m"], dims["k"] // GROUP)).astype(np.float16),
            "out": empty((dims["m"], dims["k"]), np.float16),
        },
        outputs=("out",),
        reference=dequantise_int4,
    ),
    family(
        "complex_multiply",
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048),
            "PAIRS": (0, 1),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 512, "PAIRS": 0, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            "a": normal(rng, 2 * dims["n"], dtype=np.float32),
            "b": normal(rng, 2 * dims["n"], dtype=np.float32),
            "out": empty(2 * dims["n"]),
        },
        outputs=("out",),
        reference=complex_multiply,
    ),
    family(
        "select_and_clamp",
        parameters={
            "BLOCK_M": (1, 4, 16, 64, 256),
            "BLOCK_N": (16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_M": 4, "BLOCK_N": 256, "num_warps": 4},
        conditions=("BLOCK_M * BLOCK_N >= 32 * num_warps", "BLOCK_M * BLOCK_N <= 2048 * num_warps"),
        grid=("ceil(n / BLOCK_N)", "ceil(m / BLOCK_M)"),
        scalars={"M": "m", "N": "n"},
        arrays=lambda dims, rng: {
            "choice": rng.integers(0, 3, (dims["m"], dims["n"]), np.int8),
            **{name: normal(rng, dims["m"], dims["n"]) for name in "abc"},
            "out": empty((dims["m"], dims["n"]), np.float16),
        },
        outputs=("out",),
        reference=select_and_clamp,
    ),
    family(
        "scale_rows_shift_columns",
        parameters={
            "BM": (1, 8, 32, 128),
            "BN": (16, 64, 256, 1024),
            "GROUP": (1, 8),
            "num_warps": (2, 4, 8),
        },
        defaults={"BM": 8, "BN": 256, "GROUP": 8, "num_warps": 4},
        conditions=("BM * BN >= 32 * num_warps", "BM * BN <= 2048 * num_warps", "BM * (GROUP - 1) < m"),
        grid=("ceil(m / BM) * ceil(n / BN)",),
        scalars={"M": "m", "N": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["n"], dtype=np.float32),
            "row_scale": normal(rng, dims["m"], dtype=np.float32),
            "column_shift": normal(rng, dims["n"], dtype=np.float32),
            "out": empty((dims["m"], dims["n"])),
        },
        outputs=("out",),
        reference=scale_rows_shift_columns,
    ),
    family(
        "weighted_sum_of_six",
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048),
            "CHUNK": (1, 2, 8, 32),
            "STAGES": (1, 3),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 512, "CHUNK": 1, "STAGES": 1, "num_warps": 4},
        conditions=(
            "BLOCK >= 32 * num_warps",
            "BLOCK <= 1024 * num_warps",
            "STAGES <= CHUNK",
            "BLOCK * CHUNK <= 32768",
        ),
        grid=("ceil(n / (BLOCK * CHUNK))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            **{name: normal(rng, dims["n"]) for name in WEIGHTS},
            "out": empty(dims["n"], np.float16),
        },
        outputs=("out",),
        reference=weighted_sum_of_six,
    ),
]
