"""Parts and kinds of attention, forward and backward."""

from collections.abc import Callable, Mapping
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
    "decode_attention": (
        {"b": 4, "h": 16, "s": 1024, "d": 128},
        {"b": 3, "h": 10, "s": 1777, "d": 64},
    ),
    "grouped_query_decode": (
        {"b": 16, "g": 8, "r": 4, "s": 512, "d": 128},
        {"b": 5, "g": 10, "r": 7, "s": 1501, "d": 64},
    ),
    "window_attention": (
        {"h": 16, "s": 1024, "w": 256, "d": 64},
        {"h": 5, "s": 1501, "w": 100, "d": 128},
    ),
    "alibi_attention": ({"h": 16, "s": 1024, "d": 64}, {"h": 5, "s": 1201, "d": 128}),
    "paged_gather": (
        {"b": 8, "s": 1024, "d": 1024, "p": 16},
        {"b": 5, "s": 1777, "d": 520, "p": 24},
    ),
    "paged_decode": (
        {"b": 16, "h": 16, "s": 512, "d": 64, "p": 16},
        {"b": 7, "h": 8, "s": 777, "d": 128, "p": 24},
    ),
    "linear_attention": (
        {"h": 32, "t": 1024, "d": 64, "e": 64},
        {"h": 11, "t": 1501, "d": 64, "e": 128},
    ),
    "relative_scores": ({"h": 8, "s": 1024, "d": 64}, {"h": 5, "s": 777, "d": 128}),
    "capped_scores": ({"h": 12, "q": 1024, "k": 1024, "d": 64}, {"h": 7, "q": 300, "k": 1999, "d": 128}),
    "value_aggregation": (
        {"h": 16, "q": 1024, "k": 1024, "d": 64},
        {"h": 7, "q": 300, "k": 1999, "d": 128},
    ),
    "attention_grad_delta": ({"m": 131072, "d": 64}, {"m": 33333, "d": 128}),
    "attention_grad_query": ({"h": 12, "s": 1024, "d": 64}, {"h": 5, "s": 1001, "d": 128}),
    "attention_grad_key_value": ({"h": 12, "s": 1024, "d": 64}, {"h": 5, "s": 1001, "d": 128}),
}
# Sizes that Triton's interpreter is quick at.
SMALL = {
    "decode_attention": {"b": 2, "h": 2, "s": 150, "d": 32},
    "grouped_query_decode": {"b": 2, "g": 2, "r": 3, "s": 150, "d": 32},
    "window_attention": {"h": 2, "s": 150, "w": 40, "d": 32},
    "alibi_attention": {"h": 2, "s": 150, "d": 32},
    "paged_gather": {"b": 2, "s": 77, "d": 72, "p": 8},
    "paged_decode": {"b": 2, "h": 4, "s": 77, "d": 16, "p": 8},
    "linear_attention": {"h": 2, "t": 150, "d": 32, "e": 32},
    "relative_scores": {"h": 2, "s": 150, "d": 32},
    "capped_scores": {"h": 2, "q": 70, "k": 150, "d": 64},
    "value_aggregation": {"h": 2, "q": 70, "k": 150, "d": 32},
    "attention_grad_delta": {"m": 300, "d": 32},
    "attention_grad_query": {"h": 2, "s": 100, "d": 32},
    "attention_grad_key_value": {"h": 2, "s": 100, "d": 32},
}

_kernel = partial(TritonFamily, kernel=Path(__file__).with_name("kernel.py"))
_SCALE = 0.125  # of all scores, whatever the head's dimension
_TILES = {
    "BLOCK_M": (16, 32, 64, 128),
    "BLOCK_N": (16, 32, 64, 128),
    "num_warps": (1, 2, 4, 8),
    "num_stages": (1, 2, 3, 4),
}
_DEFAULTS = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
_FITS = (
    "256 * num_warps <= BLOCK_M * BLOCK_N",
    "BLOCK_M * (BLOCK_N + d) <= 6144 * num_warps",
    "BLOCK_N * d <= 4096 * num_warps",
    "2 * d * (BLOCK_M + 2 * num_stages * BLOCK_N) <= 200 * 1024",
)


def _normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float16) -> Array:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def _unwritten(*shape: int, dtype: Any = np.float16) -> Array:
    return np.full(shape, np.nan, dtype)


def _wide(arrays: Arrays, *names: str) -> list[Array]:
    return [arrays[name].astype(np.float64) for name in names]


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _lengths(rng: np.random.Generator, b: int, s: int) -> Array:
    return rng.integers(s // 2, s + 1, b).astype(np.int32)


def _decode_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, h, s, d = (dims[dim] for dim in "bhsd")
    return {
        "q": _normal(rng, b, h, d),
        "k": _normal(rng, b, h, s, d),
        "v": _normal(rng, b, h, s, d),
        "lengths": _lengths(rng, b, s),
        "out": _unwritten(b, h, d),
    }


def _decode(arrays: Arrays, dims: Dims) -> Arrays:
    q, k, v = (arrays[name].astype(np.float32) for name in "qkv")
    scores = (k @ q[..., None])[..., 0].astype(np.float64) * _SCALE
    hidden = np.arange(dims["s"]) >= arrays["lengths"][:, None, None]
    weights = _softmax(np.where(hidden, -np.inf, scores)).astype(np.float32)
    return {"out": (weights[:, :, None] @ v)[:, :, 0]}


def _grouped_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, g, r, s, d = (dims[dim] for dim in "bgrsd")
    return {
        "Q": _normal(rng, b, g, r, d),
        "K": _normal(rng, b, g, s, d),
        "V": _normal(rng, b, g, s, d),
        "Out": _unwritten(b, g, r, d),
    }


def _grouped(arrays: Arrays, _: Dims) -> Arrays:
    q, k, v = (arrays[name].astype(np.float32) for name in "QKV")
    return {"Out": _softmax(q @ np.swapaxes(k, 2, 3) * np.float32(_SCALE)) @ v}


def _heads(dims: Dims, rng: np.random.Generator) -> Arrays:
    shape = tuple(dims[dim] for dim in "hsd")
    return {**{name: _normal(rng, *shape) for name in "qkv"}, "out": _unwritten(*shape)}


def _attend(arrays: Arrays, bias: Callable[[int, Array], Array]) -> Array:
    """Attention, head by head, with a bias of a head and the distances from queries to keys."""
    heads = []
    for head, (q, k, v) in enumerate(zip(*_wide(arrays, "q", "k", "v"), strict=True)):
        distance = np.arange(len(k))[None, :] - np.arange(len(q))[:, None]
        heads.append(_softmax(q @ k.T * _SCALE + bias(head, distance)) @ v)
    return np.stack(heads)


def _windowed(arrays: Arrays, dims: Dims) -> Arrays:
    def bias(_: int, distance: Array) -> Array:
        return np.where((distance <= 0) & (distance > -dims["w"]), 0.0, -np.inf)

    return {"out": _attend(arrays, bias)}


def _alibi_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    slopes = np.exp2(-8.0 * np.arange(1, dims["h"] + 1) / dims["h"]).astype(np.float32)
    return {**_heads(dims, rng), "slopes": slopes}


def _alibi(arrays: Arrays, _: Dims) -> Arrays:
    def bias(head: int, distance: Array) -> Array:
        return np.where(distance <= 0, arrays["slopes"][head] * distance, -np.inf)

    return {"out": _attend(arrays, bias)}


def _page_table(dims: Dims, rng: np.random.Generator) -> Array:
    """Pages of each sequence, of all that there are, in any order."""
    b, pages = dims["b"], -(-dims["s"] // dims["p"])
    return rng.permutation(b * pages).astype(np.int32).reshape(b, pages)


def _gather_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, s, d, p = (dims[dim] for dim in "bsdp")
    table = _page_table(dims, rng)
    return {"cache": _normal(rng, table.size, p, d), "table": table, "out": _unwritten(b, s, d)}


def _from_pages(cache: Array, table: Array, s: int) -> Array:
    pages = cache[table]
    return pages.reshape(len(table), -1, *cache.shape[2:])[:, :s]


def _gather(arrays: Arrays, dims: Dims) -> Arrays:
    return {"out": _from_pages(arrays["cache"], arrays["table"], dims["s"])}


def _paged_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    b, h, s, d, p = (dims[dim] for dim in "bhsdp")
    table = _page_table(dims, rng)
    return {
        "q": _normal(rng, b, h, d),
        "k_cache": _normal(rng, table.size, p, h, d),
        "v_cache": _normal(rng, table.size, p, h, d),
        "table": table,
        "lengths": _lengths(rng, b, s),
        "out": _unwritten(b, h, d),
    }


def _paged_decode(arrays: Arrays, dims: Dims) -> Arrays:
    caches = (_from_pages(arrays[name], arrays["table"], dims["s"]) for name in ("k_cache", "v_cache"))
    k, v = (cache.transpose(0, 2, 1, 3) for cache in caches)
    return _decode({"q": arrays["q"], "k": k, "v": v, "lengths": arrays["lengths"]}, dims)


def _linear_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    h, t, d, e = (dims[dim] for dim in "htde")
    queries = (0.125 * _normal(rng, h, t, d)).astype(np.float16)
    return {
        "q": queries,
        "k": _normal(rng, h, t, d),
        "v": _normal(rng, h, t, e),
        "out": _unwritten(h, t, e),
    }


def _linear(arrays: Arrays, _: Dims) -> Arrays:
    heads = zip(*_wide(arrays, "q", "k", "v"), strict=True)
    return {"out": np.stack([np.tril(q @ k.T) @ v for q, k, v in heads])}


def _relative_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    h, s, d = (dims[dim] for dim in "hsd")
    return {
        "q": _normal(rng, h, s, d),
        "k": _normal(rng, h, s, d),
        "relative": _normal(rng, h, s, 2 * s - 1),
        "scores": _unwritten(h, s, s),
    }


def _relative(arrays: Arrays, dims: Dims) -> Arrays:
    s = dims["s"]
    q, k = _wide(arrays, "q", "k")
    distance = np.arange(s)[None, :] - np.arange(s)[:, None] + s - 1
    shifted = np.stack([np.take_along_axis(of_head, distance, axis=1) for of_head in arrays["relative"]])
    return {"scores": (q @ np.swapaxes(k, 1, 2) + shifted) * _SCALE}


def _capped_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    h, q, k, d = (dims[dim] for dim in "hqkd")
    return {"q_ptr": _normal(rng, h, q, d), "k_ptr": _normal(rng, h, k, d), "s_ptr": _unwritten(h, q, k)}


def _capped(arrays: Arrays, _: Dims) -> Arrays:
    q, k = _wide(arrays, "q_ptr", "k_ptr")
    return {"s_ptr": 10.0 * np.tanh(q @ np.swapaxes(k, 1, 2) * _SCALE / 10.0)}


def _aggregation_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    h, q, k, d = (dims[dim] for dim in "hqkd")
    weights = rng.random((h, q, k), np.float32) / np.float32(k**0.5)
    return {"p": weights.astype(np.float16), "v": _normal(rng, h, k, d), "out": _unwritten(h, q, d)}


def _aggregation(arrays: Arrays, _: Dims) -> Arrays:
    p, v = _wide(arrays, "p", "v")
    return {"out": p @ v}


def _delta_arrays(dims: Dims, rng: np.random.Generator) -> Arrays:
    m, d = dims["m"], dims["d"]
    return {"o": _normal(rng, m, d), "do": _normal(rng, m, d), "delta": _unwritten(m, dtype=np.float32)}


def _delta(arrays: Arrays, _: Dims) -> Arrays:
    o, slopes = _wide(arrays, "o", "do")
    return {"delta": (o * slopes).sum(axis=1)}


def _backward_arrays(dims: Dims, rng: np.random.Generator, outputs: tuple[str, ...]) -> Arrays:
    shape = tuple(dims[dim] for dim in "hsd")
    q, k, v, slopes = (_normal(rng, *shape) for _ in range(4))
    scores = q.astype(np.float32) @ np.swapaxes(k, 1, 2).astype(np.float32) * np.float32(_SCALE)
    top = scores.max(axis=2)
    powers = np.exp(scores - top[..., None])
    total = powers.sum(axis=2)
    result = powers @ v.astype(np.float32) / total[..., None]
    return {
        **{"Q": q, "K": k, "V": v, "DO": slopes},
        "LSE": top + np.log(total),
        "DELTA": (result * slopes).sum(axis=2, dtype=np.float32),
        **{name: _unwritten(*shape) for name in outputs},
    }


def _backward(arrays: Arrays, _: Dims) -> Arrays:
    """Gradients by the softmax's own formula, without the sums that the forward pass left."""
    found = []
    for q, k, v, slopes in zip(*_wide(arrays, "Q", "K", "V", "DO"), strict=True):
        p = _softmax(q @ k.T * _SCALE)
        of_weights = slopes @ v.T
        ds = p * (of_weights - (p * of_weights).sum(axis=1, keepdims=True)) * _SCALE
        found.append((ds @ k, ds.T @ q, p.T @ slopes))
    return dict(zip(("DQ", "DK", "DV"), map(np.stack, zip(*found, strict=True)), strict=True))


FAMILIES = [
    _kernel(
        name="decode_attention",
        function="decode_attention",
        dims=SIZES["decode_attention"][0],
        parameters={
            "BLOCK": (8, 16, 32, 64, 128),
            "SPLITS": (1, 2, 4, 8, 16, 32),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK": 32, "SPLITS": 4, "num_warps": 4},
        conditions=("64 * num_warps <= BLOCK * d <= 2048 * num_warps", "SPLITS * BLOCK <= s"),
        grid=("b * h", "SPLITS"),
        scalars={"H": "h", "S": "s", "scale": _SCALE},
        constants={"D": "d"},
        scratch={
            "part_sums": "4 * b * h * SPLITS * d",
            "part_tops": "4 * b * h * SPLITS",
            "part_totals": "4 * b * h * SPLITS",
            "arrivals": "4 * b * h",
        },
        scratch_types={
            "part_sums": "float32",
            "part_tops": "float32",
            "part_totals": "float32",
            "arrivals": "int32",
        },
        arrays=_decode_arrays,
        outputs=("out",),
        reference=_decode,
    ),
    _kernel(
        name="grouped_query_decode",
        function="grouped_query_decode",
        dims=SIZES["grouped_query_decode"][0],
        parameters={
            "BLOCK_N": (16, 32, 64, 128),
            "ROWS": (16, 32),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3, 4),
        },
        defaults={"BLOCK_N": 64, "ROWS": 16, "num_warps": 4, "num_stages": 2},
        conditions=(
            "r <= ROWS",
            "BLOCK_N * d <= 4096 * num_warps",
            "4 * BLOCK_N * d * num_stages <= 160 * 1024",
            "16 * num_warps <= max(BLOCK_N, d)",
        ),
        grid=("b * g",),
        scalars={"S": "s", "sm_scale": _SCALE},
        constants={"R": "r", "D": "d"},
        arrays=_grouped_arrays,
        outputs=("Out",),
        reference=_grouped,
    ),
    _kernel(
        name="window_attention",
        function="window_attention",
        dims=SIZES["window_attention"][0],
        parameters=_TILES,
        defaults=_DEFAULTS,
        conditions=_FITS,
        grid=("ceil(s / BLOCK_M)", "h"),
        scalars={"S": "s", "WINDOW": "w", "scale": _SCALE},
        constants={"D": "d"},
        arrays=_heads,
        outputs=("out",),
        reference=_windowed,
    ),
    _kernel(
        name="alibi_attention",
        function="alibi_attention",
        dims=SIZES["alibi_attention"][0],
        parameters={**_TILES, "HEAVY_FIRST": (0, 1)},
        defaults={**_DEFAULTS, "HEAVY_FIRST": 0},
        conditions=_FITS,
        grid=("ceil(s / BLOCK_M) * h",),
        scalars={"heads": "h", "S": "s", "scale": _SCALE},
        constants={"D": "d"},
        arrays=_alibi_arrays,
        outputs=("out",),
        reference=_alibi,
    ),
    _kernel(
        name="paged_gather",
        function="paged_gather",
        dims=SIZES["paged_gather"][0],
        parameters={
            "ROWS": (1, 2, 4, 8, 16, 32, 64),
            "BLOCK_D": (32, 64, 128, 256, 512, 1024),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 8, "BLOCK_D": 256, "num_warps": 4},
        conditions=("32 * num_warps <= ROWS * BLOCK_D <= 2048 * num_warps", "BLOCK_D < 2 * d"),
        grid=("ceil(d / BLOCK_D)", "ceil(s / ROWS)", "b"),
        scalars={"S": "s", "pages": "ceil(s / p)"},
        constants={"PAGE": "p", "D": "d"},
        arrays=_gather_arrays,
        outputs=("out",),
        reference=_gather,
    ),
    _kernel(
        name="paged_decode",
        function="paged_decode",
        dims=SIZES["paged_decode"][0],
        parameters={
            "BLOCK": (4, 8, 16, 32, 64, 128),
            "HEADS": (1, 2, 4, 8),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 3),
        },
        defaults={"BLOCK": 16, "HEADS": 1, "num_warps": 4, "num_stages": 1},
        conditions=("64 * num_warps <= BLOCK * HEADS * d <= 1024 * num_warps", "h % HEADS == 0"),
        grid=("h // HEADS", "b"),
        scalars={"pages": "ceil(s / p)", "scale": _SCALE},
        constants={"H": "h", "D": "d", "PAGE": "p"},
        arrays=_paged_arrays,
        outputs=("out",),
        reference=_paged_decode,
    ),
    _kernel(
        name="linear_attention",
        function="linear_attention",
        dims=SIZES["linear_attention"][0],
        parameters={
            "CHUNK": (16, 32, 64, 128),
            "BLOCK_E": (16, 32, 64, 128),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        defaults={"CHUNK": 64, "BLOCK_E": 32, "num_warps": 4, "num_stages": 2},
        conditions=(
            "e % BLOCK_E == 0",
            "CHUNK * (CHUNK + BLOCK_E) + d * BLOCK_E <= 6144 * num_warps",
            "128 * num_warps <= CHUNK * max(CHUNK, BLOCK_E)",
            "2 * CHUNK * (2 * d + BLOCK_E) * num_stages <= 160 * 1024",
        ),
        grid=("e // BLOCK_E", "h"),
        scalars={"T": "t"},
        constants={"D": "d", "E": "e"},
        arrays=_linear_arrays,
        outputs=("out",),
        reference=_linear,
    ),
    _kernel(
        name="relative_scores",
        function="relative_scores",
        dims=SIZES["relative_scores"][0],
        parameters={
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_N": (16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4},
        conditions=("256 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps",),
        grid=("ceil(s / BLOCK_N)", "ceil(s / BLOCK_M)", "h"),
        scalars={"S": "s", "scale": _SCALE},
        constants={"D": "d"},
        arrays=_relative_arrays,
        outputs=("scores",),
        reference=_relative,
    ),
    _kernel(
        name="capped_scores",
        function="capped_scores",
        dims=SIZES["capped_scores"][0],
        parameters={
            "BLOCK_Q": (16, 32, 64, 128),
            "BLOCK_K": (32, 64, 128, 256),
            "STEP": (16, 32, 64, 128),
            "num_warps": (2, 4, 8),
        },
        defaults={"BLOCK_Q": 64, "BLOCK_K": 64, "STEP": 64, "num_warps": 4},
        conditions=("d % STEP == 0", "256 * num_warps <= BLOCK_Q * BLOCK_K <= 4096 * num_warps"),
        grid=("ceil(q / BLOCK_Q) * ceil(k / BLOCK_K)", "h"),
        scalars={"Q": "q", "K": "k"},
        constants={"D": "d"},
        arrays=_capped_arrays,
        outputs=("s_ptr",),
        reference=_capped,
    ),
    _kernel(
        name="value_aggregation",
        function="value_aggregation",
        dims=SIZES["value_aggregation"][0],
        parameters={
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_K": (32, 64, 128),
            "PROGRAMS": (66, 132, 264, 528),
            "num_warps": (2, 4, 8),
            "num_stages": (2, 3, 4),
        },
        defaults={"BLOCK_M": 64, "BLOCK_K": 64, "PROGRAMS": 264, "num_warps": 4, "num_stages": 3},
        conditions=(
            "256 * num_warps <= BLOCK_M * d <= 4096 * num_warps",
            "2 * BLOCK_K * (BLOCK_M + d) * num_stages <= 160 * 1024",
        ),
        grid=("min(PROGRAMS, h * ceil(q / BLOCK_M))",),
        scalars={"Q": "q", "K": "k", "tiles": "h"},
        constants={"D": "d"},
        arrays=_aggregation_arrays,
        outputs=("out",),
        reference=_aggregation,
    ),
    _kernel(
        name="attention_grad_delta",
        function="attention_grad_delta",
        dims=SIZES["attention_grad_delta"][0],
        parameters={
            "BLOCK": (1, 2, 4, 8, 16, 32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
            "maxnreg": (0, 32, 64),
        },
        defaults={"BLOCK": 32, "num_warps": 4, "maxnreg": 0},
        conditions=(
            "32 * num_warps <= BLOCK * d <= 4096 * num_warps",
            "maxnreg == 0 or BLOCK * d <= 1024 * num_warps",
        ),
        grid=("ceil(m / BLOCK)",),
        scalars={"rows": "m"},
        constants={"D": "d"},
        arrays=_delta_arrays,
        outputs=("delta",),
        reference=_delta,
    ),
    _kernel(
        name="attention_grad_query",
        function="attention_grad_query",
        dims=SIZES["attention_grad_query"][0],
        parameters=_TILES,
        defaults=_DEFAULTS,
        conditions=(*_FITS, "BLOCK_M * (2 * BLOCK_N + d) <= 6144 * num_warps"),
        grid=("ceil(s / BLOCK_M)", "h"),
        scalars={"S": "s", "scale": _SCALE},
        constants={"D": "d"},
        arrays=partial(_backward_arrays, outputs=("DQ",)),
        outputs=("DQ",),
        reference=_backward,
    ),
    _kernel(
        name="attention_grad_key_value",
        function="attention_grad_key_value",
        dims=SIZES["attention_grad_key_value"][0],
        parameters=_TILES,
        defaults=_DEFAULTS,
        conditions=(
            "256 * num_warps <= BLOCK_M * BLOCK_N",
            "2 * BLOCK_N * (BLOCK_M + d) <= 8192 * num_warps",
            "BLOCK_M * d <= 4096 * num_warps",
            "2 * d * (2 * BLOCK_N + 2 * num_stages * BLOCK_M) <= 200 * 1024",
        ),
        grid=("ceil(s / BLOCK_N)", "h"),
        scalars={"S": "s", "scale": _SCALE},
        constants={"D": "d"},
        arrays=partial(_backward_arrays, outputs=("DK", "DV")),
        outputs=("DK", "DV"),
        reference=_backward,
    ),
]
