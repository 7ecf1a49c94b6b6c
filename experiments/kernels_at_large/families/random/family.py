"""Kernels that draw random numbers."""

from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "philox_uniform": ({"n": 1 << 20}, {"n": 600011}),
    "seeded_dropout": ({"n": 1 << 20}, {"n": 700001}),
    "normal_noise": ({"n": 1 << 20}, {"n": 500009}),
    "bernoulli_words": ({"n": 1 << 15}, {"n": 20011}),
    "sign_projection": ({"m": 1024, "k": 1024, "n": 128}, {"m": 333, "k": 3001, "n": 77}),
    "darts_at_a_circle": ({"n": 1 << 17, "t": 128}, {"n": 50021, "t": 77}),
    "xorshift_walk": ({"n": 1 << 18, "t": 64}, {"n": 100003, "t": 77}),
    "draw_by_counts": ({"m": 8192, "n": 256}, {"m": 2001, "n": 1000}),
}
SEED = 20261


def family(name: str, **told: Any) -> TritonFamily:
    """One of the kernels in ``kernel.py``, at the first of its sizes unless others are asked for."""
    kernel = Path(__file__).with_name("kernel.py")
    return TritonFamily(name=name, kernel=kernel, function=name, dims=SIZES[name][0], **told)


def empty(shape, dtype=np.float32):
    """An output that nobody has written."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def normal(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape, np.float32).astype(dtype)


def philox(count):
    """Ten rounds of Philox4x32 at counters from 0 (Salmon et al., Parallel random numbers, 2011)."""
    low = np.uint64(0xFFFFFFFF)
    c0 = np.arange(count, dtype=np.uint64)
    c1 = c2 = c3 = np.zeros_like(c0)
    k0, k1 = SEED, 0
    for _ in range(10):
        b, a = c2 * np.uint64(0xCD9E8D57), c0 * np.uint64(0xD2511F53)
        c0, c2 = (b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1)
        c1, c3 = b & low, a & low
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c.astype(np.uint32).view(np.int32) for c in (c0, c1, c2, c3)]


def uniform(bits):
    return np.where(bits < 0, ~bits, bits) / 2.0**31


def philox_uniform(arrays, dims):
    return {"out": sum(2.0**i * uniform(bits) for i, bits in enumerate(philox(dims["n"])))}


def seeded_dropout(arrays, dims):
    kept = uniform(philox(dims["n"])[0]) > 0.25
    return {"y": np.where(kept, arrays["x"].astype(np.float64) / 0.75, 0)}


def normal_noise(arrays, dims):
    """By Box and Muller."""
    first, second = (uniform(bits) for bits in philox(dims["n"])[:2])
    drawn = np.sqrt(-2 * np.log(np.maximum(first, 1e-7))) * np.cos(2 * np.pi * second)
    return {"y": arrays["x"] + 0.5 * drawn}


LIMIT = -(1 << 30)


def bernoulli_words(arrays, dims):
    bits = (philox(32 * dims["n"])[0] < LIMIT).reshape(-1, 32)
    return {"words": np.packbits(bits, axis=1, bitorder="little").view(np.int32).ravel()}


def sign_projection(arrays, dims):
    odd = philox(dims["k"] * dims["n"])[0] & 1
    signs = (1 - 2 * odd).reshape(dims["k"], dims["n"])
    return {"y": arrays["x"].astype(np.float32) @ signs.astype(np.float32)}


def darts_at_a_circle(arrays, dims):
    state = np.arange(dims["n"], dtype=np.uint32) * np.uint32(747796405) + np.uint32(12345)
    hits = 0
    for _ in range(dims["t"]):
        point = []
        for _ in range(2):
            state = state * np.uint32(1664525) + np.uint32(1013904223)
            point.append((state >> np.uint32(17)).astype(np.int64))
        hits += int((point[0] ** 2 + point[1] ** 2 < 32767**2).sum())
    return {"hits": np.array([hits], np.int32)}


def xorshift_walk(arrays, dims):
    state, position = arrays["states"].copy(), np.zeros(dims["n"], np.int32)
    for _ in range(dims["t"]):
        state ^= state << np.uint32(13)
        state ^= state >> np.uint32(17)
        state ^= state << np.uint32(5)
        position += np.where(state % 2, -1, 1).astype(np.int32)
    return {"states": state, "positions": position}


def draw_by_counts(arrays, dims):
    ends = arrays["counts"].cumsum(axis=1)
    drawn = philox(dims["m"])[0].view(np.uint32).astype(np.int64) * ends[:, -1] >> 32
    return {"chosen": (ends <= drawn[:, None]).sum(axis=1).astype(np.int32)}


WARPS = (1, 2, 4, 8)
FITS = ("BLOCK >= 32 * num_warps", "BLOCK <= 512 * num_warps")

FAMILIES = [
    family(
        "philox_uniform",
        parameters={"BLOCK": (64, 128, 256, 512, 1024, 2048), "FOUR": (0, 1), "num_warps": WARPS},
        defaults={"BLOCK": 512, "FOUR": 1, "num_warps": 4},
        conditions=("BLOCK >= 16 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n", "seed": SEED},
        arrays=lambda dims, rng: {"out": empty(dims["n"])},
        outputs=("out",),
        reference=philox_uniform,
    ),
    family(
        "seeded_dropout",
        parameters={"BLOCK": (64, 128, 256, 512, 1024, 2048), "ITEMS": (1, 2, 4), "num_warps": WARPS},
        defaults={"BLOCK": 512, "ITEMS": 1, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n", "p": 0.25, "seed": SEED},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["n"], dtype=np.float16),
            "y": empty(dims["n"], np.float16),
        },
        outputs=("y",),
        reference=seeded_dropout,
    ),
    family(
        "normal_noise",
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024),
            "PROGRAMS": (132, 264, 1056, 2112),
            "num_warps": WARPS,
        },
        defaults={"BLOCK": 512, "PROGRAMS": 1056, "num_warps": 4},
        conditions=FITS,
        grid=("PROGRAMS",),
        scalars={"n": "n", "scale": 0.5, "seed": SEED},
        arrays=lambda dims, rng: {"x": normal(rng, dims["n"]), "y": empty(dims["n"])},
        outputs=("y",),
        reference=normal_noise,
    ),
    family(
        "bernoulli_words",
        parameters={"BLOCK": (8, 16, 32, 64, 128, 256), "AT_ONCE": (1, 4, 16, 32), "num_warps": WARPS},
        defaults={"BLOCK": 32, "AT_ONCE": 16, "num_warps": 4},
        conditions=("BLOCK * AT_ONCE >= 32 * num_warps", "BLOCK * AT_ONCE <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n", "limit": LIMIT, "seed": SEED},
        arrays=lambda dims, rng: {"words": np.zeros(dims["n"], np.int32)},
        outputs=("words",),
        reference=bernoulli_words,
    ),
    family(
        "sign_projection",
        parameters={
            "BM": (16, 32, 64, 128),
            "BN": (16, 32, 64),
            "BK": (16, 32, 64),
            "num_warps": (2, 4, 8),
        },
        defaults={"BM": 64, "BN": 32, "BK": 32, "num_warps": 4},
        conditions=("BK * BN <= 1024 * num_warps", "BM * BN >= 64 * num_warps"),
        grid=("ceil(m / BM)", "ceil(n / BN)"),
        scalars={"M": "m", "K": "k", "N": "n", "seed": SEED},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["k"], dtype=np.float16),
            "y": empty((dims["m"], dims["n"])),
        },
        outputs=("y",),
        reference=sign_projection,
    ),
    family(
        "darts_at_a_circle",
        parameters={"BLOCK": (32, 64, 128, 256, 512, 1024), "UNROLL": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 128, "UNROLL": 1, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n", "throws": "t"},
        arrays=lambda dims, rng: {"hits": np.zeros(1, np.int32)},
        outputs=("hits",),
        reference=darts_at_a_circle,
    ),
    family(
        "xorshift_walk",
        parameters={"BLOCK": (32, 64, 128, 256, 512, 1024), "UNROLL": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 128, "UNROLL": 1, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n"},
        constants={"STEPS": "t"},
        arrays=lambda dims, rng: {
            "states": rng.integers(1, 1 << 32, dims["n"], np.uint32),
            "positions": np.full(dims["n"], 999, np.int32),
        },
        outputs=("states", "positions"),
        reference=xorshift_walk,
    ),
    family(
        "draw_by_counts",
        parameters={"ROWS": (1, 2, 4, 8, 16), "num_warps": WARPS, "maxnreg": (0, 64, 128)},
        defaults={"ROWS": 4, "num_warps": 4, "maxnreg": 0},
        conditions=("ROWS * n <= 2048 * num_warps", "ROWS * n >= 32 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m", "seed": SEED},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "counts": rng.integers(0, 1000, (dims["m"], dims["n"]), np.int32),
            "chosen": empty(dims["m"], np.int32),
        },
        outputs=("chosen",),
        reference=draw_by_counts,
    ),
]
