"""Losses, and the backward passes of common layers."""

from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "smoothed_cross_entropy": ({"m": 400, "v": 32000}, {"m": 301, "v": 10007}),
    "divergence": ({"m": 2048, "n": 1024}, {"m": 10001, "n": 250}),
    "huber_mean": ({"n": 1 << 21}, {"n": 1700003}),
    "focal_with_gradient": ({"n": 1 << 21}, {"n": 900001}),
    "cosine_of_pairs": ({"m": 8192, "d": 768}, {"m": 999, "d": 5000}),
    "triplet_margin": ({"m": 16384, "d": 128}, {"m": 4096, "d": 600}),
    "alignment_costs": ({"b": 512, "t": 256, "j": 64}, {"b": 77, "t": 301, "j": 128}),
    "contrastive_rows": ({"n": 2048, "d": 128}, {"n": 1111, "d": 64}),
    "masked_squares": ({"n": 1 << 22}, {"n": 1500007}),
    "gelu_backward": ({"n": 1 << 21}, {"n": 1234567}),
    "cross_entropy_backward": ({"m": 256, "v": 32000}, {"m": 501, "v": 5003}),
    "embedding_backward": ({"v": 5000, "t": 8192, "d": 256}, {"v": 200, "t": 3001, "d": 600}),
    "swiglu_backward": ({"n": 3 << 20}, {"n": 1000003}),
    "bias_gradient": ({"m": 4096, "n": 1024}, {"m": 20011, "n": 77}),
    "rope_backward": ({"t": 2048, "h": 32, "d": 64}, {"t": 999, "h": 5, "d": 128}),
    "softmax_backward": ({"m": 4096, "n": 1024}, {"m": 3001, "n": 777}),
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


def sizes(dims, letters):
    return tuple(dims[letter] for letter in letters)


def wide(arrays, names):
    return (arrays[name].astype(np.float64) for name in names)


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def smoothed_cross_entropy(arrays, dims):
    logs = log_softmax(arrays["logits"].astype(np.float32))
    right = np.take_along_axis(logs, arrays["target"][:, None], axis=1)[:, 0]
    return {"loss": -0.9 * right - 0.1 * logs.mean(axis=1, dtype=np.float64)}


def divergence(arrays, dims):
    p, q = (log_softmax(x) for x in wide(arrays, "pq"))
    return {"out": (np.exp(p) * (p - q)).sum(axis=1)}


def huber_mean(arrays, dims):
    gap = np.abs(arrays["x"].astype(np.float64) - arrays["y"])
    return {"total": np.where(gap <= 1, gap * gap / 2, gap - 0.5).mean(keepdims=True)}


def focal_with_gradient(arrays, dims):
    """The gradient is that of ``-w (1 - p)^2 log p`` by the product rule."""
    sign = np.where(arrays["label"], 1.0, -1.0)
    weight = np.where(arrays["label"], 0.25, 0.75)
    p = sigmoid(sign * arrays["x"])
    by_p = weight * (2 * (1 - p) * np.log(p) - (1 - p) ** 2 / p)
    return {"loss": -weight * (1 - p) ** 2 * np.log(p), "dx": by_p * p * (1 - p) * sign}


def cosine_of_pairs(arrays, dims):
    a, b = wide(arrays, "ab")
    cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return {"loss": np.where(arrays["sign"] > 0, 1 - cosine, np.maximum(cosine - 0.0625, 0))}


def triplet_margin(arrays, dims):
    anchor, near, far = wide(arrays, ("anchor", "near", "far"))
    gap = np.linalg.norm(anchor - near, axis=1) - np.linalg.norm(anchor - far, axis=1)
    return {"loss": np.maximum(gap + 1, 0)}


def alignment_costs(arrays, dims):
    cost = arrays["cost"].astype(np.float64)
    best = np.full((dims["b"], dims["j"]), np.inf)
    best[:, 0] = cost[:, 0, 0]
    for t in range(1, dims["t"]):
        best[:, 1:] = np.minimum(best[:, 1:], best[:, :-1])
        best += cost[:, t]
    return {"end": best[:, -1]}


TEMPERATURE = 0.25


def contrastive_rows(arrays, dims):
    a, b = wide(arrays, "ab")
    return {"loss": -np.diagonal(log_softmax(TEMPERATURE * (a @ b.T)))}


def masked_squares(arrays, dims):
    x, y = wide(arrays, "xy")
    on = arrays["mask"] != 0
    total = ((x - y)[on] ** 2).sum(keepdims=True)
    return {"total": total, "counted": np.array([on.sum()], np.int32)}


def gelu_backward(arrays, dims):
    """The slope by differences of ``x * Phi(x)``, in a table."""
    from scipy.special import ndtr

    x, dy = wide(arrays, ("x", "dy"))
    at = np.linspace(-7, 7, 14001)
    slope = np.gradient(at * ndtr(at), at)
    return {"dx": dy * np.interp(x, at, slope)}


def cross_entropy_backward(arrays, dims):
    p = np.exp(arrays["logits"] - arrays["lse"].astype(np.float32)[:, None])
    p[np.arange(dims["m"]), arrays["target"]] -= 1
    return {"dlogits": p}


def logits_with_sums(dims, rng):
    logits = normal(rng, dims["m"], dims["v"], dtype=np.float16)
    return {
        "logits": logits,
        "lse": np.log(np.exp(logits.astype(np.float32)).sum(axis=1)),
        "target": rng.integers(0, dims["v"], dims["m"], np.int32),
        "dlogits": empty(logits.shape, np.float16),
    }


def embedding_backward(arrays, dims):
    order = np.argsort(arrays["index"], kind="stable")
    rows, starts = np.unique(arrays["index"][order], return_index=True)
    table = np.zeros((dims["v"], dims["d"]))
    table[rows] = np.add.reduceat(arrays["dy"][order].astype(np.float64), starts, axis=0)
    return {"dtable": table}


def swiglu_backward(arrays, dims):
    g, u, d = wide(arrays, ("gate", "up", "dy"))
    s = sigmoid(g)
    return {"dup": d * g * s, "dgate": d * u * (s + g * s * (1 - s))}


def rope_backward(arrays, dims):
    first, second = np.split(arrays["dy"].astype(np.float64), 2, axis=2)
    back = (first + 1j * second) * np.exp(-1j * arrays["angle"])[:, None, :]
    return {"dx": np.concatenate([back.real, back.imag], axis=2)}


def softmax_backward(arrays, dims):
    y, dy = wide(arrays, ("y", "dy"))
    return {"dx": y * (dy - (y * dy).sum(axis=1, keepdims=True))}


BLOCKS = (128, 256, 512, 1024, 2048, 4096)
WARPS = (1, 2, 4, 8)
FITS = ("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps")

FAMILIES = [
    family(
        "smoothed_cross_entropy",
        parameters={"BLOCK": BLOCKS, "num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 2, 4)},
        defaults={"BLOCK": 1024, "num_warps": 4, "num_stages": 2},
        conditions=FITS,
        grid=("m",),
        scalars={"V": "v", "smoothing": 0.1},
        arrays=lambda dims, rng: {
            "logits": normal(rng, dims["m"], dims["v"], dtype=np.float16),
            "target": rng.integers(0, dims["v"], dims["m"], np.int64),
            "loss": empty(dims["m"]),
        },
        outputs=("loss",),
        reference=smoothed_cross_entropy,
    ),
    family(
        "divergence",
        parameters={"ROWS": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8, 16), "maxnreg": (0, 64, 128)},
        defaults={"ROWS": 1, "num_warps": 4, "maxnreg": 0},
        conditions=("ROWS * n <= 2048 * num_warps", "ROWS * n >= 16 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "p": normal(rng, dims["m"], dims["n"], dtype=np.float16),
            "q": normal(rng, dims["m"], dims["n"], dtype=np.float16),
            "out": empty(dims["m"]),
        },
        outputs=("out",),
        reference=divergence,
    ),
    family(
        "huber_mean",
        parameters={"BLOCK": BLOCKS, "PROGRAMS": (66, 132, 528, 2112), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "PROGRAMS": 528, "num_warps": 4},
        conditions=FITS,
        grid=("PROGRAMS",),
        scalars={"n": "n", "delta": 1.0},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["n"]),
            "y": normal(rng, dims["n"]),
            "total": np.zeros(1, np.float32),
        },
        outputs=("total",),
        reference=huber_mean,
    ),
    family(
        "focal_with_gradient",
        parameters={"BLOCK": BLOCKS, "ITEMS": (1, 2, 4), "num_warps": WARPS},
        defaults={"BLOCK": 512, "ITEMS": 1, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["n"]),
            "label": rng.integers(0, 2, dims["n"], np.int8),
            "loss": empty(dims["n"]),
            "dx": empty(dims["n"], np.float16),
        },
        outputs=("loss", "dx"),
        reference=focal_with_gradient,
    ),
    family(
        "cosine_of_pairs",
        parameters={
            "ROWS": (1, 2, 4, 16),
            "BLOCK": (64, 128, 256, 512, 1024),
            "num_warps": WARPS,
        },
        defaults={"ROWS": 1, "BLOCK": 256, "num_warps": 4},
        conditions=("ROWS * BLOCK >= 32 * num_warps", "ROWS * BLOCK <= 1024 * num_warps"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m", "margin": 0.0625},
        constants={"D": "d"},
        arrays=lambda dims, rng: {
            "a": normal(rng, dims["m"], dims["d"], dtype=np.float16),
            "b": normal(rng, dims["m"], dims["d"], dtype=np.float16),
            "sign": rng.integers(0, 2, dims["m"], np.int32),
            "loss": empty(dims["m"]),
        },
        outputs=("loss",),
        reference=cosine_of_pairs,
        tolerance=1e-3,
    ),
    family(
        "triplet_margin",
        parameters={
            "ROWS": (1, 2, 4, 8, 16, 32),
            "num_warps": WARPS,
            "num_stages": (1, 3),
        },
        defaults={"ROWS": 4, "num_warps": 2, "num_stages": 1},
        conditions=("num_stages == 1 or ROWS > 1",),
        grid=("floor(m / ROWS)",),
        constants={"D": "d"},
        arrays=lambda dims, rng: {
            **{name: normal(rng, dims["m"], dims["d"]) for name in ("anchor", "near", "far")},
            "loss": empty(dims["m"]),
        },
        outputs=("loss",),
        reference=triplet_margin,
    ),
    family(
        "alignment_costs",
        parameters={"PAIRS": (1, 2, 4, 8), "UNROLL": (1, 2, 4), "num_warps": WARPS},
        defaults={"PAIRS": 1, "UNROLL": 1, "num_warps": 1},
        conditions=("PAIRS * j >= 16 * num_warps",),
        grid=("ceil(b / PAIRS)",),
        scalars={"T": "t", "B": "b"},
        constants={"J": "j"},
        arrays=lambda dims, rng: {
            "cost": rng.uniform(0, 1, sizes(dims, "btj")).astype(np.float32),
            "end": empty(dims["b"]),
        },
        outputs=("end",),
        reference=alignment_costs,
    ),
    family(
        "contrastive_rows",
        parameters={
            "BM": (16, 32, 64, 128),
            "BN": (16, 32, 64, 128),
            "PREC": ("tf32", "tf32x3"),
            "num_warps": (4, 8),
            "num_stages": (1, 2),
        },
        defaults={"BM": 32, "BN": 64, "PREC": "tf32", "num_warps": 4, "num_stages": 2},
        conditions=("BM * BN <= 1024 * num_warps", "BM * BN >= 64 * num_warps"),
        grid=("ceil(n / BM)",),
        scalars={"N": "n", "temperature": TEMPERATURE},
        constants={"D": "d"},
        arrays=lambda dims, rng: {
            "a": normal(rng, dims["n"], dims["d"]),
            "b": normal(rng, dims["n"], dims["d"]),
            "loss": empty(dims["n"]),
        },
        outputs=("loss",),
        reference=contrastive_rows,
        tolerance=3e-3,
    ),
    family(
        "masked_squares",
        parameters={"BLOCK": BLOCKS, "CHUNK": (1, 4, 16), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "CHUNK": 4, "num_warps": 4},
        conditions=FITS,
        grid=("ceil(n / (BLOCK * CHUNK))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["n"], dtype=np.float16),
            "y": normal(rng, dims["n"], dtype=np.float16),
            "mask": rng.integers(0, 2, dims["n"], np.int8),
            "total": np.zeros(1, np.float32),
            "counted": np.zeros(1, np.int32),
        },
        outputs=("total", "counted"),
        reference=masked_squares,
    ),
    family(
        "gelu_backward",
        parameters={"BLOCK": BLOCKS, "PROGRAMS": (132, 264, 1056, 4224), "num_warps": WARPS},
        defaults={"BLOCK": 1024, "PROGRAMS": 1056, "num_warps": 4},
        conditions=FITS,
        grid=("min(PROGRAMS, ceil(n / BLOCK))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["n"], dtype=np.float16),
            "dy": normal(rng, dims["n"], dtype=np.float16),
            "dx": empty(dims["n"], np.float16),
        },
        outputs=("dx",),
        reference=gelu_backward,
    ),
    family(
        "cross_entropy_backward",
        parameters={"BLOCK": (*BLOCKS, 8192), "COLUMNS_FIRST": (0, 1), "num_warps": (1, 2, 4, 8)},
        defaults={"BLOCK": 1024, "COLUMNS_FIRST": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 2048 * num_warps"),
        grid=(
            "ceil(v / BLOCK) if COLUMNS_FIRST else m",
            "m if COLUMNS_FIRST else ceil(v / BLOCK)",
        ),
        scalars={"V": "v", "scale": 1.0},
        arrays=logits_with_sums,
        outputs=("dlogits",),
        reference=cross_entropy_backward,
    ),
    family(
        "embedding_backward",
        parameters={"ROWS": (1, 2, 4, 8, 16), "BLOCK": (32, 64, 128, 256, 512), "num_warps": WARPS},
        defaults={"ROWS": 2, "BLOCK": 128, "num_warps": 4},
        conditions=("ROWS * BLOCK >= 32 * num_warps", "ROWS * BLOCK <= 1024 * num_warps", "BLOCK < 2 * d"),
        grid=("ceil(t / ROWS)", "ceil(d / BLOCK)"),
        scalars={"tokens": "t"},
        constants={"D": "d"},
        arrays=lambda dims, rng: {
            "dy": normal(rng, dims["t"], dims["d"], dtype=np.float16),
            "index": (dims["v"] * rng.uniform(0, 1, dims["t"]) ** 3).astype(np.int32),
            "dtable": np.zeros((dims["v"], dims["d"]), np.float32),
        },
        outputs=("dtable",),
        reference=embedding_backward,
    ),
    family(
        "swiglu_backward",
        parameters={"BLOCK": (64, *BLOCKS, 8192), "num_warps": (1, 2, 4, 8, 16), "maxnreg": (0, 32)},
        defaults={"BLOCK": 1024, "num_warps": 4, "maxnreg": 0},
        conditions=FITS,
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            **{name: normal(rng, dims["n"], dtype=np.float16) for name in ("gate", "up", "dy")},
            **{name: empty(dims["n"], np.float16) for name in ("dgate", "dup")},
        },
        outputs=("dgate", "dup"),
        reference=swiglu_backward,
    ),
    family(
        "bias_gradient",
        parameters={
            "BM": (1, 8, 32, 64),
            "BN": (16, 32, 64, 128),
            "SPLITS": (1, 8, 32, 128),
            "num_warps": (2, 4, 8),
        },
        defaults={"BM": 32, "BN": 64, "SPLITS": 32, "num_warps": 4},
        conditions=("BM * BN >= 32 * num_warps", "BM * BN <= 1024 * num_warps", "BM * SPLITS < 2 * m"),
        grid=("ceil(n / BN)", "SPLITS"),
        scalars={"M": "m", "N": "n"},
        arrays=lambda dims, rng: {
            "dy": normal(rng, dims["m"], dims["n"], dtype=np.float16),
            "db": np.zeros(dims["n"], np.float32),
        },
        outputs=("db",),
        reference=lambda arrays, dims: {"db": arrays["dy"].sum(axis=0, dtype=np.float64)},
    ),
    family(
        "rope_backward",
        parameters={"HEADS": (1, 2, 4, 8, 16, 32), "TOKENS": (1, 2, 4), "num_warps": WARPS},
        defaults={"HEADS": 8, "TOKENS": 1, "num_warps": 4},
        conditions=("HEADS * d >= 32 * num_warps", "HEADS * d <= 2048 * num_warps", "HEADS < 2 * h"),
        grid=("ceil(t / TOKENS)", "ceil(h / HEADS)"),
        scalars={"T": "t", "H": "h"},
        constants={"D": "d"},
        arrays=lambda dims, rng: {
            "dy": normal(rng, *sizes(dims, "thd"), dtype=np.float16),
            "angle": rng.uniform(-3, 3, (dims["t"], dims["d"] // 2)).astype(np.float32),
            "dx": empty(sizes(dims, "thd"), np.float16),
        },
        outputs=("dx",),
        reference=rope_backward,
    ),
    family(
        "softmax_backward",
        parameters={"ROWS": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8, 16), "maxnreg": (0, 64, 128)},
        defaults={"ROWS": 1, "num_warps": 4, "maxnreg": 0},
        conditions=("ROWS * n <= 2048 * num_warps", "maxnreg != 128 or num_warps >= 2"),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "y": rng.uniform(0, 2 / dims["n"], sizes(dims, "mn")).astype(np.float32),
            "dy": normal(rng, *sizes(dims, "mn")),
            "dx": empty(sizes(dims, "mn")),
        },
        outputs=("dx",),
        reference=softmax_backward,
    ),
]
