"""One rank of a job: tunes a Triton kernel when it is told to, under a timer that is noisy, as timers are."""

import json
import random
import sys
import time
from typing import Any

import torch
import triton
import triton.language as tl

from costmodel.integrations.triton import autotune

store, rank, configs, bench_ms, noise, differ = sys.argv[1], *map(float, sys.argv[2:])
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


blocks = [triton.Config({"BLOCK": 16 << (i % 6)}, num_warps=1 << (i // 6)) for i in range(int(configs))]


@autotune(blocks, ["n"], do_bench=bench, pre_hook=hook, store=store)
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)


def call_s(n: int) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    double[(1,)](torch.ones(16), n)
    return time.perf_counter() - begun


for n in (8, 16):  # what a process pays once, for this timer and for the store, is no part of it
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.time()
    seconds = call_s(n)
    best = double.best_config
    told = {
        "timed": len(timed),
        "last_timed": max(timed, default=0.0),
        "call_s": seconds,
        "warm_s": call_s(n),
        "ended": begun + seconds,
        "best": [best.kwargs["BLOCK"], best.num_warps],
    }
    print(json.dumps(told), flush=True)
    timed.clear()
