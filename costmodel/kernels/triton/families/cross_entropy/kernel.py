"""Cross entropy of each row of logits and its label: a whole row in registers, or online over blocks."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy(
    logits,
    labels,
    loss,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    if PROGRAMS == 0:
        loss_of_rows(logits, labels, loss, tl.program_id(0), m, N, ROWS, BLOCK_N, STAGES)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(m, ROWS), PROGRAMS, num_stages=STAGES):
            loss_of_rows(logits, labels, loss, tile, m, N, ROWS, BLOCK_N, STAGES)


@triton.jit
def loss_of_rows(
    logits,
    labels,
    loss,
    tile,
    m,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_N)[None, :]
    starts = rows.to(tl.int64) * N
    if BLOCK_N >= N:
        mask = (rows < m)[:, None] & (columns < N)
        values = tl.load(logits + starts[:, None] + columns, mask, other=-float("inf")).to(tl.float32)
        largest = tl.max(values, axis=1)
        total = tl.sum(tl.exp(values - largest[:, None]), axis=1)
    else:
        largest = tl.full((ROWS,), -float("inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        for first in tl.range(0, N, BLOCK_N, num_stages=STAGES):
            mask = (rows < m)[:, None] & (first + columns < N)
            values = tl.load(
                logits + starts[:, None] + first + columns,
                mask,
                other=-float("inf"),
                eviction_policy="evict_first",
            ).to(tl.float32)
            before = largest
            largest = tl.maximum(before, tl.max(values, axis=1))
            total = total * tl.exp(before - largest) + tl.sum(tl.exp(values - largest[:, None]), axis=1)
    label = tl.load(labels + rows, rows < m, other=0)
    wanted = tl.load(logits + starts + label, rows < m, other=0.0).to(tl.float32)
    tl.store(loss + rows, largest + tl.log(total) - wanted, rows < m)
