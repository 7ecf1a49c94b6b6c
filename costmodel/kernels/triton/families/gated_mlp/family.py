"""The first half of a gated feed-forward block (SwiGLU): two products of the same rows, and their gate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families.tile_products import operand_reads

Arrays = Mapping[str, NDArray[Any]]

_TILES = "ceil(m / BLOCK_M) * ceil(n / BLOCK_N)"
# Four warps and 64 rows multiply as a group (wgmma), which reads operands of every stage from shared memory.
# Otherwise those in use are in registers, which spares a stage.
_STAGED = "(num_stages if BLOCK_M >= 64 and num_warps >= 4 else num_stages - 1)"
_SLABS = f"2 * {_STAGED} * (BLOCK_M + 2 * BLOCK_N) * BLOCK_K"
# Results change threads on their way out, all at once or a few of each thread.
_RESULTS = "(2 * BLOCK_M * BLOCK_N if BLOCK_M >= 64 and num_warps >= 4 else 512 * num_warps)"
_SHARED_BYTES = f"({_SLABS} + {_RESULTS} if PROGRAMS > 0 else max({_SLABS}, {_RESULTS}))"


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    m, n, k = dims["m"], dims["n"], dims["k"]
    normal = {"x": (m, k), "w1": (k, n), "w3": (k, n)}
    scale = {"x": 1.0, "w1": k**-0.5, "w3": k**-0.5}
    made = {
        name: (rng.standard_normal(shape, np.float32) * np.float32(scale[name])).astype(np.float16)
        for name, shape in normal.items()
    }
    return {**made, "y": np.full((m, n), np.nan, np.float16)}


def _reference(arrays: Arrays, _: Mapping[str, int]) -> Arrays:
    x, w1, w3 = (arrays[name].astype(np.float32) for name in ("x", "w1", "w3"))
    gate = x @ w1
    return {"y": gate / (1.0 + np.exp(-gate)) * (x @ w3)}


FAMILY = TritonFamily(
    name="gated_mlp",
    kernel=Path(__file__).with_name("kernel.py"),
    function="gated_mlp",
    dims={"m": 512, "n": 2816, "k": 1024},
    parameters={
        "BLOCK_M": (16, 32, 64, 128, 256),
        "BLOCK_N": (32, 64, 128, 256),
        "BLOCK_K": (32, 64, 128),
        "GROUP_M": (1, 8),
        "PROGRAMS": (0, 8, 16, 32, 64, 132, 264),
        "num_warps": (2, 4, 8),
        "num_stages": (2, 3, 4),
    },
    defaults={
        **{"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "PROGRAMS": 0},
        **{"num_warps": 8, "num_stages": 3},
    },
    conditions=(
        "BLOCK_M < 2 * max(m, 16)",
        "BLOCK_N < 2 * max(n, 32)",
        "BLOCK_K < 2 * max(k, 32)",
        "GROUP_M == 1 or GROUP_M <= 2 * ceil(m / BLOCK_M)",
        "128 * num_warps <= BLOCK_M * BLOCK_N <= 2048 * num_warps",  # 8 to 128 sums a thread
        "(BLOCK_M + 2 * BLOCK_N) * BLOCK_K <= 4096 * num_warps",  # up to 128 operands a thread
        f"{_SHARED_BYTES} <= 232448",
        f"PROGRAMS < {_TILES}",
    ),
    grid=(f"PROGRAMS if PROGRAMS > 0 else {_TILES}",),
    constants={"M": "m", "N": "n", "K": "k"},
    arrays=_arrays,
    outputs=("y",),
    reference=_reference,
    library=Path(__file__).with_name("library.py"),
    library_calls=("eager",),
    flops="4 * m * n * k + 5 * m * n",
    launch={
        "vthreads": f"ceil({_TILES} / PROGRAMS) if PROGRAMS > 0 else 1",
        "shared_bytes": _SHARED_BYTES,
        "local_bytes": "BLOCK_M * BLOCK_N / (4 * num_warps)",
        "global_load_bytes": "2 * k * (m * ceil(n / BLOCK_N) + 2 * n * ceil(m / BLOCK_M))",
        "global_store_bytes": "2 * m * n",
        "shared_load_bytes": f"2 * {_TILES} * ceil(k / BLOCK_K) * BLOCK_K * {operand_reads('2 * BLOCK_N')}",
        "shared_store_bytes": f"2 * {_TILES} * ceil(k / BLOCK_K) * BLOCK_K * (BLOCK_M + 2 * BLOCK_N)",
        "tensor_flops": "4 * m * n * k",
        "unroll_steps": "ceil(k / BLOCK_K)",
        "vector_bytes": "16 if n % 8 == 0 and k % 8 == 0 else 2",
    },
)
