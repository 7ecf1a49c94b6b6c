"""Sums of rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random normal rows, and sums that nobody has written."""
    return {
        "x": rng.standard_normal((dims["m"], dims["n"]), np.float32),
        "sums": np.full(dims["m"], np.nan, np.float32),
    }


def _reference(arrays: Mapping[str, NDArray[Any]], _: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """The sums."""
    return {"sums": arrays["x"].sum(axis=1, dtype=np.float64)}


_VECTOR = row_blocks.vector_bytes(4)
_BLOCKS = row_blocks.in_flight(4)

FAMILY = TritonFamily(
    name="reduction",
    kernel=Path(__file__).with_name("kernel.py"),
    function="reduction",
    dims={"m": 4096, "n": 4096},
    parameters={
        **{name: row_blocks.PARAMETERS[name] for name in ("ROWS", "BLOCK_N")},
        "SPLITS": (1, 2, 4, 8, 16, 32, 64),
        "STAGES": (1, 2, 3, 4),
        "num_warps": (1, 2, 4, 8, 16),
    },
    defaults={"ROWS": 1, "BLOCK_N": 1024, "SPLITS": 1, "STAGES": 1, "num_warps": 4},
    conditions=(
        *row_blocks.BLOCK_CONDITIONS,
        "SPLITS == 1 or SPLITS * BLOCK_N < 2 * n",
        "STAGES == 1 or SPLITS * BLOCK_N < n",
        row_blocks.fits(_BLOCKS),
    ),
    grid=("ceil(m / ROWS)", "SPLITS"),
    scalars={"m": "m"},
    constants={"N": "n"},
    scratch={
        "partial": "4 * ceil(m / ROWS) * ROWS * SPLITS if SPLITS > 1 else 0",
        "arrivals": "4 * ceil(m / ROWS) if SPLITS > 1 else 0",
    },
    scratch_types={"partial": "float32", "arrivals": "int32"},
    arrays=_arrays,
    outputs=("sums",),
    reference=_reference,
    library=Path(__file__).with_name("library.py"),
    library_calls=("eager",),
    flops="m * n",
    launch={
        "shared_bytes": row_blocks.shared_bytes(_BLOCKS, _VECTOR),
        "local_bytes": "4 * ROWS * BLOCK_N / threads",
        "global_load_bytes": "4 * m * (n + (SPLITS if SPLITS > 1 else 0))",
        "global_store_bytes": "4 * m * (1 + (SPLITS if SPLITS > 1 else 0))",
        "vector_bytes": _VECTOR,
    },
)
