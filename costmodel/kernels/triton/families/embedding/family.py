"""Rows of a table, gathered by the tokens of a text, of which few are frequent and most are rare."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """A random normal table, tokens by Zipf's law in any order, and an output that nobody has written."""
    tokens, vocabulary, width = dims["t"], dims["v"], dims["d"]
    weights = 1 / np.arange(1, vocabulary + 1)
    ranks = rng.choice(vocabulary, size=tokens, p=weights / weights.sum())
    return {
        "table": rng.standard_normal((vocabulary, width), np.float32).astype(np.float16),
        "indices": rng.permutation(vocabulary)[ranks].astype(np.int32),
        "y": np.full((tokens, width), np.nan, np.float16),
    }


def _reference(arrays: Mapping[str, NDArray[Any]], _: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The rows."""
    return {"y": arrays["table"][arrays["indices"]]}


FAMILY = TritonFamily(
    name="embedding",
    kernel=Path(__file__).with_name("kernel.py"),
    function="embedding",
    dims={"t": 16384, "v": 32000, "d": 4096},
    parameters={
        **{name: row_blocks.PARAMETERS[name] for name in ("ROWS", "PROGRAMS", "STAGES")},
        "BLOCK_D": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
        "num_warps": (1, 2, 4, 8, 16),
    },
    defaults={"ROWS": 1, "PROGRAMS": 0, "STAGES": 1, "BLOCK_D": 1024, "num_warps": 4},
    conditions=(
        "BLOCK_D == 64 or BLOCK_D < 2 * d",
        "ROWS == 1 or ROWS < 2 * t",
        "64 * num_warps <= ROWS * BLOCK_D <= 1024 * num_warps",
        "PROGRAMS == 0 or PROGRAMS < ceil(t / ROWS) * ceil(d / BLOCK_D)",
        "STAGES == 1 or PROGRAMS > 0",
    ),
    grid=("PROGRAMS if PROGRAMS > 0 else ceil(t / ROWS) * ceil(d / BLOCK_D)",),
    scalars={"t": "t"},
    constants={"D": "d"},
    arrays=_arrays,
    outputs=("y",),
    reference=_reference,
    library=Path(__file__).with_name("library.py"),
    library_calls=("eager",),
    flops="0",
    launch={
        "vthreads": "ceil(ceil(t / ROWS) * ceil(d / BLOCK_D) / blocks)",
        "shared_bytes": "2 * (STAGES - 1) * ROWS * BLOCK_D",
        "local_bytes": "2 * ROWS * BLOCK_D / threads",
        "global_load_bytes": "2 * t * d + 4 * t * ceil(d / BLOCK_D)",
        "global_store_bytes": "2 * t * d",
    },
)
