"""Which experts of a mixture each token goes to, and with what weights.

Dims: t tokens, e experts, k of them for a token, and s, how unevenly experts are liked: the logit of the i-th
most popular is lower by log(i) s / 100.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks

Arrays = Mapping[str, NDArray[Any]]


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    tokens, experts, chosen = (dims[dim] for dim in "tek")
    popularity = -dims["s"] / 100 * np.log(1 + rng.permutation(experts))
    logits = popularity + rng.standard_normal((tokens, experts))
    return {
        "logits": logits.astype(np.float32),
        "weights": np.full((tokens, chosen), np.nan, np.float32),
        "experts": np.full((tokens, chosen), -1, np.int32),
    }


def _family(name: str, *, of_chosen: bool) -> TritonFamily:
    def reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
        logits = arrays["logits"].astype(np.float64)
        experts = np.argsort(-logits, axis=1, kind="stable")[:, : dims["k"]]
        chosen = np.take_along_axis(logits, experts, axis=1)
        of_all = np.exp(logits - chosen[:, :1]).sum(axis=1, keepdims=True)
        powers = np.exp(chosen - chosen[:, :1])
        total = powers.sum(axis=1, keepdims=True) if of_chosen else of_all
        return {"weights": powers / total, "experts": experts.astype(np.int32)}

    return TritonFamily(
        name=name,
        kernel=Path(__file__).with_name("kernel.py"),
        function="expert_routing",
        dims={"t": 4096, "e": 128, "k": 8, "s": 100},
        parameters={
            "ROWS": (1, 2, 4, 8, 16, 32, 64),
            "PROGRAMS": row_blocks.PARAMETERS["PROGRAMS"],
            "num_warps": (1, 2, 4, 8),
        },
        defaults={"ROWS": 4, "PROGRAMS": 0, "num_warps": 4},
        conditions=(
            "k <= e",
            "ROWS == 1 or ROWS < 2 * t",
            "ROWS * e <= 2048 * num_warps",
            "num_warps == 1 or 16 * num_warps <= ROWS * e",
            "PROGRAMS == 0 or PROGRAMS * ROWS < t",
        ),
        grid=("PROGRAMS if PROGRAMS > 0 else ceil(t / ROWS)",),
        scalars={"t": "t"},
        constants={"EXPERTS": "e", "TOP_K": "k", "OF_CHOSEN": int(of_chosen)},
        arrays=_arrays,
        outputs=("weights", "experts"),
        reference=reference,
        flops="t * (4 * e + 5 * k * e)",
        launch={
            "vthreads": "ceil(ceil(t / ROWS) / blocks)",
            "local_bytes": "4 * ROWS * e / threads",
            "global_load_bytes": "4 * t * e",
            "global_store_bytes": "8 * t * k",
            "unroll_steps": "k",
        },
    )


FAMILIES = [
    _family("expert_routing", of_chosen=False),
    _family("expert_routing_renormalised", of_chosen=True),
]
