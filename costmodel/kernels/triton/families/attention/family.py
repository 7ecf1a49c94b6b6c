"""Attention of queries to keys and values, in float16 with sums in float32, all or causal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families.tile_products import GROUPED


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random normal heads, and an output that nobody has written."""
    heads, queries, keys, size = (dims[dim] for dim in "bqkd")
    of_queries, of_keys = (heads, queries, size), (heads, keys, size)
    return {
        "query": rng.standard_normal(of_queries, np.float32).astype(np.float16),
        "key": rng.standard_normal(of_keys, np.float32).astype(np.float16),
        "value": rng.standard_normal(of_keys, np.float32).astype(np.float16),
        "output": np.full(of_queries, np.nan, np.float16),
    }


def _reference(arrays: Mapping[str, NDArray[Any]], _: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """The values, weighted by the softmax of the scores of all keys."""
    return {"output": _attention(arrays, is_causal=False)}


def _causal_reference(
    arrays: Mapping[str, NDArray[Any]], _: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    """The same of the keys up to each query's place, where the last query has the place of the last key."""
    return {"output": _attention(arrays, is_causal=True)}


def _attention(arrays: Mapping[str, NDArray[Any]], *, is_causal: bool) -> NDArray[np.float64]:
    heads = zip(arrays["query"], arrays["key"], arrays["value"], strict=True)
    return np.stack([_head(*head, is_causal=is_causal) for head in heads])


def _head(
    query: NDArray[Any], key: NDArray[Any], value: NDArray[Any], *, is_causal: bool
) -> NDArray[np.float64]:
    query, key, value = (each.astype(np.float64) for each in (query, key, value))
    scores = query @ key.T / np.sqrt(query.shape[1])
    if is_causal:
        scores[np.triu_indices(len(query), 1 + len(key) - len(query), len(key))] = -np.inf
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers @ value / powers.sum(axis=1, keepdims=True))


_TILES = "(b * ceil(q / BLOCK_M))"
_BUFFERS = f"(1 if num_stages == 1 else 2 * num_stages if {GROUPED} else 2 * num_stages - 2)"
_WEIGHTS = f"(not {GROUPED} and num_warps > 1 and BLOCK_M < max(BLOCK_N, d))"  # which warps exchange
# Within 1 KiB of what Triton 3.6 reports for 149 of 150 drawn configs.
_SHARED = f"2 * d * (BLOCK_M + {_BUFFERS} * BLOCK_N) + (2 * BLOCK_M * BLOCK_N if {_WEIGHTS} else 0)"
# Of each key and value that a block reads: as a group by every 64 queries, which the products with keys read
# too, else by each warp.
_READS = f"(BLOCK_M / BLOCK_N + BLOCK_M / 32 if {GROUPED} else 2 * num_warps)"
_LEFT = f"(4 * {_TILES} * SPLITS * BLOCK_M * (d + 2) if SPLITS > 1 else 0)"  # by those who share keys
_KEYS = "ceil(q / BLOCK_M) * k"
_CAUSAL_KEYS = f"min({_KEYS}, ceil(q / BLOCK_M) * (k - q + BLOCK_M * (ceil(q / BLOCK_M) + 1) / 2))"
_PARAMETERS = {
    "BLOCK_M": (16, 32, 64, 128),
    "BLOCK_N": (16, 32, 64, 128),
    "SPLITS": (1, 2, 4, 8, 16, 32),
    "PROGRAMS": (0, 16, 32, 64, 132, 264),
    "num_warps": (1, 2, 4, 8),
    "num_stages": (1, 2, 3, 4),
    "BY_HEAD": (0, 1),
}
_DEFAULTS = {
    "BLOCK_M": 128,
    "BLOCK_N": 64,
    "SPLITS": 1,
    "PROGRAMS": 0,
    "num_warps": 4,
    "num_stages": 3,
    "BY_HEAD": 1,
}
_CONDITIONS = (
    "d in [16, 32, 64, 128, 256]",
    "BLOCK_M == 16 or BLOCK_M < 2 * q",
    "BLOCK_N == 16 or BLOCK_N < 2 * k",
    "16 * num_warps <= max(BLOCK_M, 64)",
    # Scores and results stay in registers, and so do the queries where warps work alone.
    f"BLOCK_M * (BLOCK_N + d) <= (192 if {GROUPED} else 128) * 32 * num_warps",
    "BLOCK_N * d <= 8192 * num_warps",
    "SPLITS == 1 or BLOCK_M * d <= 96 * 32 * num_warps",
    "SPLITS == 1 or SPLITS * BLOCK_N < 2 * k",
    f"PROGRAMS == 0 or (SPLITS == 1 and PROGRAMS < {_TILES})",
    f"{_SHARED} <= 227 * 1024",
)


def _family(name: str, *, is_causal: bool) -> TritonFamily:
    # Pairs of a query and a key that it sees, and the keys that all blocks of a head read.
    pairs, keys = ("(q * (k - q) + q * (q + 1) / 2)", _CAUSAL_KEYS) if is_causal else ("q * k", _KEYS)
    return TritonFamily(
        name=name,
        kernel=Path(__file__).with_name("kernel.py"),
        function="attention",
        dims={"b": 32, "q": 2048, "k": 2048, "d": 64},
        parameters=_PARAMETERS,
        defaults=_DEFAULTS,
        conditions=(*_CONDITIONS, "q <= k") if is_causal else _CONDITIONS,
        grid=(f"PROGRAMS if PROGRAMS > 0 else {_TILES}", "SPLITS"),
        scalars={"heads": "b"},
        constants={"Q": "q", "K": "k", "D": "d", "CAUSAL": int(is_causal)},
        scratch={
            "sums": f"4 * {_TILES} * SPLITS * BLOCK_M * d if SPLITS > 1 else 0",
            "statistics": f"8 * {_TILES} * SPLITS * BLOCK_M if SPLITS > 1 else 0",
            "arrivals": f"4 * {_TILES} if SPLITS > 1 else 0",
        },
        scratch_types={"sums": "float32", "statistics": "float32", "arrivals": "int32"},
        arrays=_arrays,
        outputs=("output",),
        reference=_causal_reference if is_causal else _reference,
        library=Path(__file__).with_name("library.py"),
        library_calls=("causal",) if is_causal else ("eager",),
        flops=f"4 * b * d * {pairs}",
        launch={
            "vthreads": f"ceil({_TILES} / PROGRAMS) if PROGRAMS > 0 else 1",
            "shared_bytes": _SHARED,
            "local_bytes": "4 * BLOCK_M * (d + BLOCK_N) / threads",
            "global_load_bytes": f"2 * b * d * (q + 2 * {keys}) + {_LEFT}",
            "global_store_bytes": f"2 * b * d * q + {_LEFT}",
            "shared_load_bytes": f"2 * b * d * {keys} * {_READS}",
            "tensor_flops": f"4 * b * d * {pairs}",
            "unroll_steps": "ceil(k / (BLOCK_N * SPLITS))",
            "vector_bytes": "16",
        },
    )


FAMILIES = [_family("attention", is_causal=False), _family("causal_attention", is_causal=True)]
