"""A persistent kernel: how many programs it has is a parameter, which the kernel itself does not take."""

from pathlib import Path

import numpy as np

from costmodel.kernels import TritonFamily

FAMILY = TritonFamily(
    name="persistent",
    kernel=Path(__file__).with_name("kernel.py"),
    function="double",
    dims={"n": 100_000},
    parameters={"BLOCK": (128, 256), "PROGRAMS": (8, 16, 132), "num_warps": (4,)},
    conditions=("(PROGRAMS - 1) * BLOCK < n",),
    grid=("PROGRAMS",),
    scalars={"n": "n"},
    arrays=lambda dims, rng: {
        "x": rng.standard_normal(dims["n"]).astype(np.float32),
        "y": np.full(dims["n"], np.nan, np.float32),
    },
    outputs=("y",),
    reference=lambda arrays, dims: {"y": 2.0 * arrays["x"].astype(np.float64)},
)
