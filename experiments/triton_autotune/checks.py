"""Checks that ours does what it says, with a matrix product; needs a GPU, torch and Triton."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from kernels import matmul

from costmodel import train
from costmodel.collector import GreenContexts
from costmodel.dataset import read_files
from costmodel.integrations.triton import autotune, current_platform, dispatch_table
from costmodel.records import read_records

ASKED = (1024, 1024, 1024)
OTHERS = ((512, 1024, 1024), (1024, 2048, 1024), (2048, 1024, 512))
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_warps=w, num_stages=s)
    for m, n, k, w, s in (
        (32, 32, 64, 4, 4),
        (64, 32, 64, 4, 4),
        (64, 64, 32, 4, 4),
        (64, 64, 64, 4, 3),
        (64, 128, 64, 4, 4),
        (128, 64, 64, 4, 4),
        (128, 128, 32, 4, 4),
        (128, 128, 64, 4, 3),
        (128, 128, 64, 8, 3),
        (128, 256, 64, 8, 3),
        (256, 128, 64, 8, 3),
        (128, 256, 64, 8, 4),
    )
]
KEY = ["M", "N", "K"]


def grid_of(dims: tuple[int, int, int]) -> Callable[[dict[str, int]], tuple[int]]:
    m, n, _ = dims
    return lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)


def launch(kernel: Any, dims: tuple[int, int, int]) -> float:
    """Run a product; largest relative error."""
    m, n, k = dims
    torch.manual_seed(0)
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    kernel[grid_of(dims)](a, b, c, m, n, k)
    expected = (a.float() @ b.float()).cpu()
    return float((c.float().cpu() - expected).norm() / expected.norm())


def first_answer(kernel: Any, stream: Any) -> dict[str, Any]:
    """What a kernel takes on a stream, and how long its first call takes."""
    with torch.cuda.stream(stream):
        torch.cuda.synchronize()
        start = time.perf_counter()
        error = launch(kernel, ASKED)
        torch.cuda.synchronize()
        return {"config": str(kernel.best_config), "first_s": time.perf_counter() - start, "error": error}


def refuse(*_: Any, **__: Any) -> Any:
    raise SystemExit("the store must answer, but a config was to be timed")


def ours(store: Path, **settings: Any) -> Any:
    return autotune(configs=CONFIGS, key=KEY, store=store, **settings)(matmul)


def microseconds(act: Callable[[], Any], times: int = 1000) -> float:
    start = time.perf_counter()
    for _ in range(times):
        act()
    return (time.perf_counter() - start) / times * 1e6


def compare(out: Path, part_sms: int) -> None:  # noqa: PLR0915 (one after the other)
    contexts = GreenContexts()
    (handle, *_), granted = contexts.streams(part_sms)
    streams = {"whole": torch.cuda.Stream(), "part": torch.cuda.ExternalStream(handle)}
    whole_sms = torch.cuda.get_device_properties(0).multi_processor_count
    expected = {"whole": whole_sms, "part": granted}
    checks: dict[str, Any] = {}
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "triton": triton.__version__}
    for name, stream in streams.items():
        with torch.cuda.stream(stream):
            found = current_platform()
            checks[f"SMs of {name}"] = found.sms_granted == expected[name]
            report[f"platform {name}"] = found.name
            report[f"current_platform {name}, us"] = microseconds(current_platform)
    checks["default stream is the whole GPU"] = current_platform().sms_granted == whole_sms

    folder = Path(tempfile.mkdtemp())
    stock = triton.autotune(configs=CONFIGS, key=KEY)(matmul)
    cold_s = first_answer(stock, streams["whole"])["first_s"]
    tuned = ours(folder / "asked.jsonl")
    rows = []
    for name, stream in streams.items():
        again = triton.autotune(configs=CONFIGS, key=KEY)(matmul)
        rows.append((name, "triton.autotune", first_answer(again, stream)))
        rows.append((name, "ours", first_answer(tuned, stream)))
    checks["one answer a platform"] = len(tuned.cache) == len(streams)

    others = ours(folder / "others.jsonl")
    for dims in OTHERS:
        for stream in streams.values():
            with torch.cuda.stream(stream):
                launch(others, dims)
    checks["one answer a key"] = len(others.cache) == len(OTHERS) * len(streams)
    start = time.perf_counter()
    model = train(read_files([folder / "others.jsonl"]), "source-mixture")
    report["training, s"] = time.perf_counter() - start
    model.save(folder / "model.costmodel")
    for mode, settings in {"model": {}, "background": {"shortlist": 4}, "measure": {"shortlist": 4}}.items():
        for name, stream in streams.items():
            kernel = ours(folder / f"{mode}.jsonl", model=folder / "model.costmodel", mode=mode, **settings)
            rows.append((name, f"ours, model, {mode}", first_answer(kernel, stream)))
            rows.append((name, f"ours, model, {mode}, second", first_answer(kernel, stream)))
    neighbours = ours(folder / "others.jsonl", shortlist=4)
    for name, stream in streams.items():
        rows.append((name, "ours, neighbours, 4", first_answer(neighbours, stream)))

    child = [
        sys.executable,
        str(Path(__file__).with_name("run.py")),
        "--out",
        str(out.parent),
        "--answer-from",
        str(folder / "asked.jsonl"),
    ]
    answered = subprocess.run(child, capture_output=True, text=True, check=False)
    checks["another process is answered from the store"] = answered.returncode == 0
    report["other process"] = (answered.stdout + answered.stderr)[-500:]
    table = dispatch_table(folder / "asked.jsonl")
    report["dispatch"] = [(each.from_sms, each.to_sms, each.config.decisions) for each in table.ranges]
    for name, stream in streams.items():
        with torch.cuda.stream(stream):
            launch(tuned, ASKED)
            checks[f"results on {name} are right"] = launch(tuned, ASKED) < 1e-2
    try:
        first_answer(ours(folder / "graph.jsonl", use_cuda_graph=True), streams["part"])
        checks["a timer on other SMs is refused"] = False
    except Exception as error:  # noqa: BLE001 (shown)
        checks["a timer on other SMs is refused"] = type(error).__name__ == "CostModelError"
    graph = torch.cuda.CUDAGraph()
    captured = ours(folder / "captured.jsonl", model=model)
    m, n, k = ASKED
    a, b = (torch.randn(m, k, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    with torch.cuda.graph(graph):
        captured[grid_of(ASKED)](a, b, c, m, n, k)
    graph.replay()
    torch.cuda.synchronize()
    checks["nothing is timed while a graph is captured"] = not captured.cache
    report |= {
        "cold first answer of triton.autotune, s": cold_s,
        "checks": checks,
        "rows": rows,
        "us": microseconds_by_sms(folder / "asked.jsonl"),
    }
    out.write_text(json.dumps(report, indent=2, default=str))
    print(f"{report['device']}, Triton {triton.__version__}; {cold_s:.1f} s with compiling")
    for name, what, row in rows:
        print(f"{name:6} {what:32} {row['first_s'] * 1e3:9.1f} ms  {row['error']:.1e}  {row['config']}")
    for what, held in checks.items():
        print(f"{'ok' if held else 'NO':3} {what}")
    sys.exit(not all(checks.values()))


def microseconds_by_sms(store: Path) -> dict[str, list[dict[str, Any]]]:
    """Every timing of a store, the fastest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in sorted(read_records(store), key=lambda each: each.latency_s):
        row = {"us": each.latency_s * 1e6, **each.candidate.config.decisions}
        found.setdefault(str(each.platform.sms_granted), []).append(row)
    return found


def answer_from(store: Path) -> None:
    kernel = ours(store)
    kernel.do_bench = refuse  # do_bench= would be another timer, of which the store knows nothing
    launch(kernel, ASKED)
    print("answered from the store")
