"""Rows over their root mean square, with gain, as whole numbers of eight bits and a scale for each row.

The largest magnitude of a row becomes 127. A row is in registers, or is read three times in blocks.
"""

import triton
import triton.language as tl


@triton.jit
def rms_norm_quantised(
    x,
    gain,
    codes,
    scales,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_N)
    is_row = rows < m
    starts = rows.to(tl.int64)[:, None] * N
    if BLOCK_N >= N:
        values = load(x, starts, is_row, columns, N)
        factors = tl.load(gain + columns, columns < N, other=0.0).to(tl.float32)
        mean = tl.sum(values * values, axis=1) / N
        scaled = values * tl.rsqrt(mean + 1e-5)[:, None] * factors[None, :]
        step = tl.maximum(tl.max(tl.abs(scaled), axis=1) / 127, 1e-12)
        inside = is_row[:, None] & (columns < N)[None, :]
        tl.store(codes + starts + columns[None, :], encode(scaled / step[:, None]), inside)
    else:
        squares = tl.zeros((ROWS, BLOCK_N), tl.float32)
        largest = tl.zeros((ROWS, BLOCK_N), tl.float32)
        for first in range(0, N, BLOCK_N):
            values = load(x, starts, is_row, first + columns, N)
            squares += values * values
        root = tl.rsqrt(tl.sum(squares, axis=1) / N + 1e-5)[:, None]
        for first in range(0, N, BLOCK_N):
            factors = tl.load(gain + first + columns, first + columns < N, other=0.0).to(tl.float32)
            scaled = load(x, starts, is_row, first + columns, N) * root * factors[None, :]
            largest = tl.maximum(largest, tl.abs(scaled))
        step = tl.maximum(tl.max(largest, axis=1) / 127, 1e-12)
        for first in range(0, N, BLOCK_N):
            factors = tl.load(gain + first + columns, first + columns < N, other=0.0).to(tl.float32)
            scaled = load(x, starts, is_row, first + columns, N) * root * factors[None, :]
            inside = is_row[:, None] & (first + columns < N)[None, :]
            at = codes + starts + first + columns[None, :]
            tl.store(at, encode(scaled / step[:, None]), inside)
    tl.store(scales + rows, step, is_row)


@triton.jit
def load(x, starts, is_row, columns, N: tl.constexpr):
    """Elements of some columns."""
    inside = is_row[:, None] & (columns < N)[None, :]
    return tl.load(x + starts + columns[None, :], inside, other=0.0).to(tl.float32)


@triton.jit
def encode(values):
    """The whole number nearest to each value."""
    return tl.floor(values + 0.5).to(tl.int8)
