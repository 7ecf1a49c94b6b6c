"""Steps of optimisers, in place: parameters and their state are read and written."""

from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "sgd_momentum": ({"n": 1 << 22}, {"n": 1300007}),
    "adam": ({"n": 1 << 21}, {"n": 777777}),
    "adamw_half": ({"n": 1 << 22}, {"n": 1000001}),
    "lion": ({"n": 1 << 22}, {"n": 500009}),
    "adagrad_rows": ({"v": 20000, "k": 8192, "w": 256}, {"v": 9000, "k": 3001, "w": 1000}),
    "rmsprop_centred": ({"n": 1 << 21}, {"n": 654321}),
    "lamb_rows": ({"m": 1024, "n": 4096}, {"m": 301, "n": 9001}),
    "moving_average_of_halves": ({"n": 1 << 23}, {"n": 2500001}),
    "clip_by_partial_norm": ({"n": 1 << 23, "p": 512}, {"n": 1700001, "p": 4000}),
    "squares_of_layers": ({"l": 128, "n": 65536}, {"l": 1111, "n": 3000}),
    "unscale_and_check": ({"n": 1 << 22}, {"n": 2000003}),
}


def family(name: str, **told: Any) -> TritonFamily:
    """One of the kernels in ``kernel.py``, at the first of its sizes unless others are asked for."""
    kernel = Path(__file__).with_name("kernel.py")
    return TritonFamily(name=name, kernel=kernel, function=name, dims=SIZES[name][0], **told)


def empty(shape, dtype=np.float32):
    """An output that nobody has written."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def normal(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape, np.float32).astype(dtype)


def positive(rng, *shape):
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)


def wide(arrays, names):
    return (arrays[name].astype(np.float64) for name in names)


def sgd_momentum(arrays, dims):
    p, g, v = wide(arrays, "pgv")
    g += 0.01 * p
    v = 0.9 * v + g
    return {"p": p - 0.1 * (g + 0.9 * v), "v": v}


def adam(arrays, dims):
    p, g, m, v = wide(arrays, ("param", "grad", "exp_avg", "exp_avg_sq"))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    return {"param": p - 0.01 * (m / 0.5) / (np.sqrt(v / 0.25) + 1e-8), "exp_avg": m, "exp_avg_sq": v}


def adamw_half(arrays, dims):
    p, g, m, v = wide(arrays, ("master", "grad", "m", "v"))
    g /= 128
    m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g**2
    p = p * (1 - 0.01 * 0.1) - 0.01 * m / np.sqrt(v)
    return {"master": p, "half": p, "m": m, "v": v}


def lion(arrays, dims):
    p, g, m = wide(arrays, "pgm")
    return {"p": p - 0.25 * np.sign(0.9 * m + 0.1 * g), "m": 0.99 * m + 0.01 * g}


def adagrad_rows(arrays, dims):
    table, sums, grad = wide(arrays, ("table", "sums", "grad"))
    rows = arrays["rows"]
    sums[rows] += (grad**2).mean(axis=1)
    table[rows] -= 0.05 * grad / np.sqrt(sums[rows])[:, None]
    return {"table": table, "sums": sums}


def rmsprop_centred(arrays, dims):
    p, g, s, a = wide(arrays, "pgsa")
    s, a = 0.99 * s + 0.01 * g**2, 0.99 * a + 0.01 * g
    return {"p": p - 0.02 * g / (np.sqrt(s - a**2) + 1e-3), "s": s, "a": a}


def lamb_rows(arrays, dims):
    p, g = wide(arrays, "pg")
    step = g / (np.abs(g) + 1e-2) + 0.01 * p
    ratio = np.linalg.norm(p, axis=1) / np.linalg.norm(step, axis=1)
    return {"out": p - 0.1 * ratio[:, None] * step}


def moving_average_of_halves(arrays, dims):
    average, p = wide(arrays, ("average", "p"))
    return {"average": 0.75 * average + 0.25 * p}


def clip_by_partial_norm(arrays, dims):
    g, partial = wide(arrays, ("g", "partial"))
    return {"out": g * min(10 / np.sqrt(partial.sum()), 1)}


def layers(dims, rng):
    """Layers of half to one and a half times ``n`` elements in one array."""
    starts = np.zeros(dims["l"] + 1, np.int32)
    starts[1:] = rng.integers(dims["n"] // 2, 3 * dims["n"] // 2, dims["l"]).cumsum()
    return {"g": normal(rng, int(starts[-1])), "starts": starts, "sums": np.zeros(dims["l"], np.float32)}


def squares_of_layers(arrays, dims):
    return {"sums": np.add.reduceat(arrays["g"].astype(np.float64) ** 2, arrays["starts"][:-1])}


def scaled_gradients(dims, rng):
    """Float16 gradients of which a few are infinite or NaN."""
    g = normal(rng, dims["n"], dtype=np.float16)
    g[rng.integers(0, dims["n"], 3)] = np.inf
    g[rng.integers(0, dims["n"], 3)] = np.nan
    return {"g": g, "out": empty(dims["n"]), "found": np.zeros(1, np.int32)}


def unscale_and_check(arrays, dims):
    g = arrays["g"].astype(np.float64)
    finite = np.isfinite(g)
    return {"out": np.where(finite, g, 0) / 1024, "found": np.array([not finite.all()], np.int32)}


BLOCKS = (128, 256, 512, 1024, 2048, 4096)
WARPS = (1, 2, 4, 8)
FITS = ("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps")

FAMILIES = [
    family(
        "sgd_momentum",
        parameters={"BLOCK": BLOCKS, "ITEMS": (1, 2, 4), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "ITEMS": 1, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n", "rate": 0.1, "momentum": 0.9, "decay": 0.01},
        arrays=lambda dims, rng: {name: normal(rng, dims["n"]) for name in "pgv"},
        outputs=("p", "v"),
        reference=sgd_momentum,
    ),
    family(
        "adam",
        parameters={
            "BLOCK_SIZE": (64, *BLOCKS, 8192),
            "num_warps": (1, 2, 4, 8, 16),
            "maxnreg": (0, 32),
        },
        defaults={"BLOCK_SIZE": 1024, "num_warps": 4, "maxnreg": 0},
        conditions=("BLOCK_SIZE >= 32 * num_warps", "BLOCK_SIZE <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK_SIZE)",),
        scalars={"numel": "n", "lr": 0.01, "c1": 0.5, "c2": 0.25},
        arrays=lambda dims, rng: {
            "param": normal(rng, dims["n"]),
            "grad": normal(rng, dims["n"]),
            "exp_avg": normal(rng, dims["n"]),
            "exp_avg_sq": positive(rng, dims["n"]),
        },
        outputs=("param", "exp_avg", "exp_avg_sq"),
        reference=adam,
    ),
    family(
        "adamw_half",
        parameters={
            "BLOCK": (256, 512, 1024, 2048),
            "PROGRAMS": (132, 264, 528, 1056),
            "STAGES": (1, 2, 3),
            "num_warps": (4, 8),
        },
        defaults={"BLOCK": 1024, "PROGRAMS": 528, "STAGES": 1, "num_warps": 4},
        conditions=FITS,
        grid=("PROGRAMS",),
        scalars={"n": "n", "lr": 0.01, "decay": 0.1, "scale": "1 / 128"},
        arrays=lambda dims, rng: {
            "master": normal(rng, dims["n"]),
            "half": empty(dims["n"], np.float16),
            "grad": normal(rng, dims["n"], dtype=np.float16),
            "m": normal(rng, dims["n"]),
            "v": positive(rng, dims["n"]),
        },
        outputs=("master", "half", "m", "v"),
        reference=adamw_half,
    ),
    family(
        "lion",
        parameters={"BLOCK": (64, *BLOCKS, 8192), "EVICT": (0, 1), "num_warps": (1, 2, 4, 8, 16)},
        defaults={"BLOCK": 1024, "EVICT": 0, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 2048 * num_warps"),
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n", "lr": 0.25},
        arrays=lambda dims, rng: {
            "p": normal(rng, dims["n"]),
            "g": normal(rng, dims["n"], dtype=np.float16),
            "m": normal(rng, dims["n"]),
        },
        outputs=("p", "m"),
        reference=lion,
    ),
    family(
        "adagrad_rows",
        parameters={"ROWS": (1, 2, 4, 8, 16), "BLOCK": (32, 64, 128, 256, 512), "num_warps": WARPS},
        defaults={"ROWS": 1, "BLOCK": 256, "num_warps": 4},
        conditions=("ROWS * BLOCK >= 32 * num_warps", "ROWS * BLOCK <= 1024 * num_warps"),
        grid=("ceil(k / ROWS)",),
        scalars={"count": "k", "lr": 0.05},
        constants={"W": "w"},
        arrays=lambda dims, rng: {
            "table": normal(rng, dims["v"], dims["w"]),
            "sums": positive(rng, dims["v"]),
            "grad": normal(rng, dims["k"], dims["w"]),
            "rows": rng.permutation(dims["v"])[: dims["k"]].astype(np.int64),
        },
        outputs=("table", "sums"),
        reference=adagrad_rows,
    ),
    family(
        "rmsprop_centred",
        parameters={"BLOCK": BLOCKS, "PROGRAMS": (132, 528, 1056, 2112), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "PROGRAMS": 528, "num_warps": 4},
        conditions=FITS,
        grid=("PROGRAMS",),
        scalars={"n": "n", "lr": 0.02},
        arrays=lambda dims, rng: {
            "p": normal(rng, dims["n"]),
            "g": normal(rng, dims["n"]),
            "s": 2 * positive(rng, dims["n"]),
            "a": 0.1 * normal(rng, dims["n"]),
        },
        outputs=("p", "s", "a"),
        reference=rmsprop_centred,
    ),
    family(
        "lamb_rows",
        parameters={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "KEEP": (0, 1),
            "num_warps": (1, 2, 4, 8, 16),
            "num_stages": (1, 2, 4),
        },
        defaults={"BLOCK": 1024, "KEEP": 0, "num_warps": 4, "num_stages": 2},
        conditions=(
            "BLOCK >= 32 * num_warps",
            "BLOCK <= 512 * num_warps",
            "not KEEP or (BLOCK == 4096 and num_stages == 1)",
        ),
        grid=("m",),
        scalars={"lr": 0.1},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "p": normal(rng, dims["m"], dims["n"]),
            "g": normal(rng, dims["m"], dims["n"]),
            "out": empty((dims["m"], dims["n"])),
        },
        outputs=("out",),
        reference=lamb_rows,
    ),
    family(
        "moving_average_of_halves",
        parameters={"BLOCK": BLOCKS, "WIDE": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "WIDE": 1, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * WIDE))",),
        scalars={"n": "n", "keep": 0.75},
        arrays=lambda dims, rng: {
            "average": normal(rng, dims["n"]),
            "p": normal(rng, dims["n"], dtype=np.float16),
        },
        outputs=("average",),
        reference=moving_average_of_halves,
    ),
    family(
        "clip_by_partial_norm",
        parameters={"BLOCK": (256, 512, 1024, 2048, 4096), "ITEMS": (1, 4, 16), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "ITEMS": 4, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n", "limit": 10.0},
        constants={"PARTS": "p"},
        arrays=lambda dims, rng: {
            "g": normal(rng, dims["n"], dtype=np.float16),
            "partial": positive(rng, dims["p"]),
            "out": empty(dims["n"], np.float16),
        },
        outputs=("out",),
        reference=clip_by_partial_norm,
    ),
    family(
        "squares_of_layers",
        parameters={"BLOCK": BLOCKS, "SPLITS": (1, 2, 4, 8, 16), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "SPLITS": 4, "num_warps": 4},
        conditions=(*FITS, "SPLITS * BLOCK < 2 * n"),
        grid=("l", "SPLITS"),
        constants={"LAYERS": "l"},
        arrays=layers,
        outputs=("sums",),
        reference=squares_of_layers,
    ),
    family(
        "unscale_and_check",
        parameters={"BLOCK": BLOCKS, "CHUNK": (1, 4, 16), "EARLY": (0, 1), "num_warps": (2, 4, 8)},
        defaults={"BLOCK": 1024, "CHUNK": 1, "EARLY": 0, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * CHUNK))",),
        scalars={"n": "n", "inverse": "1 / 1024"},
        arrays=scaled_gradients,
        outputs=("out", "found"),
        reference=unscale_and_check,
    ),
]
