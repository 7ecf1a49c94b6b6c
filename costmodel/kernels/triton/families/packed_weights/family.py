"""Products of activations in float16 with weights of 4 or 8 bits, as small batches at decode have them.

Dims: m rows, n results, k elements of a row, and g, how many of them share a scale.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import normals, packed
from costmodel.kernels.triton.families.tile_products import operand_reads

Arrays = Mapping[str, NDArray[Any]]

_TILES = "(ceil(m / BLOCK_M) * ceil(n / BLOCK_N))"
_PARTIALS = "(4 * SPLIT_K * m * n if SPLIT_K > 1 else 0)"


def _family(bits: int) -> TritonFamily:
    def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
        rows, columns, depth = (dims[dim] for dim in "mnk")
        words, scales = packed.draw(rng, bits, (depth, columns), dims["g"])
        return {
            "x": normals.draw(rng, (rows, depth)),
            "words": words,
            "scales": scales,
            "y": np.full((rows, columns), np.nan, np.float16),
        }

    def reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
        weights = packed.unpack(arrays["words"], arrays["scales"], bits, dims["g"])
        return {"y": arrays["x"].astype(np.float32) @ weights}

    return TritonFamily(
        name=f"int{bits}_weights",
        kernel=Path(__file__).with_name("kernel.py"),
        function="packed_weights",
        dims={"m": 16, "n": 4096, "k": 4096, "g": 128},
        parameters={
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_N": (16, 32, 64, 128, 256),
            "BLOCK_K": (32, 64, 128),
            "SPLIT_K": (1, 2, 4, 8, 16),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (2, 3, 4, 5),
        },
        # What vLLM's kernel for AWQ runs.
        defaults={
            **{"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SPLIT_K": 8},
            **{"num_warps": 4, "num_stages": 3},
        },
        conditions=(
            f"k % {packed.WORD_BITS // bits} == 0",
            "g % BLOCK_K == 0",
            "BLOCK_M < 2 * max(m, 32)",
            "BLOCK_N < 2 * max(n, 16)",
            "BLOCK_M * BLOCK_N <= 4096 * num_warps",  # results of a thread: 128
            "(BLOCK_M + BLOCK_N) * BLOCK_K <= 4096 * num_warps",  # its operands: 128
            "64 * num_warps <= BLOCK_M * BLOCK_N",
            f"num_stages * (2 * BLOCK_M + {bits} * BLOCK_N / 8) * BLOCK_K <= 200 * 1024",
            f"SPLIT_K == 1 or SPLIT_K <= ceil(k / BLOCK_K) and SPLIT_K * {_TILES} <= 4224",  # 32 for each SM
        ),
        grid=(f"{_TILES} * SPLIT_K",),
        constants={"M": "m", "N": "n", "K": "k", "BITS": bits, "SCALED": "g"},
        scratch={"partials": _PARTIALS, "arrivals": f"4 * {_TILES} if SPLIT_K > 1 else 0"},
        scratch_types={"partials": "float32", "arrivals": "int32"},
        arrays=arrays,
        outputs=("y",),
        reference=reference,
        flops="2 * m * n * k",
        launch={
            "local_bytes": "BLOCK_M * BLOCK_N / (8 * num_warps)",
            "global_load_bytes": f"ceil(m / BLOCK_M) * n * k * ({bits / 8} + 2 / g)"
            f" + 2 * m * k * ceil(n / BLOCK_N) + {_PARTIALS}",
            "global_store_bytes": f"2 * m * n + {_PARTIALS}",
            "shared_load_bytes": f"2 * {_TILES} * k * {operand_reads()}",
            "tensor_flops": "2 * m * n * k",
            "unroll_steps": "ceil(k / (BLOCK_K * SPLIT_K))",
        },
    )


FAMILIES = [_family(4), _family(8)]
