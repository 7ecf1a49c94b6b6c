"""Kernels whose reads follow an index: sparse matrices, bags, segments and hash tables."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from costmodel import TritonFamily

SIZES = {
    "csr_vector_rows": ({"m": 16384, "n": 16384, "r": 64}, {"m": 3001, "n": 9001, "r": 300}),
    "csr_scalar_rows": ({"m": 65536, "n": 65536, "r": 8}, {"m": 10007, "n": 5003, "r": 40}),
    "ell_product": ({"m": 65536, "n": 65536, "r": 16}, {"m": 30011, "n": 1009, "r": 27}),
    "coo_atomics": ({"m": 16384, "n": 16384, "r": 32}, {"m": 333, "n": 20011, "r": 501}),
    "block_sparse_product": ({"m": 64, "k": 64, "r": 8, "n": 512}, {"m": 33, "k": 50, "r": 11, "n": 777}),
    "csr_times_dense": ({"m": 4096, "k": 4096, "r": 16, "n": 128}, {"m": 1001, "k": 3001, "r": 50, "n": 200}),
    "sampled_products": ({"m": 2048, "n": 2048, "r": 32, "d": 128}, {"m": 500, "n": 3001, "r": 77, "d": 80}),
    "embedding_bags": ({"v": 50000, "b": 4096, "r": 16, "d": 128}, {"v": 3001, "b": 777, "r": 60, "d": 200}),
    "jagged_to_padded": ({"b": 64, "l": 256, "d": 256}, {"b": 201, "l": 77, "d": 100}),
    "hash_lookup": ({"n": 1 << 20, "k": 1 << 17}, {"n": 500009, "k": 10007}),
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


def starts(rng, rows, mean):
    """Where rows begin that have half to one and a half times ``mean`` elements."""
    lengths = rng.integers(mean // 2, mean + mean // 2 + 1, rows)
    return np.concatenate([[0], lengths.cumsum()]).astype(np.int32)


def rows_of(begins):
    return np.repeat(np.arange(len(begins) - 1, dtype=np.int32), np.diff(begins))


def compressed(dims, rng):
    """A sparse matrix by rows, a vector, and a place for their product."""
    begins = starts(rng, dims["m"], dims["r"])
    return {
        "starts": begins,
        "columns": rng.integers(0, dims["n"], begins[-1], np.int32),
        "values": normal(rng, begins[-1]),
        "x": normal(rng, dims["n"]),
        "y": empty(dims["m"]),
    }


def compressed_product(arrays, dims):
    products = arrays["values"].astype(np.float64) * arrays["x"][arrays["columns"]]
    return {"y": np.bincount(rows_of(arrays["starts"]), products, dims["m"])}


def coordinates(dims, rng):
    count = dims["m"] * dims["r"]
    return {
        "rows": rng.integers(0, dims["m"], count, np.int32),
        "columns": rng.integers(0, dims["n"], count, np.int32),
        "values": normal(rng, count),
        "x": normal(rng, dims["n"]),
        "y": np.zeros(dims["m"], np.float32),
    }


def coo_atomics(arrays, dims):
    products = arrays["values"].astype(np.float64) * arrays["x"][arrays["columns"]]
    return {"y": np.bincount(arrays["rows"], products, dims["m"])}


def ell_product(arrays, dims):
    return {"y": (arrays["values"].astype(np.float64) * arrays["x"][arrays["columns"]]).sum(axis=0)}


SIDE = 32


def blocks(dims, rng):
    begins = starts(rng, dims["m"], dims["r"])
    return {
        "starts": begins,
        "columns": rng.integers(0, dims["k"], begins[-1], np.int32),
        "blocks": normal(rng, begins[-1], SIDE, SIDE, dtype=np.float16),
        "b": normal(rng, dims["k"] * SIDE, dims["n"], dtype=np.float16) / np.float16(16),
        "c": empty((dims["m"] * SIDE, dims["n"]), np.float16),
    }


def block_sparse_product(arrays, dims):
    """As a product with the matrix that the blocks make."""
    full = np.zeros((dims["m"], dims["k"], SIDE, SIDE), np.float32)
    np.add.at(full, (rows_of(arrays["starts"]), arrays["columns"]), arrays["blocks"])
    full = full.swapaxes(1, 2).reshape(dims["m"] * SIDE, dims["k"] * SIDE)
    return {"c": full @ arrays["b"].astype(np.float32)}


def csr_and_dense(dims, rng):
    begins = starts(rng, dims["m"], dims["r"])
    return {
        "starts": begins,
        "columns": rng.integers(0, dims["k"], begins[-1], np.int32),
        "values": normal(rng, begins[-1]),
        "b": normal(rng, dims["k"], dims["n"]),
        "c": empty((dims["m"], dims["n"])),
    }


def csr_times_dense(arrays, dims):
    from scipy.sparse import csr_matrix

    shape = dims["m"], dims["k"]
    values = arrays["values"].astype(np.float64)
    return {"c": csr_matrix((values, arrays["columns"], arrays["starts"]), shape) @ arrays["b"]}


def samples(dims, rng):
    count = dims["m"] * dims["r"]
    return {
        "rows": np.sort(rng.integers(0, dims["m"], count, np.int32)),
        "columns": rng.integers(0, dims["n"], count, np.int32),
        "a": normal(rng, dims["m"], dims["d"], dtype=np.float16),
        "b": normal(rng, dims["n"], dims["d"], dtype=np.float16),
        "out": empty(count),
    }


def sampled_products(arrays, dims):
    """Out of the whole product."""
    whole = arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32).T
    return {"out": whole[arrays["rows"], arrays["columns"]]}


def bags(dims, rng):
    begins = starts(rng, dims["b"], dims["r"])
    return {
        "table": normal(rng, dims["v"], dims["d"], dtype=np.float16),
        "index": rng.integers(0, dims["v"], begins[-1], np.int32),
        "starts": begins,
        "out": empty((dims["b"], dims["d"])),
    }


def embedding_bags(arrays, dims):
    picked = arrays["table"][arrays["index"]].astype(np.float32)
    sums = np.add.reduceat(picked, arrays["starts"][:-1], axis=0)
    return {"out": sums / np.diff(arrays["starts"])[:, None]}


def sequences(dims, rng):
    begins = starts(rng, dims["b"], dims["l"])
    return {
        "values": normal(rng, begins[-1], dims["d"]),
        "starts": begins,
        "out": empty((dims["b"], dims["l"], dims["d"])),
    }


def jagged_to_padded(arrays, dims):
    out = np.zeros((dims["b"], dims["l"], dims["d"]))
    begins = arrays["starts"]
    for sequence, (first, last) in enumerate(pairwise(begins)):
        piece = arrays["values"][first:last][: dims["l"]]
        out[sequence, : len(piece)] = piece
    return {"out": out}


def slots(keys):
    """Slots of a table for ``keys`` keys: a power of two that is at least twice as large."""
    return 1 << (2 * keys - 1).bit_length()


def hash_table(dims, rng):
    """A table that is filled in rounds: of the keys that want a free slot the first gets it."""
    size = slots(dims["k"])
    keys = rng.permutation(4 * dims["k"])[: dims["k"]].astype(np.int32)
    table, values = np.full(size, -1, np.int32), np.zeros(size, np.int32)
    slot = ((keys * np.int32(40503)) >> 4) & (size - 1)
    waiting = keys
    while len(waiting):
        wanted, first = np.unique(slot, return_index=True)
        free = first[table[wanted] == -1]
        table[slot[free]], values[slot[free]] = waiting[free], waiting[free] % 1000
        waiting, slot = np.delete(waiting, free), (np.delete(slot, free) + 1) & (size - 1)
    asked = rng.integers(0, 4 * dims["k"], dims["n"], np.int32)
    return {"keys": table, "values": values, "asked": asked, "found": np.full(dims["n"], -2, np.int32)}


def hash_lookup(arrays, dims):
    known = np.isin(arrays["asked"], arrays["keys"])
    return {"found": np.where(known, arrays["asked"] % 1000, -1)}


WARPS = (1, 2, 4, 8)

FAMILIES = [
    family(
        "csr_vector_rows",
        parameters={"BLOCK": (16, 32, 64, 128, 256), "ROWS": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 64, "ROWS": 1, "num_warps": 1},
        conditions=("BLOCK >= 16 * num_warps",),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        arrays=compressed,
        outputs=("y",),
        reference=compressed_product,
    ),
    family(
        "csr_scalar_rows",
        parameters={"ROWS": (32, 64, 128, 256), "WIDE": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"ROWS": 128, "WIDE": 1, "num_warps": 4},
        conditions=("ROWS * WIDE >= 32 * num_warps",),
        grid=("ceil(m / ROWS)",),
        scalars={"M": "m"},
        arrays=compressed,
        outputs=("y",),
        reference=compressed_product,
    ),
    family(
        "ell_product",
        parameters={"BLOCK": (32, 64, 128, 256, 512, 1024), "UNROLL": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 128, "UNROLL": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps",),
        grid=("ceil(m / BLOCK)",),
        scalars={"M": "m"},
        constants={"WIDTH": "r"},
        arrays=lambda dims, rng: {
            "columns": rng.integers(0, dims["n"], (dims["r"], dims["m"]), np.int32),
            "values": normal(rng, dims["r"], dims["m"]),
            "x": normal(rng, dims["n"]),
            "y": empty(dims["m"]),
        },
        outputs=("y",),
        reference=ell_product,
    ),
    family(
        "coo_atomics",
        parameters={"BLOCK": (64, 128, 256, 512, 1024), "ITEMS": (1, 2, 4, 8), "num_warps": WARPS},
        defaults={"BLOCK": 256, "ITEMS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps",),
        grid=("ceil(m * r / (BLOCK * ITEMS))",),
        scalars={"n": "m * r"},
        arrays=coordinates,
        outputs=("y",),
        reference=coo_atomics,
    ),
    family(
        "block_sparse_product",
        parameters={
            "BN": (16, 32, 64, 128, 256),
            "ROWS_FIRST": (0, 1),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        defaults={"BN": 64, "ROWS_FIRST": 1, "num_warps": 4, "num_stages": 2},
        conditions=("BN <= 64 * num_warps", "BN >= 8 * num_warps"),
        grid=("m if ROWS_FIRST else ceil(n / BN)", "ceil(n / BN) if ROWS_FIRST else m"),
        scalars={"N": "n"},
        constants={"SIDE": SIDE},
        arrays=blocks,
        outputs=("c",),
        reference=block_sparse_product,
    ),
    family(
        "csr_times_dense",
        parameters={"BN": (32, 64, 128, 256), "BK": (1, 2, 4, 8, 16), "num_warps": WARPS},
        defaults={"BN": 128, "BK": 4, "num_warps": 2},
        conditions=("BN * BK >= 32 * num_warps", "BN * BK <= 2048 * num_warps"),
        grid=("m", "ceil(n / BN)"),
        scalars={"N": "n"},
        arrays=csr_and_dense,
        outputs=("c",),
        reference=csr_times_dense,
    ),
    family(
        "sampled_products",
        parameters={"PAIRS": (1, 4, 16, 64), "BD": (16, 32, 64, 128), "num_warps": WARPS},
        defaults={"PAIRS": 16, "BD": 64, "num_warps": 4},
        conditions=("PAIRS * BD >= 32 * num_warps", "PAIRS * BD <= 4096 * num_warps"),
        grid=("ceil(m * r / PAIRS)",),
        scalars={"n": "m * r"},
        constants={"D": "d"},
        arrays=samples,
        outputs=("out",),
        reference=sampled_products,
    ),
    family(
        "embedding_bags",
        parameters={"BD": (32, 64, 128, 256), "AT_ONCE": (1, 2, 4, 8, 16), "num_warps": WARPS},
        defaults={"BD": 128, "AT_ONCE": 4, "num_warps": 2},
        conditions=("BD * AT_ONCE >= 32 * num_warps",),
        grid=("b", "ceil(d / BD)"),
        scalars={"D": "d"},
        constants={"MEAN": 1},
        arrays=bags,
        outputs=("out",),
        reference=embedding_bags,
    ),
    family(
        "jagged_to_padded",
        parameters={"BL": (1, 4, 16, 64), "BD": (16, 32, 64, 128, 256), "num_warps": WARPS},
        defaults={"BL": 4, "BD": 128, "num_warps": 4},
        conditions=("BL * BD >= 32 * num_warps", "BL * BD <= 2048 * num_warps"),
        grid=("ceil(l / BL)", "ceil(d / BD)", "b"),
        scalars={"L": "l", "D": "d"},
        arrays=sequences,
        outputs=("out",),
        reference=jagged_to_padded,
    ),
    family(
        "hash_lookup",
        parameters={"BLOCK": (32, 64, 128, 256, 512, 1024), "ITEMS": (1, 2, 4), "num_warps": WARPS},
        defaults={"BLOCK": 128, "ITEMS": 1, "num_warps": 4},
        conditions=("BLOCK >= 32 * num_warps",),
        grid=("ceil(n / (BLOCK * ITEMS))",),
        scalars={"n": "n"},
        constants={"SLOTS": "max([2 ** i * (2 ** i < 4 * k) for i in range(3, 26)])"},
        arrays=hash_table,
        outputs=("found",),
        reference=hash_lookup,
    ),
]
