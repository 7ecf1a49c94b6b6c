"""Kernels that move elements to other places."""

from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "transpose_2d": ({"m": 2048, "n": 2048}, {"m": 5003, "n": 611}),
    "permute_0213": ({"b": 4, "s": 1024, "h": 16, "d": 64}, {"b": 1, "s": 777, "h": 25, "d": 80}),
    "interleave_three": ({"n": 1 << 21}, {"n": 700001}),
    "concat_columns": ({"m": 4096, "a": 768, "b": 256}, {"m": 1001, "a": 1501, "b": 77}),
    "reflect_pad": ({"c": 32, "h": 256, "w": 256, "p": 8}, {"c": 3, "h": 513, "w": 1027, "p": 3}),
    "roll_and_flip": ({"m": 1024, "n": 4096}, {"m": 777, "n": 3001}),
    "gather_rows_scaled": ({"v": 30000, "k": 4096, "w": 512}, {"v": 5000, "k": 20001, "w": 72}),
    "gather_columns": ({"m": 2048, "n": 4096, "c": 1024}, {"m": 501, "n": 9001, "c": 3000}),
    "scatter_rows": ({"m": 8192, "n": 512}, {"m": 3001, "n": 1100}),
    "lower_triangle": ({"b": 8, "n": 1024}, {"b": 3, "n": 1111}),
    "pack_int4": ({"n": 1 << 20}, {"n": 300001}),
    "patchify": ({"h": 1024, "w": 1024, "c": 3, "p": 16}, {"h": 630, "w": 2058, "c": 4, "p": 14}),
    "pixel_shuffle": ({"c": 16, "h": 256, "w": 256, "r": 2}, {"c": 3, "h": 201, "w": 333, "r": 3}),
    "rotary_pairs": ({"t": 2048, "h": 32, "d": 64}, {"t": 777, "h": 9, "d": 128}),
}


def family(name: str, **told: Any) -> TritonFamily:
    """One of the kernels in ``kernel.py``, at the first of its sizes unless others are asked for."""
    kernel = Path(__file__).with_name("kernel.py")
    return TritonFamily(name=name, kernel=kernel, function=name, dims=SIZES[name][0], **told)


def empty(shape, dtype=np.float32):
    """An output that nobody has written."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def normal(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape, np.float32).astype(dtype)


def sizes(dims, letters):
    return tuple(dims[letter] for letter in letters)


def patchify(arrays, dims):
    h, w, c, p = sizes(dims, "hwcp")
    cut = arrays["image"].reshape(h // p, p, w // p, p, c).transpose(0, 2, 1, 3, 4)
    return {"patches": cut.reshape(-1, p * p * c).copy()}


def pixel_shuffle(arrays, dims):
    c, h, w, r = sizes(dims, "chwr")
    moved = arrays["x"].reshape(c, r, r, h, w).transpose(0, 3, 1, 4, 2)
    return {"y": moved.reshape(c, h * r, w * r).copy()}


def scatter_rows(arrays, dims):
    out = np.empty_like(arrays["x"])
    out[arrays["index"]] = arrays["x"]
    return {"out": out}


def rotary_pairs(arrays, dims):
    numbers = arrays["x"].astype(np.float32).view(np.complex64)
    turned = numbers * np.exp(1j * arrays["angle"][:, None, :].astype(np.float64))
    return {"y": turned.view(np.float64)}


def pack_int4(arrays, dims):
    nibbles = arrays["x"].astype(np.uint8) & 15
    return {"packed": (nibbles[:, ::2] | nibbles[:, 1::2] << 4).view(np.int32).ravel()}


def reflect_pad(arrays, dims):
    p = dims["p"]
    return {"y": np.pad(arrays["x"], ((0, 0), (p, p), (p, p)), mode="reflect")}


def roll_and_flip(arrays, dims):
    shift = dims["n"] // 3
    return {"rolled": np.roll(arrays["x"], shift, axis=1), "flipped": arrays["x"][:, ::-1].copy()}


WARPS = (1, 2, 4, 8)

FAMILIES = [
    family(
        "transpose_2d",
        parameters={
            "BM": (8, 16, 32, 64, 128),
            "BN": (8, 16, 32, 64, 128),
            "GROUP": (1, 4),
            "num_warps": (2, 4, 8),
        },
        defaults={"BM": 32, "BN": 32, "GROUP": 1, "num_warps": 4},
        conditions=("BM * BN >= 32 * num_warps", "BM * BN <= 2048 * num_warps"),
        grid=("ceil(m / BM) * ceil(n / BN)",),
        scalars={"M": "m", "N": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["n"], dtype=np.float32),
            "y": empty((dims["n"], dims["m"])),
        },
        outputs=("y",),
        reference=lambda arrays, dims: {"y": arrays["x"].T.copy()},
    ),
    family(
        "permute_0213",
        parameters={"BS": (1, 4, 16, 64), "BH": (1, 2, 4, 8), "STAGED": (0, 1), "num_warps": WARPS},
        defaults={"BS": 16, "BH": 1, "STAGED": 0, "num_warps": 4},
        conditions=("BS * BH * d >= 32 * num_warps", "BS * BH * d <= 4096 * num_warps"),
        grid=("ceil(s / BS)", "ceil(h / BH)", "b"),
        scalars={"S": "s", "H": "h"},
        constants={"D": "d"},
        arrays=lambda dims, rng: {
            "x": normal(rng, *sizes(dims, "bshd")),
            "y": empty(sizes(dims, "bhsd"), np.float16),
        },
        outputs=("y",),
        reference=lambda arrays, dims: {"y": arrays["x"].swapaxes(1, 2).copy()},
    ),
    family(
        "interleave_three",
        parameters={"BLOCK": (64, 128, 256, 512, 1024, 2048), "PARTS": (1, 2, 4), "num_warps": WARPS},
        defaults={"BLOCK": 512, "PARTS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / (BLOCK * PARTS))",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            **{name: rng.integers(0, 256, dims["n"], np.uint8) for name in "rgb"},
            "out": np.zeros((dims["n"], 3), np.uint8),
        },
        outputs=("out",),
        reference=lambda arrays, dims: {"out": np.stack([arrays[name] for name in "rgb"], axis=1)},
    ),
    family(
        "concat_columns",
        parameters={"BM": (1, 2, 8, 32), "BN": (32, 64, 128, 256, 1024), "num_warps": WARPS},
        defaults={"BM": 2, "BN": 256, "num_warps": 4},
        conditions=("BM * BN >= 32 * num_warps", "BM * BN <= 2048 * num_warps"),
        grid=("ceil(m / BM)", "ceil((a + b) / BN)"),
        scalars={"M": "m", "NA": "a", "NB": "b"},
        arrays=lambda dims, rng: {
            "a": normal(rng, dims["m"], dims["a"], dtype=np.float32),
            "b": normal(rng, dims["m"], dims["b"], dtype=np.float32),
            "out": empty((dims["m"], dims["a"] + dims["b"])),
        },
        outputs=("out",),
        reference=lambda arrays, dims: {"out": np.hstack([arrays["a"], arrays["b"]])},
    ),
    family(
        "reflect_pad",
        parameters={"BLOCK": (32, 64, 128, 256, 512), "ROWS": (1, 4, 16, 64), "num_warps": WARPS},
        defaults={"BLOCK": 256, "ROWS": 1, "num_warps": 4},
        conditions=("BLOCK >= 16 * num_warps", "BLOCK <= 512 * num_warps"),
        grid=("ceil((w + 2 * p) / BLOCK)", "ceil((h + 2 * p) / ROWS)", "c"),
        scalars={"H": "h", "W": "w"},
        constants={"P": "p"},
        arrays=lambda dims, rng: {
            "x": normal(rng, *sizes(dims, "chw")),
            "y": empty((dims["c"], dims["h"] + 2 * dims["p"], dims["w"] + 2 * dims["p"]), np.float16),
        },
        outputs=("y",),
        reference=reflect_pad,
    ),
    family(
        "roll_and_flip",
        parameters={"BLOCK": (64, 128, 256, 512, 1024, 2048), "ROWS": (1, 2, 8), "num_warps": WARPS},
        defaults={"BLOCK": 512, "ROWS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(m / ROWS)", "ceil(n / BLOCK)"),
        scalars={"n": "n", "shift": "floor(n / 3)", "rows": "m"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["n"]),
            "rolled": empty((dims["m"], dims["n"]), np.float16),
            "flipped": empty((dims["m"], dims["n"]), np.float16),
        },
        outputs=("rolled", "flipped"),
        reference=roll_and_flip,
    ),
    family(
        "gather_rows_scaled",
        parameters={"ROWS": (1, 2, 4, 8, 32), "BLOCK": (32, 64, 128, 256, 512), "num_warps": WARPS},
        defaults={"ROWS": 2, "BLOCK": 256, "num_warps": 4},
        conditions=(
            "ROWS * BLOCK >= 32 * num_warps",
            "ROWS * BLOCK <= 2048 * num_warps",
            "BLOCK < 2 * w",
        ),
        grid=("ceil(k / ROWS)",),
        scalars={"count": "k"},
        constants={"WIDTH": "w"},
        arrays=lambda dims, rng: {
            "table": normal(rng, dims["v"], dims["w"], dtype=np.float32),
            "index": rng.integers(0, dims["v"], dims["k"], np.int32),
            "scale": normal(rng, dims["k"], dtype=np.float32),
            "out": empty((dims["k"], dims["w"])),
        },
        outputs=("out",),
        reference=lambda arrays, dims: {
            "out": arrays["table"][arrays["index"]].astype(np.float64) * arrays["scale"][:, None]
        },
    ),
    family(
        "gather_columns",
        parameters={"BM": (1, 4, 16, 64), "BC": (16, 32, 64, 128, 256, 512), "num_warps": WARPS},
        defaults={"BM": 4, "BC": 128, "num_warps": 4},
        conditions=("BM * BC >= 32 * num_warps", "BM * BC <= 2048 * num_warps"),
        grid=("ceil(c / BC)", "ceil(m / BM)"),
        scalars={"M": "m", "N": "n", "C": "c"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["n"]),
            "index": rng.integers(0, dims["n"], dims["c"], np.int32),
            "out": empty((dims["m"], dims["c"]), np.float16),
        },
        outputs=("out",),
        reference=lambda arrays, dims: {"out": arrays["x"][:, arrays["index"]]},
    ),
    family(
        "scatter_rows",
        parameters={
            "BLOCK": (64, 128, 256, 512, 1024, 2048),
            "PROGRAMS": (132, 264, 1056, 2112),
            "num_warps": WARPS,
        },
        defaults={"BLOCK": 512, "PROGRAMS": 1056, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK < 2 * n", "BLOCK <= 1024 * num_warps"),
        grid=("PROGRAMS", "ceil(n / BLOCK)"),
        scalars={"m": "m"},
        constants={"N": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["m"], dims["n"], dtype=np.float32),
            "index": rng.permutation(dims["m"]).astype(np.int64),
            "out": empty((dims["m"], dims["n"])),
        },
        outputs=("out",),
        reference=scatter_rows,
    ),
    family(
        "lower_triangle",
        parameters={
            "BM": (1, 8, 32, 128),
            "BN": (16, 64, 256, 1024),
            "SKIP": (0, 1),
            "num_warps": (1, 4, 8),
        },
        defaults={"BM": 8, "BN": 64, "SKIP": 1, "num_warps": 4},
        conditions=("BM * BN >= 32 * num_warps", "BM * BN <= 2048 * num_warps"),
        grid=("ceil(n / BM)", "ceil(n / BN)", "b"),
        scalars={"N": "n"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["b"], dims["n"], dims["n"]),
            "out": empty((dims["b"], dims["n"], dims["n"]), np.float16),
        },
        outputs=("out",),
        reference=lambda arrays, dims: {"out": np.tril(arrays["x"])},
    ),
    family(
        "pack_int4",
        parameters={"BLOCK": (32, 64, 128, 256, 512, 1024, 2048), "SPLIT": (0, 1), "num_warps": WARPS},
        defaults={"BLOCK": 256, "SPLIT": 0, "num_warps": 4},
        conditions=("BLOCK >= 16 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil(n / BLOCK)",),
        scalars={"n": "n"},
        arrays=lambda dims, rng: {
            "x": rng.integers(-8, 8, (dims["n"], 8), np.int8),
            "packed": np.zeros(dims["n"], np.int32),
        },
        outputs=("packed",),
        reference=pack_int4,
    ),
    family(
        "patchify",
        parameters={"BLOCK": (64, 128, 256, 512, 1024), "PATCHES": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 256, "PATCHES": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps", "BLOCK <= 1024 * num_warps"),
        grid=("ceil((h / p) * (w / p) / PATCHES)", "ceil(p * p * c / BLOCK)"),
        scalars={"H": "h", "W": "w"},
        constants={"C": "c", "P": "p"},
        arrays=lambda dims, rng: {
            "image": normal(rng, *sizes(dims, "hwc"), dtype=np.float32),
            "patches": empty((dims["h"] // dims["p"] * (dims["w"] // dims["p"]), dims["p"] ** 2 * dims["c"])),
        },
        outputs=("patches",),
        reference=patchify,
    ),
    family(
        "pixel_shuffle",
        parameters={"BH": (1, 2, 4, 8, 16), "BW": (16, 32, 64, 128, 256, 512), "num_warps": WARPS},
        defaults={"BH": 2, "BW": 128, "num_warps": 4},
        conditions=("BH * BW >= 32 * num_warps", "BH * BW <= 1024 * num_warps"),
        grid=("ceil(w * r / BW)", "ceil(h * r / BH)", "c"),
        scalars={"C": "c", "H": "h", "W": "w"},
        constants={"R": "r"},
        arrays=lambda dims, rng: {
            "x": normal(rng, dims["c"] * dims["r"] ** 2, dims["h"], dims["w"]),
            "y": empty((dims["c"], dims["h"] * dims["r"], dims["w"] * dims["r"]), np.float16),
        },
        outputs=("y",),
        reference=pixel_shuffle,
    ),
    family(
        "rotary_pairs",
        parameters={"TOKENS": (1, 2, 4, 8), "AT_ONCE": (1, 2, 4, 8, 16), "num_warps": WARPS},
        defaults={"TOKENS": 1, "AT_ONCE": 8, "num_warps": 4},
        conditions=(
            "TOKENS * AT_ONCE * d >= 32 * num_warps",
            "TOKENS * AT_ONCE * d <= 2048 * num_warps",
        ),
        grid=("ceil(t / TOKENS)",),
        scalars={"T": "t"},
        constants={"HEADS": "h", "D": "d"},
        arrays=lambda dims, rng: {
            "x": normal(rng, *sizes(dims, "thd")),
            "angle": rng.uniform(-3, 3, (dims["t"], dims["d"] // 2)).astype(np.float32),
            "y": empty(sizes(dims, "thd"), np.float16),
        },
        outputs=("y",),
        reference=rotary_pairs,
    ),
]
