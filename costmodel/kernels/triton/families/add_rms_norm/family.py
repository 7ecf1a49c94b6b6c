"""A residual added, and rows of the sum over their root mean square: the seam of a transformer's layers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks

Arrays = Mapping[str, NDArray[Any]]


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random normal inputs, and outputs that nobody has written."""
    shape = (dims["m"], dims["n"])
    return {
        "x": rng.standard_normal(shape).astype(np.float16),
        "residual": rng.standard_normal(shape).astype(np.float16),
        "gain": rng.standard_normal(dims["n"]).astype(np.float16),
        "total": np.full(shape, np.nan, np.float16),
        "y": np.full(shape, np.nan, np.float16),
    }


def _reference(arrays: Arrays, _: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """The sum, and the sum over the root of its mean square, times the gain."""
    total = arrays["x"].astype(np.float64) + arrays["residual"]
    scale = 1 / np.sqrt((total**2).mean(axis=1, keepdims=True) + 1e-5)
    return {"total": total, "y": total * scale * arrays["gain"]}


_VECTOR = row_blocks.vector_bytes(2)
_BLOCKS = row_blocks.in_flight(4)

FAMILY = TritonFamily(
    name="add_rms_norm",
    kernel=Path(__file__).with_name("kernel.py"),
    function="add_rms_norm",
    dims={"m": 4096, "n": 4096},
    parameters=row_blocks.PARAMETERS,
    defaults=row_blocks.DEFAULTS,
    conditions=(*row_blocks.BLOCK_CONDITIONS, *row_blocks.LOOP_CONDITIONS, row_blocks.fits(_BLOCKS)),
    grid=row_blocks.GRID,
    scalars={"m": "m"},
    constants={"N": "n"},
    arrays=_arrays,
    outputs=("total", "y"),
    reference=_reference,
    flops="5 * m * n",
    launch={
        "vthreads": row_blocks.TILES_OF_A_PROGRAM,
        "shared_bytes": row_blocks.shared_bytes(_BLOCKS, _VECTOR),
        "local_bytes": "4 * ROWS * BLOCK_N / threads",
        "global_load_bytes": "2 * n * (m * (2 if BLOCK_N >= n else 3) + ceil(m / ROWS))",
        "global_store_bytes": "4 * m * n",
        "unroll_steps": row_blocks.STEPS,
        "vector_bytes": _VECTOR,
    },
)
