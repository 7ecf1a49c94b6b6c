"""A product of a mixture of experts: each token times the weights of the experts that it is routed to.

``fused_moe`` is the first product of a feed-forward block, ``fused_moe_weighted`` the same with each result
times the routing weight of its expert. Dims: t tokens, e experts, k of them for a token, n results, d
elements of a token, and s, how unevenly experts are chosen: the i-th most popular as often as i^(-s / 100).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import normals, routing
from costmodel.kernels.triton.families.tile_products import GROUPED, operand_reads

Arrays = Mapping[str, NDArray[Any]]

_TILES_M = routing.TILES_M
_TILES = f"{_TILES_M} * ceil(n / BLOCK_N)"
# What multiplies as a group has operands of every stage in shared memory. Otherwise those in use are in
# registers, which spares a stage.
_STAGED = f"(num_stages if {GROUPED} else num_stages - 1)"
_SHARED_BYTES = f"max(2 * {_STAGED} * (BLOCK_M + BLOCK_N) * BLOCK_K, 2 * BLOCK_M * BLOCK_N)"


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    tokens, experts, chosen, width, depth = (dims[name] for name in "teknd")
    routed = routing.draw(dims, rng)
    weights = rng.random((tokens, chosen), np.float32)
    return {
        **routed,
        "x": normals.draw(rng, (tokens, depth)),
        "w": normals.draw(rng, (experts, width, depth), depth**-0.5),
        "weights": (weights / weights.sum(axis=1, keepdims=True)).ravel(),
        "y": np.full((tokens * chosen, width), np.nan, np.float16),
    }


def _reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    weights = arrays["w"]
    return {
        "y": routing.multiply(
            arrays["x"].astype(np.float32), lambda expert: weights[expert].astype(np.float32), arrays, dims
        )
    }


def _weighted_reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    return {"y": _reference(arrays, dims)["y"] * arrays["weights"][:, None]}


def _family(name: str, *, weighted: bool) -> TritonFamily:
    return TritonFamily(
        name=name,
        kernel=Path(__file__).with_name("kernel.py"),
        function="fused_moe",
        dims={"t": 512, "e": 32, "k": 8, "n": 1024, "d": 1024, "s": 100},
        parameters={
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_N": (32, 64, 128, 256),
            "BLOCK_K": (32, 64, 128, 256),
            "GROUP_M": (1, 8, 16, 32, 64),
            "num_warps": (2, 4, 8),
            "num_stages": (2, 3, 4, 5),
        },
        defaults={
            **{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 1},
            **{"num_warps": 4, "num_stages": 3},
        },
        conditions=(
            "BLOCK_M < 2 * max(t, 64)",
            "BLOCK_N < 2 * max(n, 32)",
            "BLOCK_K < 2 * max(d, 32)",
            f"GROUP_M == 1 or GROUP_M <= 2 * {_TILES_M}",
            # What tables of frameworks have: 4 to 128 results a thread, and up to 512 operands.
            "128 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps",
            "(BLOCK_M + BLOCK_N) * BLOCK_K <= 16384 * num_warps",
            f"{_SHARED_BYTES} <= 232448",
        ),
        grid=(_TILES,),
        constants={
            **{"EXPERTS": "e", "TOP_K": "k", "N": "n", "D": "d"},
            **{"TILES_M": _TILES_M, "WEIGHTED": int(weighted)},
        },
        arrays=_arrays,
        outputs=("y",),
        reference=_weighted_reference if weighted else _reference,
        flops=f"t * k * n * (2 * d + {int(weighted)})",
        launch={
            "shared_bytes": _SHARED_BYTES,
            "local_bytes": "BLOCK_M * BLOCK_N / (8 * num_warps)",
            # Of weights no more than this, as no more tiles than this have assignments.
            "global_load_bytes": f"2 * d * (t * k * ceil(n / BLOCK_N) + n * {_TILES_M})",
            "global_store_bytes": "2 * t * k * n",
            "shared_load_bytes": f"2 * {_TILES} * ceil(d / BLOCK_K) * BLOCK_K * {operand_reads()}",
            "shared_store_bytes": f"2 * {_TILES} * ceil(d / BLOCK_K) * BLOCK_K * (BLOCK_M + BLOCK_N)",
            "tensor_flops": "2 * t * k * n * d",
            "unroll_steps": "ceil(d / BLOCK_K)",
            "vector_bytes": "16 if d % 8 == 0 else 2",
        },
    )


FAMILIES = [_family("fused_moe", weighted=False), _family("fused_moe_weighted", weighted=True)]
