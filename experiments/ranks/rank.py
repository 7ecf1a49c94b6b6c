"""One rank of a job: tunes a Triton kernel when it is told to.

In Triton's interpreter its timer is noisy, as timers are: it tells a formula times luck. On a GPU the kernel
is a product of matrices, and the timer is Triton's.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from costmodel.integrations.triton import autotune

store, device = sys.argv[1:3]
rank, configs, bench_ms, noise, differ = map(float, sys.argv[3:])
timed: list[float] = []
ahead: dict[str, Any] = {}
noises = random.Random(int(rank))


def hook(arguments: dict[str, Any], reset_only: bool = False) -> None:
    ahead.update(arguments)


def bench(kernel_call: Any, quantiles: Any) -> list[float]:
    """Milliseconds that depend on the config, and on luck."""
    kernel_call()
    time.sleep(bench_ms / 1e3)
    timed.append(time.time())
    ms = 1.0 + differ * abs(ahead["BLOCK"].bit_length() - 6)
    return [ms * (1 + noise * noises.gauss()), ms, ms]


def bench_on_gpu(kernel_call: Any, quantiles: Any) -> list[float]:
    """Milliseconds as Triton times them."""
    told: list[float] = triton.testing.do_bench(kernel_call, quantiles=quantiles)
    timed.append(time.time())
    return told


blocks = [triton.Config({"BLOCK": 16 << (i % 6)}, num_warps=1 << (i // 6)) for i in range(int(configs))]
tiles = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=3)
    for m in (64, 128)
    for n in (64, 128, 256)
    for k in (32, 64)
    for warps in (4, 8)
][: int(configs)]


@autotune(blocks, ["n"], do_bench=bench, pre_hook=hook, store=store)
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)


@autotune(tiles, ["n"], do_bench=bench_on_gpu, store=store)
@triton.jit
def square(  # noqa: PLR0913, PLR0917 (its tiles)
    x, y, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, n, BLOCK_K):
        inner = first + tl.arange(0, BLOCK_K)
        left = tl.load(x + rows[:, None] * n + inner[None, :])
        total += tl.dot(left, tl.load(x + inner[:, None] * n + columns[None, :]))
    tl.store(y + rows[:, None] * n + columns[None, :], total.to(tl.float16))


def arguments_of(n: int) -> tuple[Any, ...]:
    """What the kernel is called with at a size."""
    if device == "cpu":
        return torch.ones(16), n
    x = torch.full((n, n), 0.01, dtype=torch.float16, device=device)
    return x, torch.empty_like(x), n


def grid(meta: dict[str, Any]) -> tuple[int, ...]:
    if device == "cpu":
        return (1,)
    return meta["n"] // meta["BLOCK_M"], meta["n"] // meta["BLOCK_N"]


def wait_for_gpu() -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def seconds(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    wait_for_gpu()
    return time.perf_counter() - begun


kernel, sizes = (double, (8, 16)) if device == "cpu" else (square, (1024, 1536))
for n in sizes:  # what a process pays once, for this timer and for the store, is no part of it
    arguments = arguments_of(n)
    wait_for_gpu()
    print("ready", flush=True)
    told: dict[str, Any] = {}
    if sys.stdin.readline() == "check\n":
        begun = time.perf_counter()
        checked = kernel.check_timings(*arguments, grid=grid)
        told |= {"check_s": time.perf_counter() - begun, "ratios": list(checked.ratios.values())}
        timed.clear()
    begun = time.time()
    call_s = seconds(lambda arguments=arguments: kernel[grid](*arguments))
    best = kernel.best_config
    told |= {
        "timed": len(timed),
        "last_timed": max(timed, default=0.0),
        "call_s": call_s,
        "warm_s": seconds(lambda arguments=arguments: kernel[grid](*arguments)),
        "ended": begun + call_s,
        "best": [*best.kwargs.values(), best.num_warps],
    }
    print(json.dumps(told), flush=True)
    timed.clear()
