"""Cross entropy of each row of logits and its label, as at the end of a language model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random normal logits, any labels, and losses that nobody has written."""
    m, n = dims["m"], dims["n"]
    return {
        "logits": rng.standard_normal((m, n), np.float32).astype(np.float16),
        "labels": rng.integers(n, size=m, dtype=np.int32),
        "loss": np.full(m, np.nan, np.float32),
    }


def _reference(arrays: Mapping[str, NDArray[Any]], _: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """The logarithm of the sum of the powers, less the label's logit; a row at a time saves memory."""
    losses = [
        np.log(np.exp(logits.astype(np.float64)).sum()) - np.float64(logits[label])
        for logits, label in zip(arrays["logits"], arrays["labels"], strict=True)
    ]
    return {"loss": np.array(losses)}


_VECTOR = row_blocks.vector_bytes(2)
_BLOCKS = row_blocks.in_flight(2)

FAMILY = TritonFamily(
    name="cross_entropy",
    kernel=Path(__file__).with_name("kernel.py"),
    function="cross_entropy",
    dims={"m": 2048, "n": 32000},
    parameters=row_blocks.PARAMETERS,
    defaults=row_blocks.DEFAULTS,
    conditions=(*row_blocks.BLOCK_CONDITIONS, *row_blocks.LOOP_CONDITIONS, row_blocks.fits(_BLOCKS)),
    grid=row_blocks.GRID,
    scalars={"m": "m"},
    constants={"N": "n"},
    arrays=_arrays,
    outputs=("loss",),
    reference=_reference,
    library=Path(__file__).with_name("library.py"),
    library_calls=("eager",),
    flops="4 * m * n",
    launch={
        "vthreads": row_blocks.TILES_OF_A_PROGRAM,
        "shared_bytes": row_blocks.shared_bytes(_BLOCKS, _VECTOR),
        "local_bytes": "4 * ROWS * BLOCK_N / threads",
        "global_load_bytes": "2 * m * n + 6 * m",
        "global_store_bytes": "4 * m",
        "unroll_steps": row_blocks.STEPS,
        "vector_bytes": _VECTOR,
    },
)
