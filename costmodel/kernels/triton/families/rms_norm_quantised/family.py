"""Division of rows by their root mean square, with gain, as codes of eight bits and scales."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks

Arrays = Mapping[str, NDArray[Any]]

_LARGEST = 127
_PARAMETERS = ("ROWS", "BLOCK_N", "num_warps")


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    """Random normal rows, gains about 1, and outputs that nobody has written."""
    shape = dims["m"], dims["n"]
    return {
        "x": rng.standard_normal(shape, np.float32).astype(np.float16),
        "gain": rng.uniform(0.5, 1.5, dims["n"]).astype(np.float16),
        "codes": np.zeros(shape, np.int8),
        "scales": np.full(dims["m"], np.nan, np.float32),
    }


def _reference(arrays: Arrays, _: Mapping[str, int]) -> Arrays:
    x = arrays["x"].astype(np.float64)
    scaled = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-5) * arrays["gain"]
    scales = np.abs(scaled).max(axis=1) / _LARGEST
    return {"codes": np.floor(scaled / scales[:, None] + 0.5).astype(np.int8), "scales": scales}


FAMILY = TritonFamily(
    name="rms_norm_to_int8",
    kernel=Path(__file__).with_name("kernel.py"),
    function="rms_norm_quantised",
    dims={"m": 4096, "n": 4096},
    parameters={name: row_blocks.PARAMETERS[name] for name in _PARAMETERS},
    defaults={name: row_blocks.DEFAULTS[name] for name in _PARAMETERS},
    conditions=row_blocks.BLOCK_CONDITIONS,
    grid=("ceil(m / ROWS)",),
    scalars={"m": "m"},
    constants={"N": "n"},
    arrays=_arrays,
    outputs=("codes", "scales"),
    reference=_reference,
    tolerance=1e-3,  # of values halfway between two codes some are rounded to the other
    flops="6 * m * n",
    launch={
        "local_bytes": "4 * ROWS * BLOCK_N / threads",
        "global_load_bytes": "2 * n * (m * (1 if BLOCK_N >= n else 3) + ceil(m / ROWS))",
        "global_store_bytes": "m * n + 4 * m",
        "unroll_steps": row_blocks.STEPS,
        "vector_bytes": row_blocks.vector_bytes(2),
    },
)
