"""A bias and GELU, elementwise: what follows a product where it is not fused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random normal inputs, and an output that nobody has written."""
    shape = (dims["m"], dims["n"])
    return {
        "x": rng.standard_normal(shape).astype(np.float16),
        "bias": rng.standard_normal(dims["n"]).astype(np.float16),
        "y": np.full(shape, np.nan, np.float16),
    }


def _reference(arrays: Mapping[str, NDArray[Any]], _: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """``z / 2 (1 + erf(z / sqrt(2)))`` of the sum z."""
    from scipy.special import erf  # takes a while to import, and families are imported everywhere

    z = arrays["x"].astype(np.float64) + arrays["bias"]
    return {"y": z / 2 * (1 + erf(z / np.sqrt(2)))}


_VECTOR = row_blocks.vector_bytes(2)
_BLOCKS = row_blocks.in_flight(2, 2)

FAMILY = TritonFamily(
    name="bias_gelu",
    kernel=Path(__file__).with_name("kernel.py"),
    function="bias_gelu",
    dims={"m": 4096, "n": 4096},
    parameters={**row_blocks.PARAMETERS, "BLOCK_N": (64, 128, 256, 512, 1024, 2048, 4096)},
    defaults={**row_blocks.DEFAULTS, "BLOCK_N": 1024, "num_warps": 4},
    conditions=(
        "BLOCK_N == 64 or BLOCK_N < 2 * n",
        "ROWS == 1 or ROWS < 2 * m",
        "64 * num_warps <= ROWS * BLOCK_N <= 1024 * num_warps",
        "PROGRAMS == 0 or PROGRAMS < ceil(m / ROWS) * ceil(n / BLOCK_N)",
        "STAGES == 1 or PROGRAMS > 0",
        "num_warps <= 16",
    ),
    grid=("PROGRAMS if PROGRAMS > 0 else ceil(m / ROWS) * ceil(n / BLOCK_N)",),
    scalars={"m": "m"},
    constants={"N": "n"},
    arrays=_arrays,
    outputs=("y",),
    reference=_reference,
    library=Path(__file__).with_name("library.py"),
    library_calls=("eager",),
    flops="9 * m * n",
    launch={
        "vthreads": "ceil(ceil(m / ROWS) * ceil(n / BLOCK_N) / blocks)",
        "shared_bytes": row_blocks.shared_bytes(_BLOCKS, _VECTOR),
        "local_bytes": "4 * ROWS * BLOCK_N / threads",
        "global_load_bytes": "2 * n * (m + ceil(m / ROWS))",
        "global_store_bytes": "2 * m * n",
        "vector_bytes": _VECTOR,
    },
)
