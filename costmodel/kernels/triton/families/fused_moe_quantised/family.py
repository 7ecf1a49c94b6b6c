"""The first product of a mixture of experts with quantised weights: float8 by blocks, 4 and 8 bits by groups.

Dims as those of ``fused_moe``: t tokens, e experts, k of them for a token, n results, d elements of a token,
and s, how unevenly experts are chosen. Of packed weights, g elements of d share a scale.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import float8, normals, packed, routing
from costmodel.kernels.triton.families.tile_products import operand_reads

Arrays = Mapping[str, NDArray[Any]]

_SCALED = 128
_TILES_M = routing.TILES_M
_TILES = f"{_TILES_M} * ceil(n / BLOCK_N)"
_DIMS = {"t": 512, "e": 32, "k": 8, "n": 1024, "d": 1024}
_CONSTANTS = {"EXPERTS": "e", "TOP_K": "k", "N": "n", "D": "d", "TILES_M": _TILES_M}
_PARAMETERS = {
    "BLOCK_M": (16, 32, 64, 128),
    "BLOCK_N": (32, 64, 128, 256),
    "BLOCK_K": (32, 64, 128),
    "GROUP_M": (1, 16, 32, 64),
    "num_warps": (2, 4, 8),
    "num_stages": (2, 3, 4, 5),
}
_CONDITIONS = (
    "BLOCK_M < 2 * max(t, 64)",
    "BLOCK_N < 2 * max(n, 32)",
    "128 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps",  # 4 to 128 results a thread
)


def _shared(of_token: int, of_weight: float, conditions: Sequence[str]) -> dict[str, Any]:
    """Return what the families share.

    Args:
        of_token: Bytes of an element of a token.
        of_weight: Bytes of a weight.
        conditions: Further ones.
    """
    tokens, weights = f"{of_token} * t * k * ceil(n / BLOCK_N)", f"{of_weight} * n * {_TILES_M}"
    return {
        "kernel": Path(__file__).with_name("kernel.py"),
        "parameters": _PARAMETERS,
        # A thread has operands of up to 512 bytes.
        "conditions": (
            *_CONDITIONS,
            f"(BLOCK_M + BLOCK_N) * BLOCK_K <= {16384 // of_token} * num_warps",
            *conditions,
        ),
        "grid": (_TILES,),
        "outputs": ("y",),
        "flops": "2 * t * k * n * d",
        "launch": {
            "local_bytes": "BLOCK_M * BLOCK_N / (8 * num_warps)",
            # Of weights no more than this, as no more tiles than this have assignments.
            "global_load_bytes": f"d * ({tokens} + {weights})",
            "global_store_bytes": "2 * t * k * n",
            "shared_load_bytes": f"{of_token} * {_TILES} * d * {operand_reads()}",
            "tensor_flops": "2 * t * k * n * d",
            "unroll_steps": "ceil(d / BLOCK_K)",
        },
    }


def _float8_arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    tokens, experts, width, depth = (dims[name] for name in "tend")
    blocks, groups = -(-width // _SCALED), -(-depth // _SCALED)
    of_w = rng.uniform(1.5, 4.5, (experts, blocks, groups)) / depth**0.5
    return {
        **routing.draw(dims, rng),
        "x": float8.draw(rng, (tokens, depth)),
        "x_scales": rng.uniform(0.5, 1.5, (tokens, groups)).astype(np.float32),
        "w": float8.draw(rng, (experts, width, depth)),
        "w_scales": of_w.astype(np.float32),
        "y": np.full((tokens * dims["k"], width), np.nan, np.float16),
    }


def _float8_reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    width, depth = dims["n"], dims["d"]
    x = float8.decode(arrays["x"]) * np.repeat(arrays["x_scales"], _SCALED, axis=1)[:, :depth]

    def weights(expert: int) -> NDArray[Any]:
        scales = np.repeat(np.repeat(arrays["w_scales"][expert], _SCALED, axis=0), _SCALED, axis=1)
        scaled: NDArray[Any] = float8.decode(arrays["w"][expert]) * scales[:width, :depth]
        return scaled

    return {"y": routing.multiply(x, weights, arrays, dims)}


def _packed(bits: int) -> TritonFamily:
    def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
        tokens, experts, width, depth = (dims[name] for name in "tend")
        routed = routing.draw(dims, rng)
        words, scales = packed.draw(rng, bits, (experts, depth, width), dims["g"])
        return {
            **routed,
            "x": normals.draw(rng, (tokens, depth)),
            "words": words,
            "scales": scales,
            "y": np.full((tokens * dims["k"], width), np.nan, np.float16),
        }

    def reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
        def weights(expert: int) -> NDArray[Any]:
            return packed.unpack(arrays["words"][expert], arrays["scales"][expert], bits, dims["g"]).T

        return {"y": routing.multiply(arrays["x"].astype(np.float32), weights, arrays, dims)}

    stages = f"num_stages * (2 * BLOCK_M + {bits} * BLOCK_N / 8) * BLOCK_K <= 200 * 1024"
    return TritonFamily(
        name=f"fused_moe_int{bits}",
        function="packed_moe",
        dims={**_DIMS, "g": 128, "s": 100},
        # What vLLM runs for weights of so many bits at small batches.
        defaults={"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 1, "num_warps": 4, "num_stages": 3},
        constants={**_CONSTANTS, "BITS": bits, "SCALED": "g"},
        arrays=arrays,
        reference=reference,
        **_shared(2, bits / 8, (f"d % {packed.WORD_BITS // bits} == 0", "g % BLOCK_K == 0", stages)),
    )


_FLOAT8 = TritonFamily(
    name="fused_moe_float8",
    function="float8_moe",
    dims={**_DIMS, "s": 100},
    # What vLLM and SGLang run for scales of blocks where they have no table for the GPU.
    defaults={"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 32, "num_warps": 4, "num_stages": 3},
    constants={**_CONSTANTS, "SCALED": _SCALED},
    arrays=_float8_arrays,
    reference=_float8_reference,
    **_shared(1, 1, ("num_stages * (BLOCK_M + BLOCK_N) * BLOCK_K <= 200 * 1024",)),
)
FAMILIES = [_FLOAT8, _packed(4), _packed(8)]
