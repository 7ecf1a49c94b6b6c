"""Calls of the libraries that serve language models: what each does, from its sizes and types.

Sizes are columns of measured tables, ``(n,)`` each, and their names are those of AIConfigurator's tables.
Operations and bytes are the least that the definition asks for: every operand is read once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray

Sizes = Mapping[str, FloatArray]


@dataclass(frozen=True)
class NumberFormat:
    """How a call stores and multiplies numbers.

    Attributes:
        weight_bytes: Of an element of weights, scales included.
        input_bytes: Of an element of activations.
        multiplies: Bits that Tensor Cores multiply: 16, 8 or 4.
        least_capability: Compute capability since which NVIDIA's Tensor Cores do: 89 for float8, 100 for
            formats with a scale for each few elements.
    """

    weight_bytes: float
    input_bytes: float
    multiplies: int
    least_capability: int = 0


# Block scales: four bytes for 128 elements of fp8, one for 32 of mxfp4, one for 16 of nvfp4.
FORMATS: Mapping[str, NumberFormat] = {
    "bfloat16": NumberFormat(2, 2, 16),
    "float16": NumberFormat(2, 2, 16),
    "fp8": NumberFormat(1, 1, 8, 89),
    "fp8_block": NumberFormat(1 + 4 / 128**2, 1 + 4 / 128, 8, 89),
    "sq": NumberFormat(1, 1, 8),
    "int8": NumberFormat(1, 1, 8),
    "int8_wo": NumberFormat(1, 2, 16),
    "int4_wo": NumberFormat(0.5 + 2 / 128, 2, 16),
    "w4afp8": NumberFormat(0.5 + 2 / 128, 1, 8, 89),
    "nvfp4": NumberFormat(0.5 + 1 / 16, 0.5 + 1 / 16, 4, 100),
    "w4a16_mxfp4": NumberFormat(0.5 + 1 / 32, 2, 16),
    "w4a16_mxfp4_cutlass": NumberFormat(0.5 + 1 / 32, 2, 16),
    "w4a8_mxfp4_mxfp8": NumberFormat(0.5 + 1 / 32, 1 + 1 / 32, 8, 100),
    "w4a8_nvfp4_fp8": NumberFormat(0.5 + 1 / 16, 1, 8, 100),
}
_UNKNOWN = FORMATS["bfloat16"]
_OUTPUT_BYTES = 2.0


def find_format(name: str) -> NumberFormat:
    """Return the format of this name; that of bfloat16 if it is unknown."""
    return FORMATS.get(name, _UNKNOWN)


@dataclass(frozen=True)
class CallWork:
    """What calls do, ``(n,)`` each.

    Attributes:
        flops: Operations of products; a multiply-add counts as two.
        load_bytes: Bytes that are read.
        store_bytes: Bytes that are written.
        rows: Independent rows of the largest product, as tiles cover them.
        columns: Its columns.
        depth: Length of its sums.
        copies: How many such products there are.
    """

    flops: FloatArray
    load_bytes: FloatArray
    store_bytes: FloatArray
    rows: FloatArray
    columns: FloatArray
    depth: FloatArray
    copies: FloatArray


@dataclass(frozen=True)
class CallKind:
    """A kind of calls.

    Attributes:
        sizes: Letter of each size, by column.
        types: Columns of types and of what else tells calls apart: the first says how it multiplies.
        work: What calls of one set of types do.
    """

    sizes: Mapping[str, str]
    types: tuple[str, ...]
    work: Callable[[Sizes, tuple[str, ...]], CallWork]


def _gemm(sizes: Sizes, types: tuple[str, ...]) -> CallWork:
    m, n, k, kept = sizes["m"], sizes["n"], sizes["k"], find_format(types[0])
    return CallWork(
        flops=2 * m * n * k,
        load_bytes=m * k * kept.input_bytes + n * k * kept.weight_bytes,
        store_bytes=m * n * _OUTPUT_BYTES,
        rows=m,
        columns=n,
        depth=k,
        copies=np.ones_like(m),
    )


def _attended(queries: FloatArray, before: FloatArray, window: FloatArray) -> FloatArray:
    """``(n,)`` pairs of a query and a key at or before it, of which a window keeps the last (0: all)."""
    width = np.where(window > 0, window, np.inf)
    ramp = np.clip(width - before, 0, queries)  # queries that see all keys before them
    seen = ramp * before + ramp * (ramp + 1) / 2
    rest = queries - ramp
    return seen + np.where(rest > 0, rest * np.where(np.isinf(width), 0, width), 0)


def _attention(sizes: Sizes, types: tuple[str, ...]) -> CallWork:
    """Causal attention of new queries on what is cached and on themselves."""
    batch, queries, heads, width = (sizes[name] for name in ("batch_size", "isl", "num_heads", "head_dim"))
    before = sizes.get("step", np.zeros_like(batch))
    window = sizes.get("window_size", np.zeros_like(batch))
    groups = sizes.get("num_key_value_heads", heads)
    groups = np.where(groups > 0, groups, heads)
    cache = find_format(types[-1]).input_bytes
    kept = np.where(window > 0, np.minimum(before + queries, window + queries), before + queries)
    return CallWork(
        flops=4 * batch * heads * width * _attended(queries, before, window),
        load_bytes=batch * width * (queries * heads * _OUTPUT_BYTES + 2 * kept * groups * cache),
        store_bytes=batch * width * queries * heads * _OUTPUT_BYTES,
        rows=queries * heads / groups,
        columns=kept,
        depth=width,
        copies=batch * groups,
    )


def _moe(sizes: Sizes, types: tuple[str, ...]) -> CallWork:
    """Three products for each token and chosen expert; weights are read of the experts that get a token."""
    tokens, hidden, chosen = sizes["num_tokens"], sizes["hidden_size"], sizes["topk"]
    experts = sizes["num_experts"] / sizes["moe_ep_size"]
    inner = sizes["inter_size"] / sizes["moe_tp_size"]
    pairs, kept = tokens * chosen / sizes["moe_ep_size"], find_format(types[0])
    busy = np.maximum(np.minimum(experts, pairs), 1)
    return CallWork(
        flops=6 * pairs * hidden * inner,
        load_bytes=3 * busy * hidden * inner * kept.weight_bytes + pairs * hidden * kept.input_bytes,
        store_bytes=tokens * hidden * _OUTPUT_BYTES,
        rows=np.maximum(pairs / busy, 1),
        columns=inner * 2,
        depth=hidden,
        copies=busy,
    )


def _quantise(sizes: Sizes, types: tuple[str, ...]) -> CallWork:
    """Scale each element and round it to one byte: a stream, as a norm is."""
    m, k = sizes["m"], sizes["k"]
    return CallWork(2 * m * k, 2 * m * k, m * k, m, k, np.ones_like(m), np.ones_like(m))


_ATTENTION = {
    "batch_size": "b",
    "isl": "s",
    "num_heads": "h",
    "num_key_value_heads": "g",
    "head_dim": "d",
    "step": "p",
    "window_size": "w",
}
# Sizes of which 0 says that there is none.
MAY_BE_ZERO = ("step", "window_size")
# By name of the table, which the name of a file begins with.
CALL_KINDS: Mapping[str, CallKind] = {
    "gemm": CallKind({"m": "m", "n": "n", "k": "k"}, ("gemm_dtype",), _gemm),
    "context_attention": CallKind(_ATTENTION, ("attn_dtype", "kv_cache_dtype"), _attention),
    "generation_attention": CallKind(_ATTENTION, ("attn_dtype", "kv_cache_dtype"), _attention),
    "moe": CallKind(
        {
            "num_tokens": "m",
            "hidden_size": "h",
            "inter_size": "i",
            "topk": "k",
            "num_experts": "e",
            "moe_tp_size": "t",
            "moe_ep_size": "p",
        },
        ("moe_dtype", "distribution"),
        _moe,
    ),
    "scale_matrix": CallKind({"m": "m", "k": "k"}, ("quant_dtype",), _quantise),
}
