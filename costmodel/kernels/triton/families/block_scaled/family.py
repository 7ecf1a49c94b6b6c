"""Products in float8 with scales for blocks, as DeepSeek-V3 has them: m x k by n x k, groups of 128."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import float8
from costmodel.kernels.triton.families.tile_products import GROUPED, operand_reads

Arrays = Mapping[str, NDArray[Any]]

_SCALED = 128
_TILES = "(ceil(m / BLOCK_M) * ceil(n / BLOCK_N))"
# Within 1 KiB. What multiplies as a group has operands of every stage in shared memory; otherwise those in
# use are in registers.
_SHARED_BYTES = f"(num_stages if {GROUPED} else num_stages - 1) * (BLOCK_M + BLOCK_N) * BLOCK_K"


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    """Random numbers, and scales that make results of about 1."""
    rows, columns, depth = (dims[dim] for dim in "mnk")
    groups = -(-depth // _SCALED)
    of_a = rng.uniform(0.5, 1.5, (rows, groups))
    of_b = rng.uniform(1.5, 4.5, (-(-columns // _SCALED), groups)) / depth**0.5
    return {
        "a": float8.draw(rng, (rows, depth)),
        "b": float8.draw(rng, (columns, depth)),
        "a_scales": of_a.astype(np.float32),
        "b_scales": of_b.astype(np.float32),
        "y": np.full((rows, columns), np.nan, np.float16),
    }


def _reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    """The product of the numbers that the operands stand for."""
    depth, columns = dims["k"], dims["n"]
    of_a = np.repeat(arrays["a_scales"], _SCALED, axis=1)[:, :depth]
    of_b = np.repeat(np.repeat(arrays["b_scales"], _SCALED, axis=1), _SCALED, axis=0)[:columns, :depth]
    return {"y": (float8.decode(arrays["a"]) * of_a) @ (float8.decode(arrays["b"]) * of_b).T}


FAMILY = TritonFamily(
    name="block_scaled_float8",
    kernel=Path(__file__).with_name("kernel.py"),
    function="block_scaled",
    dims={"m": 1024, "n": 4096, "k": 4096},
    parameters={
        "BLOCK_M": (16, 32, 64, 128),
        "BLOCK_N": (32, 64, 128, 256),
        "BLOCK_K": (32, 64, 128),
        "GROUP_M": (1, 8, 16, 32, 64),
        "num_warps": (2, 4, 8),
        "num_stages": (2, 3, 4, 5),
    },
    # What SGLang runs where it has no table for the GPU, then what vLLM runs.
    defaults={
        **{"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 32},
        **{"num_warps": 4, "num_stages": 3},
    },
    starts=({"num_stages": 2},),
    conditions=(
        "BLOCK_M < 2 * max(m, 64)",
        "BLOCK_N < 2 * max(n, 32)",
        "BLOCK_K < 2 * max(k, 32)",
        "GROUP_M == 1 or GROUP_M <= 2 * ceil(m / BLOCK_M)",
        "128 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps",
        f"{_SHARED_BYTES} <= 200 * 1024",
    ),
    grid=(_TILES,),
    constants={"M": "m", "N": "n", "K": "k", "SCALED": _SCALED},
    arrays=_arrays,
    outputs=("y",),
    reference=_reference,
    flops="2 * m * n * k",
    launch={
        "shared_bytes": _SHARED_BYTES,
        "local_bytes": "BLOCK_M * BLOCK_N / (8 * num_warps)",
        "global_load_bytes": "k * (m * ceil(n / BLOCK_N) + n * ceil(m / BLOCK_M))",
        "global_store_bytes": "2 * m * n",
        "shared_load_bytes": f"{_TILES} * k * {operand_reads()}",
        "tensor_flops": "2 * m * n * k",
        "unroll_steps": "ceil(k / BLOCK_K)",
    },
)
