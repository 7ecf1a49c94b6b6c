"""Attention at decode to a latent cache, as DeepSeek-V3 has it: all heads share what is kept of a token.

Dims: b sequences, h heads, r numbers of a latent vector, o more with a token's place, p tokens of a page,
c tokens of the longest context, and s, how uneven contexts are: the i-th longest has c i^(-s / 100)
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

_BLOCKS = "(b * ceil(h / BLOCK_H))"
_LEFT = f"({_BLOCKS} * SPLITS * BLOCK_H)"  # rows that programs leave for one another
_TOKENS = "(b * c)"  # at most


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    """Random normal queries and cache, and an output that nobody has written."""
    sequences, heads, latent, rotary = (dims[dim] for dim in "bhro")
    table, lengths, count = pages.draw(dims, rng)
    return {
        "query": normals.draw(rng, (sequences, heads, latent + rotary)),
        "cache": normals.draw(rng, (count, dims["p"], latent + rotary)),
        "table": table,
        "lengths": lengths,
        "output": np.full((sequences, heads, latent), np.nan, np.float16),
    }


def _reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    """The softmax of each head's query over the tokens of its sequence."""
    output = np.empty(arrays["output"].shape, np.float64)
    for i, length in enumerate(arrays["lengths"].tolist()):
        tokens = pages.gather(arrays["cache"], arrays["table"][i], length)
        scores = arrays["query"][i].astype(np.float64) @ tokens.T / np.sqrt(dims["r"] + dims["o"])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        output[i] = powers @ tokens[:, : dims["r"]] / powers.sum(axis=1, keepdims=True)
    return {"output": output}


FAMILY = TritonFamily(
    name="latent_attention",
    kernel=Path(__file__).with_name("kernel.py"),
    function="latent_attention",
    dims={"b": 32, "h": 16, "r": 512, "o": 64, "p": 64, "c": 4096, "s": 30},
    parameters={
        "BLOCK_H": (16, 32, 64),
        "BLOCK_N": (16, 32, 64, 128),
        "SPLITS": (1, 2, 4, 8, 16, 32, 64),
        "num_warps": (4, 8, 16),
        "num_stages": (1, 2, 3),
    },
    # What SGLang's decode attention runs for such heads unless it is told otherwise, then vLLM's.
    defaults={"BLOCK_H": 16, "BLOCK_N": 32, "SPLITS": 8, "num_warps": 4, "num_stages": 2},
    starts=({"SPLITS": 4},),
    conditions=(
        "r in [64, 128, 256, 512]",
        "o in [16, 32, 64]",
        "BLOCK_H < 2 * max(h, 16)",
        "BLOCK_N == 16 or BLOCK_N < 2 * c",
        "SPLITS == 1 or SPLITS * BLOCK_N < 2 * c",
        "BLOCK_H * r <= 4096 * num_warps",  # results of a thread: 128
        "BLOCK_N * r <= 8192 * num_warps",
        "2 * (r + o) * (BLOCK_H + BLOCK_N * num_stages) <= 220 * 1024",
    ),
    grid=(_BLOCKS, "SPLITS"),
    constants={"HEADS": "h", "LATENT": "r", "ROTARY": "o", "PAGE": "p", "MOST_PAGES": "ceil(c / p)"},
    scratch={
        "sums": f"4 * {_LEFT} * r if SPLITS > 1 else 0",
        "statistics": f"8 * {_LEFT} if SPLITS > 1 else 0",
        "arrivals": f"4 * {_BLOCKS} if SPLITS > 1 else 0",
    },
    scratch_types={"sums": "float32", "statistics": "float32", "arrivals": "int32"},
    arrays=_arrays,
    outputs=("output",),
    reference=_reference,
    flops=f"2 * {_TOKENS} * h * (2 * r + o)",
    launch={
        "local_bytes": "4 * BLOCK_H * (r + BLOCK_N) / threads",
        "global_load_bytes": f"2 * {_TOKENS} * ceil(h / BLOCK_H) * (r + o)",
        "global_store_bytes": f"2 * b * h * r + (4 * {_LEFT} * (r + 2) if SPLITS > 1 else 0)",
        "tensor_flops": f"2 * {_TOKENS} * ceil(h / BLOCK_H) * BLOCK_H * (2 * r + o)",
        "unroll_steps": "ceil(c / (BLOCK_N * SPLITS))",
    },
)
