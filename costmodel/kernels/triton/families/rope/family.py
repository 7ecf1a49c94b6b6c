"""Rotary position embedding of heads ``(tokens, heads, size)``, whose halves are pairs of coordinates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._family import TritonFamily

_BASE = 10_000.0  # of the wavelengths


def _arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random normal heads, the angles of each token, and an output that nobody has written."""
    tokens, heads, half = dims["t"], dims["h"], dims["d"] // 2
    angles = np.arange(tokens)[:, None] * _BASE ** (-np.arange(half) / half)
    return {
        "x": rng.standard_normal((tokens, heads, 2 * half)).astype(np.float16),
        "cosines": np.cos(angles).astype(np.float32),
        "sines": np.sin(angles).astype(np.float32),
        "y": np.full((tokens, heads, 2 * half), np.nan, np.float16),
    }


def _reference(arrays: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """Pairs as complex numbers, turned by the angle of their token."""
    half = dims["d"] // 2
    x = arrays["x"].astype(np.float64)
    turned = (x[..., :half] + 1j * x[..., half:]) * (arrays["cosines"] + 1j * arrays["sines"])[:, None]
    return {"y": np.concatenate([turned.real, turned.imag], axis=-1)}


_HALF = "(16 if d <= 32 else 32 if d <= 64 else 64 if d <= 128 else 128)"  # of a head, to a power of two

FAMILY = TritonFamily(
    name="rope",
    kernel=Path(__file__).with_name("kernel.py"),
    function="rope",
    dims={"t": 4096, "h": 32, "d": 128},
    parameters={
        "TOKENS": (1, 2, 4, 8, 16),
        "BLOCK_H": (1, 2, 4, 8, 16, 32, 64),
        "PROGRAMS": (0, 32, 64, 132, 264, 528, 1056),
        "STAGES": (1, 2, 3),
        "num_warps": (1, 2, 4, 8, 16),
    },
    defaults={"TOKENS": 1, "BLOCK_H": 32, "PROGRAMS": 0, "STAGES": 1, "num_warps": 4},
    conditions=(
        "d % 2 == 0 and d <= 256",
        "TOKENS == 1 or TOKENS < 2 * t",
        "BLOCK_H == 1 or BLOCK_H < 2 * h",
        f"TOKENS * BLOCK_H * {_HALF} <= 1024 * num_warps",
        f"num_warps == 1 or 32 * num_warps <= TOKENS * BLOCK_H * {_HALF}",
        "PROGRAMS == 0 or PROGRAMS < ceil(t / TOKENS) * ceil(h / BLOCK_H)",
        "STAGES == 1 or PROGRAMS > 0",
    ),
    grid=("PROGRAMS if PROGRAMS > 0 else ceil(t / TOKENS) * ceil(h / BLOCK_H)",),
    scalars={"t": "t"},
    constants={"H": "h", "HALF": "d // 2"},
    arrays=_arrays,
    outputs=("y",),
    reference=_reference,
    library=Path(__file__).with_name("library.py"),
    library_calls=("eager",),
    flops="3 * t * h * d",
    launch={
        "vthreads": "ceil(ceil(t / TOKENS) * ceil(h / BLOCK_H) / blocks)",
        "shared_bytes": f"4 * (STAGES - 1) * TOKENS * (BLOCK_H + 2) * {_HALF}",
        "local_bytes": f"8 * TOKENS * BLOCK_H * {_HALF} / threads",
        "global_load_bytes": "2 * t * h * d + 4 * t * d * ceil(h / BLOCK_H)",
        "global_store_bytes": "2 * t * h * d",
    },
)
