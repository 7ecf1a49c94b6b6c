"""Products of matrices and vectors of many forms and types."""

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
    "int8_weight_product": ({"m": 64, "n": 4096, "k": 4096}, {"m": 200, "n": 1032, "k": 3003}),
    "int4_weight_product": (
        {"m": 32, "n": 4096, "k": 4096, "g": 128},
        {"m": 100, "n": 1500, "k": 2048, "g": 64},
    ),
    "int8_product": ({"m": 1024, "n": 1024, "k": 1024}, {"m": 300, "n": 1500, "k": 1040}),
    "gemv": ({"n": 6144, "k": 4096}, {"n": 5001, "k": 2999}),
    "gemv_of_columns": ({"k": 4096, "n": 4096}, {"k": 7001, "n": 1000}),
    "thin_product": ({"m": 4, "n": 4096, "k": 4096}, {"m": 8, "n": 1501, "k": 2999}),
    "split_k_product": ({"m": 64, "n": 1024, "k": 8192}, {"m": 100, "n": 520, "k": 5000}),
    "stream_k_product": ({"m": 1152, "n": 1152, "k": 1024}, {"m": 500, "n": 1000, "k": 1544}),
    "batched_small_product": ({"b": 4096, "s": 32}, {"b": 1001, "s": 50}),
    "outer_products": ({"b": 64, "m": 512, "n": 512}, {"b": 7, "m": 999, "n": 1501}),
    "triangular_product": ({"m": 2048, "n": 512}, {"m": 1000, "n": 1000}),
    "product_residual_relu": ({"m": 1024, "n": 1024, "k": 1024}, {"m": 520, "n": 1544, "k": 776}),
    "transposed_product": ({"k": 8192, "m": 384, "n": 384}, {"k": 5001, "m": 392, "n": 264}),
    "gram_matrix": ({"n": 2048, "k": 512}, {"n": 1000, "k": 777}),
    "low_rank_product": (
        {"m": 4096, "n": 1024, "k": 1024, "r": 32},
        {"m": 1000, "n": 3000, "k": 1500, "r": 16},
    ),
    "complex_product": ({"m": 768, "n": 512, "k": 512}, {"m": 300, "n": 1000, "k": 700}),
}
# Sizes that Triton's interpreter is quick at.
SMALL = {
    "int8_weight_product": {"m": 20, "n": 70, "k": 90},
    "int4_weight_product": {"m": 20, "n": 70, "k": 256, "g": 128},
    "int8_product": {"m": 70, "n": 70, "k": 100},
    "gemv": {"n": 7, "k": 700},
    "gemv_of_columns": {"k": 150, "n": 70},
    "thin_product": {"m": 4, "n": 37, "k": 300},
    "split_k_product": {"m": 40, "n": 70, "k": 300},
    "stream_k_product": {"m": 150, "n": 150, "k": 200},
    "batched_small_product": {"b": 13, "s": 20},
    "outer_products": {"b": 2, "m": 37, "n": 70},
    "triangular_product": {"m": 150, "n": 70},
    "product_residual_relu": {"m": 70, "n": 72, "k": 104},
    "transposed_product": {"k": 300, "m": 40, "n": 70},
    "gram_matrix": {"n": 150, "k": 77},
    "low_rank_product": {"m": 40, "n": 150, "k": 90, "r": 16},
    "complex_product": {"m": 40, "n": 70, "k": 90},
}

_kernel = partial(TritonFamily, kernel=Path(__file__).with_name("kernel.py"))
_TILE = (16, 32, 64, 128)


def _fits(m: str, n: str, k: str, *, element_bytes: int = 2) -> tuple[str, str]:
    """Sums stay in registers, and a few blocks of both operands in shared memory."""
    return (
        f"512 * num_warps <= {m} * {n} <= 4096 * num_warps",
        f"{element_bytes} * ({m} + {n}) * {k} * num_stages <= 160 * 1024",
    )


def _normal(rng: np.random.Generator, *shape: int, scale: float = 1.0, dtype: Any = np.float16) -> Array:
    return (np.float32(scale) * rng.standard_normal(shape, np.float32)).astype(dtype)


def _codes(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-127, 128, shape, np.int8)


def _unwritten(*shape: int, dtype: Any = np.float16) -> Array:
    return np.full(shape, np.nan, dtype)


def _factors(names: str, shape: str, other: str, out: str, dtype: Any = np.float16) -> Any:
    """What makes the arrays of a product: two factors of these dims, and what nobody has written.

    Args:
        names: Names of the three arrays.
        shape: Dims of the first factor, in letters.
        other: Those of the second, whose numbers are small enough for sums over k to be of order 1.
        out: Those of the product.
        dtype: Type of the product.
    """
    first, second, product = names.split()

    def arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
        left, right, result = ([dims[dim] for dim in letters] for letters in (shape, other, out))
        return {
            first: _normal(rng, *left),
            second: _normal(rng, *right, scale=dims["k"] ** -0.5),
            product: _unwritten(*result, dtype=dtype),
        }

    return arrays


def _wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


def _int8_weight_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n, k = (dims[dim] for dim in "mnk")
    scales = (0.5 + rng.random(n, np.float32)) / np.float32(64.0 * k**0.5)
    return {
        "a_ptr": _normal(rng, m, k),
        "w_ptr": _codes(rng, k, n),
        "scale_ptr": scales,
        "c_ptr": _unwritten(m, n),
    }


def _int8_weight(arrays: Arrays, _: Dims) -> Arrays:
    a, w, scale = _wide(arrays["a_ptr"], arrays["w_ptr"], arrays["scale_ptr"])
    return {"c_ptr": a @ w * scale}


def _int4_weight_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n, k, g = (dims[dim] for dim in "mnkg")
    words = rng.integers(-(2**31), 2**31, (k // 8, n), np.int64).astype(np.int32)
    scales = (0.5 + rng.random((k // g, n), np.float32)) / np.float32(4.0 * k**0.5)
    return {
        "x": _normal(rng, m, k),
        "packed": words,
        "scales": scales.astype(np.float16),
        "y": _unwritten(m, n),
    }


def _int4_weight(arrays: Arrays, dims: Dims) -> Arrays:
    packed = arrays["packed"]
    weights = np.empty((dims["k"], dims["n"]), np.float32)
    for place in range(8):
        weights[place::8] = ((packed >> 4 * place) & 15) - 8
    weights *= np.repeat(arrays["scales"], dims["g"], axis=0)
    return {"y": arrays["x"].astype(np.float32) @ weights}


def _int8_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n, k = (dims[dim] for dim in "mnk")
    return {
        "A": _codes(rng, m, k),
        "B": _codes(rng, n, k),
        "row_scale": 0.5 + rng.random(m, np.float32),
        "column_scale": (0.5 + rng.random(n, np.float32)) / np.float32(4096.0 * k**0.5),
        "C": _unwritten(m, n),
    }


def _int8(arrays: Arrays, _: Dims) -> Arrays:
    a, b, rows, columns = _wide(*(arrays[name] for name in ("A", "B", "row_scale", "column_scale")))
    return {"C": a @ b.T * rows[:, None] * columns}


def _small_squares(dims: Dims, rng: np.random.Generator) -> Arrays:
    shape = (dims["b"], dims["s"], dims["s"])
    factors = {name: _normal(rng, *shape, dtype=np.float32) for name in "AB"}
    return {**factors, "C": _unwritten(*shape, dtype=np.float32)}


def _small_products(arrays: Arrays, _: Dims) -> Arrays:
    a, b = _wide(arrays["A"], arrays["B"])
    return {"C": a @ b}


def _outer_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, m, n = (dims[dim] for dim in "bmn")
    return {"u": _normal(rng, b, m), "v": _normal(rng, b, n), "out": _unwritten(b, m, n)}


def _outer(arrays: Arrays, _: Dims) -> Arrays:
    u, v = _wide(arrays["u"], arrays["v"])
    return {"out": u[:, :, None] * v[:, None, :]}


def _triangular_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    """A whole matrix, whose upper triangle is not to be read."""
    m, n = dims["m"], dims["n"]
    return {"lower": _normal(rng, m, m), "b": _normal(rng, m, n, scale=m**-0.5), "c": _unwritten(m, n)}


def _triangular(arrays: Arrays, _: Dims) -> Arrays:
    lower, b = _wide(np.tril(arrays["lower"]), arrays["b"])
    return {"c": lower @ b}


def _residual_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    factors = _factors("a_ptr b_ptr c_ptr", "mk", "kn", "mn")(dims, rng)
    return {**factors, "residual_ptr": _normal(rng, dims["m"], dims["n"])}


def _residual(arrays: Arrays, _: Dims) -> Arrays:
    a, b, residual = _wide(arrays["a_ptr"], arrays["b_ptr"], arrays["residual_ptr"])
    return {"c_ptr": np.maximum(a @ b + residual, 0.0)}


def _product(arrays: Arrays, _: Dims) -> Arrays:
    a, b = _wide(arrays["a"], arrays["b"])
    return {"c": a @ b}


def _gemv(arrays: Arrays, _: Dims) -> Arrays:
    return {"out": arrays["matrix"].astype(np.float32) @ arrays["vector"].astype(np.float32)}


def _gemv_of_columns(arrays: Arrays, _: Dims) -> Arrays:
    x, w = _wide(arrays["x"], arrays["w"])
    return {"y": x @ w}


def _thin(arrays: Arrays, _: Dims) -> Arrays:
    a, b = _wide(arrays["a"], arrays["b"])
    return {"c": a @ b.T}


def _transposed(arrays: Arrays, _: Dims) -> Arrays:
    x, dy = _wide(arrays["x"], arrays["dy"])
    return {"dw": x.T @ dy}


def _gram_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    n, k = dims["n"], dims["k"]
    return {"x": _normal(rng, n, k), "gram": _unwritten(n, n, dtype=np.float32)}


def _gram(arrays: Arrays, _: Dims) -> Arrays:
    x = arrays["x"].astype(np.float64)
    return {"gram": x @ x.T}


def _low_rank_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n, k, r = (dims[dim] for dim in "mnkr")
    return {
        "x": _normal(rng, m, k),
        "down": _normal(rng, k, r, scale=k**-0.5),
        "up": _normal(rng, r, n, scale=r**-0.5),
        "y": _unwritten(m, n),
    }


def _low_rank(arrays: Arrays, _: Dims) -> Arrays:
    x, down, up = _wide(arrays["x"], arrays["down"], arrays["up"])
    return {"y": x @ down @ up}


def _complex_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, n, k = (dims[dim] for dim in "mnk")
    a = {name: _normal(rng, m, k) for name in ("ar", "ai")}
    b = {name: _normal(rng, k, n, scale=k**-0.5) for name in ("br", "bi")}
    return {**a, **b, "cr": _unwritten(m, n), "ci": _unwritten(m, n)}


def _complex(arrays: Arrays, _: Dims) -> Arrays:
    ar, ai, br, bi = _wide(*(arrays[name] for name in ("ar", "ai", "br", "bi")))
    product = (ar + 1j * ai) @ (br + 1j * bi)
    return {"cr": product.real, "ci": product.imag}


FAMILIES = [
    _kernel(
        name="int8_weight_product",
        function="int8_weight_product",
        dims=SIZES["int8_weight_product"][0],
        parameters={
            "BLOCK_SIZE_M": (16, 32, 64, 128),
            "BLOCK_SIZE_N": (32, 64, 128, 256),
            "BLOCK_SIZE_K": (32, 64, 128),
            "GROUP_SIZE_M": (1, 8),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={
            "BLOCK_SIZE_M": 64,
            "BLOCK_SIZE_N": 64,
            "BLOCK_SIZE_K": 64,
            "GROUP_SIZE_M": 8,
            "num_warps": 4,
            "num_stages": 3,
        },
        conditions=(*_fits("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K"), "BLOCK_SIZE_M < 2 * m"),
        grid=("ceil(m / BLOCK_SIZE_M) * ceil(n / BLOCK_SIZE_N)",),
        scalars={"M": "m", "N": "n", "K": "k"},
        arrays=_int8_weight_arrays,
        outputs=("c_ptr",),
        reference=_int8_weight,
    ),
    _kernel(
        name="int4_weight_product",
        function="int4_weight_product",
        dims=SIZES["int4_weight_product"][0],
        parameters={
            "BM": (16, 32, 64),
            "BN": (32, 64, 128, 256),
            "BK": (32, 64, 128),
            "num_warps": (2, 4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={"BM": 32, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 3},
        conditions=(*_fits("BM", "BN", "BK", element_bytes=4), "g % BK == 0", "BM < 2 * m", "k % g == 0"),
        grid=("ceil(n / BN)", "ceil(m / BM)"),
        scalars={"M": "m", "N": "n"},
        constants={"K": "k", "GROUP": "g"},
        arrays=_int4_weight_arrays,
        outputs=("y",),
        reference=_int4_weight,
    ),
    _kernel(
        name="int8_product",
        function="int8_product",
        dims=SIZES["int8_product"][0],
        parameters={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (32, 64, 128, 256),
            "BLOCK_K": (32, 64, 128),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
        conditions=_fits("BLOCK_M", "BLOCK_N", "BLOCK_K", element_bytes=1),
        grid=("ceil(m / BLOCK_M)", "ceil(n / BLOCK_N)"),
        scalars={"M": "m", "N": "n", "K": "k"},
        arrays=_int8_arrays,
        outputs=("C",),
        reference=_int8,
    ),
    _kernel(
        name="gemv",
        function="gemv",
        dims=SIZES["gemv"][0],
        parameters={
            "ROWS": (1, 2, 4, 8, 16, 32),
            "BLOCK": (64, 128, 256, 512, 1024, 2048, 4096),
            "DEPTH": (1, 2, 4),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 4, "BLOCK": 512, "DEPTH": 1, "num_warps": 4},
        conditions=(
            "64 * num_warps <= ROWS * BLOCK <= 2048 * num_warps",
            "2 * ROWS * BLOCK * DEPTH <= 65536",
        ),
        grid=("ceil(n / ROWS)",),
        scalars={"N": "n", "K": "k"},
        arrays=lambda dims, rng: {
            "matrix": _normal(rng, dims["n"], dims["k"]),
            "vector": _normal(rng, dims["k"]),
            "out": _unwritten(dims["n"], dtype=np.float32),
        },
        outputs=("out",),
        reference=_gemv,
    ),
    _kernel(
        name="gemv_of_columns",
        function="gemv_of_columns",
        dims=SIZES["gemv_of_columns"][0],
        parameters={
            "BLOCK_K": (4, 8, 16, 32, 64),
            "BLOCK_N": (32, 64, 128, 256, 512),
            "SPLITS": (1, 4, 8, 16, 32),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_K": 16, "BLOCK_N": 128, "SPLITS": 8, "num_warps": 4},
        conditions=("64 * num_warps <= BLOCK_K * BLOCK_N <= 2048 * num_warps", "BLOCK_K * BLOCK_N <= 8192"),
        grid=("ceil(n / BLOCK_N)", "SPLITS"),
        scalars={"K": "k", "N": "n"},
        scratch={"sums": "4 * n", "arrivals": "4 * ceil(n / BLOCK_N)"},
        scratch_types={"sums": "float32", "arrivals": "int32"},
        arrays=_factors("x w y", "k", "kn", "n", np.float32),
        outputs=("y",),
        reference=_gemv_of_columns,
    ),
    _kernel(
        name="thin_product",
        function="thin_product",
        dims=SIZES["thin_product"][0],
        parameters={
            "BLOCK_N": (1, 2, 4, 8, 16, 32),
            "BLOCK_K": (32, 64, 128, 256, 512, 1024),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        defaults={"BLOCK_N": 8, "BLOCK_K": 256, "num_warps": 4, "num_stages": 3},
        conditions=(
            "m in [2, 4, 8]",
            "32 * num_warps <= BLOCK_N * BLOCK_K <= 16384 / m",
            "BLOCK_N * BLOCK_K <= 1024 * num_warps",
        ),
        grid=("ceil(n / BLOCK_N)",),
        scalars={"N": "n", "K": "k"},
        constants={"M": "m"},
        arrays=_factors("a b c", "mk", "nk", "mn", np.float32),
        outputs=("c",),
        reference=_thin,
    ),
    _kernel(
        name="split_k_product",
        function="split_k_product",
        dims=SIZES["split_k_product"][0],
        parameters={
            "BLOCK_M": _TILE,
            "BLOCK_N": (32, 64, 128),
            "BLOCK_K": (32, 64, 128),
            "SPLIT_K": (1, 2, 4, 8, 16),
            "num_warps": (2, 4, 8),
            "num_stages": (2, 4),
        },
        defaults={
            "BLOCK_M": 64,
            "BLOCK_N": 64,
            "BLOCK_K": 64,
            "SPLIT_K": 4,
            "num_warps": 4,
            "num_stages": 4,
        },
        conditions=(*_fits("BLOCK_M", "BLOCK_N", "BLOCK_K"), "BLOCK_M < 2 * m"),
        grid=("ceil(m / BLOCK_M) * ceil(n / BLOCK_N)", "SPLIT_K"),
        scalars={"M": "m", "N": "n", "K": "k"},
        scratch={"sums": "4 * m * n", "arrivals": "4 * ceil(m / BLOCK_M) * ceil(n / BLOCK_N)"},
        scratch_types={"sums": "float32", "arrivals": "int32"},
        arrays=_factors("a b c", "mk", "kn", "mn"),
        outputs=("c",),
        reference=_product,
    ),
    _kernel(
        name="stream_k_product",
        function="stream_k_product",
        dims=SIZES["stream_k_product"][0],
        parameters={
            "PROGRAMS": (33, 66, 132, 264, 396),
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (32, 64, 128),
            "BLOCK_K": (32, 64),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={
            "PROGRAMS": 132,
            "BLOCK_M": 128,
            "BLOCK_N": 128,
            "BLOCK_K": 32,
            "num_warps": 8,
            "num_stages": 3,
        },
        conditions=_fits("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        grid=("PROGRAMS",),
        scalars={"M": "m", "N": "n"},
        constants={"K": "k"},
        scratch={"sums": "4 * m * n", "arrivals": "4 * ceil(m / BLOCK_M) * ceil(n / BLOCK_N)"},
        scratch_types={"sums": "float32", "arrivals": "int32"},
        arrays=_factors("a b c", "mk", "kn", "mn"),
        outputs=("c",),
        reference=_product,
    ),
    _kernel(
        name="batched_small_product",
        function="batched_small_product",
        dims=SIZES["batched_small_product"][0],
        parameters={
            "WIDTH": (16, 32, 64),
            "PER_PROGRAM": (1, 2, 4, 8, 16),
            "TF32": (0, 1),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        defaults={"PER_PROGRAM": 1, "TF32": 1, "num_warps": 2, "num_stages": 1},
        conditions=(
            "s <= WIDTH",
            "WIDTH == 16 or WIDTH < 2 * s",
            "num_stages == 1 or PER_PROGRAM > 1",
            "TF32 == 1 or WIDTH * WIDTH <= 512 * num_warps",
        ),
        grid=("ceil(b / PER_PROGRAM)",),
        scalars={"batch": "b"},
        constants={"S": "s"},
        arrays=_small_squares,
        outputs=("C",),
        reference=_small_products,
        tolerance=2e-3,  # factors are rounded to ten bits
    ),
    _kernel(
        name="outer_products",
        function="outer_products",
        dims=SIZES["outer_products"][0],
        parameters={
            "BLOCK_M": (1, 4, 8, 16, 32, 64, 128),
            "BLOCK_N": (8, 32, 64, 128, 256, 512),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_M": 32, "BLOCK_N": 64, "num_warps": 4},
        conditions=("32 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps", "BLOCK_M * BLOCK_N <= 16384"),
        grid=("ceil(n / BLOCK_N)", "ceil(m / BLOCK_M)", "b"),
        scalars={"M": "m", "N": "n"},
        arrays=_outer_arrays,
        outputs=("out",),
        reference=_outer,
    ),
    _kernel(
        name="triangular_product",
        function="triangular_product",
        dims=SIZES["triangular_product"][0],
        parameters={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (32, 64, 128),
            "BLOCK_K": (32, 64, 128),
            "LONGEST_FIRST": (0, 1),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={
            "BLOCK_M": 64,
            "BLOCK_N": 64,
            "BLOCK_K": 32,
            "LONGEST_FIRST": 0,
            "num_warps": 4,
            "num_stages": 3,
        },
        conditions=_fits("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        grid=("ceil(n / BLOCK_N)", "ceil(m / BLOCK_M)"),
        scalars={"M": "m", "N": "n"},
        arrays=_triangular_arrays,
        outputs=("c",),
        reference=_triangular,
    ),
    _kernel(
        name="product_residual_relu",
        function="product_residual_relu",
        dims=SIZES["product_residual_relu"][0],
        parameters={
            "BLOCK_M": (64, 128),
            "BLOCK_N": (32, 64, 128, 256),
            "BLOCK_K": (32, 64, 128),
            "GROUP_M": (1, 4, 8),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={
            "BLOCK_M": 128,
            "BLOCK_N": 128,
            "BLOCK_K": 64,
            "GROUP_M": 8,
            "num_warps": 8,
            "num_stages": 3,
        },
        conditions=(
            *_fits("BLOCK_M", "BLOCK_N", "BLOCK_K"),
            # The residual and the result pass through shared memory, too.
            "2 * (BLOCK_M + BLOCK_N) * BLOCK_K * num_stages + 4 * BLOCK_M * BLOCK_N <= 200 * 1024",
        ),
        grid=("ceil(m / BLOCK_M) * ceil(n / BLOCK_N)",),
        scalars={"M": "m", "N": "n", "K": "k"},
        arrays=_residual_arrays,
        outputs=("c_ptr",),
        reference=_residual,
    ),
    _kernel(
        name="transposed_product",
        function="transposed_product",
        dims=SIZES["transposed_product"][0],
        parameters={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (32, 64, 128),
            "BLOCK_K": (32, 64),
            "SPLITS": (1, 2, 4, 8, 16),
            "num_warps": (4, 8),
            "num_stages": (2, 3),
        },
        defaults={
            "BLOCK_M": 64,
            "BLOCK_N": 64,
            "BLOCK_K": 64,
            "SPLITS": 4,
            "num_warps": 4,
            "num_stages": 3,
        },
        conditions=_fits("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        grid=("ceil(m / BLOCK_M)", "ceil(n / BLOCK_N)", "SPLITS"),
        scalars={"K": "k", "M": "m", "N": "n"},
        scratch={
            "sums": "4 * m * n if SPLITS > 1 else 0",
            "arrivals": "4 * ceil(m / BLOCK_M) * ceil(n / BLOCK_N)",
        },
        scratch_types={"sums": "float32", "arrivals": "int32"},
        arrays=_factors("x dy dw", "km", "kn", "mn"),
        outputs=("dw",),
        reference=_transposed,
    ),
    _kernel(
        name="gram_matrix",
        function="gram_matrix",
        dims=SIZES["gram_matrix"][0],
        parameters={
            "BLOCK": (16, 32, 64, 128),
            "BLOCK_K": (16, 32, 64, 128),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3, 4),
        },
        defaults={"BLOCK": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
        conditions=(
            "128 * num_warps <= BLOCK * BLOCK <= 4096 * num_warps",
            "BLOCK * BLOCK_K * num_stages <= 32768",
        ),
        grid=("ceil(n / BLOCK) * (ceil(n / BLOCK) + 1) / 2",),
        scalars={"N": "n", "K": "k"},
        arrays=_gram_arrays,
        outputs=("gram",),
        reference=_gram,
    ),
    _kernel(
        name="low_rank_product",
        function="low_rank_product",
        dims=SIZES["low_rank_product"][0],
        parameters={
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_N": (32, 64, 128, 256),
            "BLOCK_K": (32, 64, 128),
            "SHARES": (1, 2, 4),
            "num_warps": (2, 4, 8),
            "num_stages": (2, 3),
        },
        defaults={
            "BLOCK_M": 64,
            "BLOCK_N": 128,
            "BLOCK_K": 64,
            "SHARES": 1,
            "num_warps": 4,
            "num_stages": 3,
        },
        conditions=("r in [16, 32, 64]", *_fits("BLOCK_M", "BLOCK_N", "max(BLOCK_K, r)")),
        grid=("ceil(m / BLOCK_M)", "SHARES"),
        scalars={"M": "m", "N": "n", "K": "k"},
        constants={"R": "r"},
        arrays=_low_rank_arrays,
        outputs=("y",),
        reference=_low_rank,
    ),
    _kernel(
        name="complex_product",
        function="complex_product",
        dims=SIZES["complex_product"][0],
        parameters={
            "BM": (16, 32, 64, 128),
            "BN": (32, 64, 128),
            "BK": (16, 32, 64),
            "THREE": (0, 1),
            "num_warps": (4, 8),
            "num_stages": (2, 3),
        },
        defaults={"BM": 64, "BN": 64, "BK": 32, "THREE": 0, "num_warps": 4, "num_stages": 2},
        conditions=(
            "256 * num_warps <= BM * BN <= 1024 * num_warps",
            "4 * (BM + BN) * BK * num_stages <= 160 * 1024",
        ),
        grid=("ceil(n / BN)", "ceil(m / BM)"),
        scalars={"M": "m", "N": "n", "K": "k"},
        arrays=_complex_arrays,
        outputs=("cr", "ci"),
        reference=_complex,
    ),
]
