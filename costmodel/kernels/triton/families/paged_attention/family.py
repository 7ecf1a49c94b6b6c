"""Attention at decode: a new query of each sequence, to keys and values that are kept in pages.

Dims: b sequences, h heads of keys, q heads of queries that share one, d elements of a head, p tokens of a
page, c tokens of the longest context, and s, how uneven contexts are: the i-th longest has c i^(-s / 100)
tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import normals, pages

Arrays = Mapping[str, NDArray[Any]]

_PAIRS = "(b * h)"
_LEFT = f"({_PAIRS} * SPLITS * q)"  # rows that programs leave for one another
_TOKENS = "(b * c)"  # at most


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    """Random normal heads in a cache whose pages are in any order, and an output that nobody has written."""
    sequences, heads, shared, size = (dims[dim] for dim in "bhqd")
    table, lengths, count = pages.draw(dims, rng)
    cache, queries = (count, dims["p"], heads, size), (sequences, heads * shared, size)
    return {
        "query": normals.draw(rng, queries),
        "key": normals.draw(rng, cache),
        "value": normals.draw(rng, cache),
        "table": table,
        "lengths": lengths,
        "output": np.full(queries, np.nan, np.float16),
    }


def _reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    """The softmax of each query over the tokens of its sequence, which are gathered from their pages."""
    output = np.empty(arrays["output"].shape, np.float64)
    for i, length in enumerate(arrays["lengths"].tolist()):
        keys, values = (pages.gather(arrays[name], arrays["table"][i], length) for name in ("key", "value"))
        for head in range(dims["h"]):
            sharing = slice(head * dims["q"], (head + 1) * dims["q"])
            queries = arrays["query"][i, sharing].astype(np.float64)
            scores = queries @ keys[:, head].T / np.sqrt(dims["d"])
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            output[i, sharing] = powers @ values[:, head] / powers.sum(axis=1, keepdims=True)
    return {"output": output}


FAMILY = TritonFamily(
    name="paged_attention",
    kernel=Path(__file__).with_name("kernel.py"),
    function="paged_attention",
    dims={"b": 32, "h": 8, "q": 4, "d": 128, "p": 16, "c": 4096, "s": 30},
    parameters={
        "BLOCK_N": (16, 32, 64, 128),
        "SPLITS": (1, 2, 4, 8, 16, 32, 64),
        "num_warps": (1, 2, 4, 8),
        "num_stages": (1, 2, 3, 4),
    },
    # What SGLang's decode attention runs for grouped queries unless it is told otherwise, then vLLM's.
    defaults={"BLOCK_N": 32, "SPLITS": 8, "num_warps": 4, "num_stages": 2},
    starts=({"SPLITS": 4},),
    conditions=(
        "d in [16, 32, 64, 128, 256]",
        "q <= 64",
        "BLOCK_N == 16 or BLOCK_N < 2 * c",
        "SPLITS == 1 or SPLITS * BLOCK_N < 2 * c",
        "BLOCK_N * d <= 8192 * num_warps",
        "max(q, 16) * d <= 4096 * num_warps",
        "4 * d * BLOCK_N * num_stages <= 200 * 1024",
    ),
    grid=(_PAIRS, "SPLITS"),
    constants={"HEADS": "h", "QUERIES": "q", "D": "d", "PAGE": "p", "MOST_PAGES": "ceil(c / p)"},
    scratch={
        "sums": f"4 * {_LEFT} * d if SPLITS > 1 else 0",
        "statistics": f"8 * {_LEFT} if SPLITS > 1 else 0",
        "arrivals": f"4 * {_PAIRS} if SPLITS > 1 else 0",
    },
    scratch_types={"sums": "float32", "statistics": "float32", "arrivals": "int32"},
    arrays=_arrays,
    outputs=("output",),
    reference=_reference,
    flops=f"4 * {_TOKENS} * h * q * d",
    launch={
        "local_bytes": "4 * max(q, 16) * (d + BLOCK_N) / threads",
        "global_load_bytes": f"4 * {_TOKENS} * h * d + 4 * {_TOKENS} * h",
        "global_store_bytes": f"2 * {_PAIRS} * q * d + (4 * {_LEFT} * (d + 2) if SPLITS > 1 else 0)",
        "tensor_flops": f"4 * {_TOKENS} * h * max(q, 16) * d",
        "unroll_steps": "ceil(c / (BLOCK_N * SPLITS))",
    },
)
