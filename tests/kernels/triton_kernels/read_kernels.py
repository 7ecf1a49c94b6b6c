# ruff: noqa: PLR0917 (kernels have many parameters)
"""Kernels whose facts are known by hand, and their texts as Triton 3.6 and 3.9 print them.

``python read_kernels.py`` writes the texts of the installed Triton into ``texts``.
"""

from pathlib import Path
from typing import Any

import triton
import triton.language as tl

from costmodel.kernels.triton._lower import Lowering, Specialization, lower_kernel
from costmodel.kernels.triton._values import Array, ReadLaunch

FOLDER = Path(__file__).with_name("texts")
_DIVISIBLE = [["tt.divisibility", 16]]


@triton.jit
def grid_stride(x, y, n, BLOCK: tl.constexpr):
    """A loop whose turns depend on the program, counted by a condition."""
    at = tl.program_id(0) * BLOCK
    sums = tl.zeros((BLOCK,), tl.float32)
    while at < n:
        places = at + tl.arange(0, BLOCK)
        sums += tl.load(x + places, mask=places < n, other=0.0)
        at += BLOCK * tl.num_programs(0)
    tl.store(y + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), sums)


@triton.jit
def neighbours(a, b, n, BLOCK: tl.constexpr):
    """Three loads that share all but two sectors."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + i - 1, mask=(i > 0) & (i < n), other=0.0)
    right = tl.load(a + i + 1, mask=i < n - 1, other=0.0)
    tl.store(b + i, left + tl.load(a + i, mask=i < n, other=0.0) + right, mask=i < n)


@triton.jit
def sparse_rows(first, place, value, x, y, rows, BLOCK: tl.constexpr):
    """Bounds and addresses that data decide."""
    row = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    end = tl.load(first + row + 1)
    for start in range(tl.load(first + row), end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        columns = tl.load(place + at, mask=at < end, other=0)
        sums += tl.load(value + at, mask=at < end, other=0.0) * tl.load(x + columns)
    tl.store(y + row, tl.sum(sums, 0))


@triton.jit
def last_adds(a, b, c, parts, arrivals, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr):
    """A product whose depth SPLIT programs share, of which the last adds up."""
    part = tl.program_id(1)
    rows, ks = tl.arange(0, BLOCK), part * (K // SPLIT) + tl.arange(0, BLOCK_K)
    row, column = tl.program_id(0) * BLOCK + rows, tl.program_id(2) * BLOCK + rows
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K // SPLIT, BLOCK_K):
        left = tl.load(a + row[:, None] * K + (k + ks)[None, :])
        right = tl.load(b + (k + ks)[:, None] * K + column[None, :])
        sums = tl.dot(left, right, sums)
    out = row[:, None] * K + column[None, :]
    tl.store(parts + part * K * K + out, sums)
    tile = tl.program_id(0) * tl.num_programs(2) + tl.program_id(2)
    if tl.atomic_add(arrivals + tile, 1) == SPLIT - 1:
        sums = tl.zeros((BLOCK, BLOCK), tl.float32)
        for other in range(SPLIT):
            sums += tl.load(parts + other * K * K + out)
        tl.store(c + out, sums.to(tl.float16))


@triton.jit
def described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles by tensor descriptors."""
    from_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    from_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    to_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(from_a.load([row, k]), from_b.load([k, column]), sums)
    to_c.store([row, column], sums.to(tl.float16))


@triton.jit
def _scaled(x, by):
    return x * by


@triton.jit
def row_softmax(x, y, n, BLOCK: tl.constexpr):
    """Reductions of a row, and a function that is called."""
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    row = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(_scaled(row - tl.max(row, 0), 1.5))
    tl.store(y + at, powers / tl.sum(powers, 0), mask=inside)


def _array(kind: str, size: int) -> tuple[str, Any]:
    return f"*{kind}", Array(size)


_FLOATS, _HALVES = _array("fp32", 1 << 20), _array("fp16", 1 << 21)
# Arguments, what is compiled in, and grid of each kernel, which has four warps.
CASES: dict[str, tuple[dict[str, Any], dict[str, int], tuple[int, int, int]]] = {
    "grid_stride": ({"x": _FLOATS, "y": _FLOATS, "n": ("i32", 100_000)}, {"BLOCK": 256}, (16, 1, 1)),
    "neighbours": ({"a": _FLOATS, "b": _FLOATS, "n": ("i32", 1 << 18)}, {"BLOCK": 1024}, (256, 1, 1)),
    "sparse_rows": (
        {
            **{"first": _array("i32", 4004), "place": _array("i32", 1 << 20), "value": _FLOATS},
            **{"x": _FLOATS, "y": _FLOATS, "rows": ("i32", 1000)},
        },
        {"BLOCK": 64},
        (1000, 1, 1),
    ),
    "last_adds": (
        {
            **{"a": _HALVES, "b": _HALVES, "c": _HALVES, "parts": _array("fp32", 1 << 24)},
            **{"arrivals": _array("i32", 1024), "K": ("i32", 1024)},
        },
        {"BLOCK": 64, "BLOCK_K": 32, "SPLIT": 4},
        (16, 4, 16),
    ),
    "described": (
        {"a": _HALVES, "b": _HALVES, "c": _HALVES, **dict.fromkeys("MNK", ("i32", 1024))},
        {"BM": 64, "BN": 64, "BK": 64},
        (16, 16, 1),
    ),
    "row_softmax": ({"x": _HALVES, "y": _HALVES, "n": ("i32", 1000)}, {"BLOCK": 1024}, (512, 1, 1)),
}


def launch_of(name: str) -> ReadLaunch:
    """How a kernel is launched."""
    arguments, _, grid = CASES[name]
    return ReadLaunch([value for _, value in arguments.values()], grid, 4)


def lowering_of(name: str) -> Lowering:
    """What is lowered of a kernel."""
    function = globals()[name]
    arguments, constants, _ = CASES[name]
    signature, attributes = {}, {}
    for place, parameter in enumerate(function.arg_names):
        kind, value = arguments.get(parameter, ("constexpr", 1))
        signature[parameter] = kind
        if kind[0] == "*" or (kind == "i32" and value % 16 == 0):
            attributes[place,] = _DIVISIBLE
    return Lowering(function, Specialization(signature, constants, attributes, {"num_warps": 4}), "sm_90")


if __name__ == "__main__":
    for each in CASES:
        texts = lower_kernel(lowering_of(each))
        for stage in ("ttir", "ttgir"):
            (FOLDER / f"{each}-{triton.__version__}.{stage}").write_text(getattr(texts, stage))
