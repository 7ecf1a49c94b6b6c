"""A kernel of one's own, with faults to choose."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.kernels import TritonFamily

Arrays = Mapping[str, Any]


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    shape = dims["m"], dims["n"]
    return {
        "y": np.full(shape, np.nan, np.float16),
        "x": rng.standard_normal(shape).astype(np.float16),
        "bias": rng.standard_normal(1).astype(np.float32),
    }


def reference(arrays: Arrays, dims: Mapping[str, int]) -> Arrays:
    return {"y": 2.5 * arrays["x"].astype(np.float64) + 2 * arrays["bias"]}


FAMILY = TritonFamily(
    name="scale",
    kernel=Path(__file__).with_name("kernel.py"),
    function="scale",
    dims={"m": 64, "n": 1000},
    parameters={
        "BLOCK": (128, 256, 512, 1024),
        "FAULT": ("", "assertion", "wrong", "leaves", "once"),
        "num_warps": (1, 2, 4, 8),
        "maxnreg": (0, 32),
    },
    defaults={"num_warps": 4},
    conditions=("BLOCK < 2 * n", "FAULT == '' or BLOCK == 128"),
    grid=("m",),
    scalars={"m": "m", "n": "n", "factor": 2.5},
    constants={"TWICE": 2},
    scratch={"done": "4 * m"},
    scratch_types={"done": "float32"},
    arrays=arrays,
    outputs=("y",),
    reference=reference,
    flops="m * n",
    launch={"global_load_bytes": "2 * m * n", "shared_bytes": "4 * threads"},
)
