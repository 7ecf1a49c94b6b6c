"""A service: one client after the other asks for a transformer block, and each request's latency is logged.

On a GPU it runs on the SMs that a partition of so many leaves. A line of the log has the seconds of a request
and the moment of its end (monotonic clock). The file ``ready.json`` says what it runs on; it serves from when
``go`` is there until ``stop`` is, or until the process that started it has ended.
"""

import argparse
import gc
import json
import os
import random
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from costmodel.collector import GreenContexts
from costmodel.collector.device._device import describe_device
from costmodel.collector.device._job import DeviceSetup
from costmodel.collector.device._spin_kernel import SpinKernel
from costmodel.records import Device

TOKENS, WIDTH, HEADS = 2048, 1024, 16
_kept: list[Any] = []
FOLDER = "SHADOW_SERVICE"  # variable that names the folder, SMs and think time of a service in a thread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where its files go")
    parser.add_argument("--sms", type=int, default=0, help="SMs that are left to others; 0 serves on a CPU")
    parser.add_argument("--think", type=float, default=2.5e-4, help="mean seconds between two requests")
    args = parser.parse_args()
    serve(args.folder, args.sms, args.think)


def serve(folder: Path, sms: int, think_s: float) -> None:
    """Serve until ``stop``.

    The time between requests is exponential.
    """
    work, where = on_gpu(sms) if sms else on_cpu()
    for _ in range(200):
        work()
    (folder / "ready.json").write_text(json.dumps(where))
    draw, stop, parent = random.Random(0), folder / "stop", os.getppid()
    while not (folder / "go").exists() and not stop.exists() and os.getppid() == parent:
        time.sleep(0.01)
    gc.disable()
    with (folder / "latencies.log").open("a", buffering=1) as log:
        while not stop.exists() and os.getppid() == parent:  # nor longer than the one that started it
            for _ in range(100):  # a look at the disk now and then
                wait_until(time.perf_counter() + draw.expovariate(1.0 / think_s))
                start = time.perf_counter()
                work()
                log.write(f"{time.perf_counter() - start:.7f} {time.monotonic():.4f}\n")


def wait_until(moment: float) -> None:
    """Spin, and let other threads have the interpreter: a host that sleeps wakes up late."""
    while time.perf_counter() < moment:
        time.sleep(0)


def on_gpu(sms: int) -> tuple[Callable[[], None], dict[str, Any]]:
    """A CUDA graph of the block on the SMs that are left, and which these are."""
    import torch
    from torch.nn import functional

    torch.cuda.init()
    contexts = GreenContexts()
    handle, granted = contexts.rest(sms)
    ids = sorted(SpinKernel(contexts.driver, contexts.call).sm_ids(handle))
    stream = torch.cuda.ExternalStream(handle)
    torch.manual_seed(0)

    def weight(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device="cuda", dtype=torch.float16) / columns**0.5

    qkv, out, up, down = (
        weight(3 * WIDTH, WIDTH),
        weight(WIDTH, WIDTH),
        weight(4 * WIDTH, WIDTH),
        weight(WIDTH, 4 * WIDTH),
    )
    x = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()  # what was made on the default stream

    def block() -> Any:
        h = functional.layer_norm(x, (WIDTH,))
        q, k, v = functional.linear(h, qkv).view(4, TOKENS // 4, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(TOKENS, WIDTH)
        y = x + functional.linear(attended, out)
        h = functional.layer_norm(y, (WIDTH,))
        return y + functional.linear(functional.gelu(functional.linear(h, up)), down)

    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            block()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            block()
    torch.cuda.synchronize()

    def work() -> None:
        with torch.cuda.stream(stream):
            graph.replay()
        stream.synchronize()

    _kept.extend((x, qkv, out, up, down, contexts))  # what the graph reads, and its SMs
    return work, {"torch": torch.__version__, "sms_granted": granted, "sm_ids": ids}


def on_cpu() -> tuple[Callable[[], None], dict[str, Any]]:
    """A product by NumPy, for a rehearsal."""
    import numpy as np

    a = np.random.default_rng(0).standard_normal((96, 96))
    return lambda: (a @ a, None)[1], {"sms_granted": 0, "sm_ids": []}


def describe_with_service(setup: DeviceSetup) -> tuple[Device, dict[str, str]]:
    """Describe the device to a runner, with the service in a thread of the process that measures."""
    found = describe_device(setup)
    _serving()
    return found


@cache
def _serving() -> threading.Thread:
    folder, sms, think_s = os.environ[FOLDER].split("|")
    thread = threading.Thread(target=serve, args=(Path(folder), int(sms), float(think_s)), daemon=True)
    thread.start()
    while thread.is_alive() and not (Path(folder) / "ready.json").exists():
        time.sleep(0.05)
    return thread


if __name__ == "__main__":
    main()
