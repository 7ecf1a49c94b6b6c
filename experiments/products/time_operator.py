"""Time ``costmodel::mm`` beside ``torch.mm`` on parts of a GPU, for layers of families never measured."""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from gpu import Gpu

from costmodel.files import write_json
from costmodel.products._choose import top
from costmodel.products._operator import Multiply, _library, _Prepared, mm
from costmodel.products._product import Product

BUDGETS = (8, 16, 32, 64, 96, 132)
# Inputs and outputs of linear layers: Gemma 2 of 2 and 9 billion parameters, Phi-3 mini, Falcon of 7 billion,
# and Whisper large.
LAYERS = (
    (2304, 9216), (9216, 2304), (2304, 4096), (3584, 14336), (14336, 3584), (3072, 9216), (3072, 16384),
    (4544, 18176), (18176, 4544), (4544, 4672), (1280, 5120), (1280, 1280),
)  # fmt: skip
TOKENS = (1, 8, 20, 64, 150, 512, 2000)
_NEVER, _LAUNCHES = float("inf"), 20


def main() -> None:
    """Time both of each product beside one another, PyTorch's once more, and save as it goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file for the result")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    started, gpu, rows = time.monotonic(), Gpu(BUDGETS), []
    draw = np.random.default_rng(0)
    cases = [(k, n, tokens) for k, n in LAYERS for tokens in TOKENS]
    for place in draw.permutation(len(cases)).tolist():
        if rows and time.monotonic() - started > options.seconds:
            break
        k, n, tokens = cases[place]
        dtype = (torch.float16, torch.bfloat16)[place % 2]
        a = torch.randn(tokens, k, device="cuda").to(dtype)
        b = torch.randn(n, k, device="cuda").to(dtype).t()
        torch.cuda.synchronize()
        for sms in gpu.streams:
            row = {"m": tokens, "n": n, "k": k, "dtype": str(dtype).removeprefix("torch."), "sms": sms}
            rows.append({**row, **_time(gpu, a, b, sms)})
        found = {"device": gpu.name, "torch": torch.__version__, "cases": len(rows), **summarise(rows)}
        write_json(options.out, {**found, "rows": rows})
    print(json.dumps(found, indent=1))


def _time(gpu: Gpu, a: torch.Tensor, b: torch.Tensor, sms: int) -> dict[str, float]:
    """Time PyTorch's call, ours, ours without a margin, and cuBLASLt's first algorithm, all again.

    All are put into graphs equally often: a graph of few runs takes longer for each.
    """
    stream, told = gpu.streams[sms], 0 if sms == gpu.whole else sms
    dtype, (m, k), n = str(a.dtype).removeprefix("torch."), a.shape, b.shape[1]
    product = Product(m, n, k, dtype=dtype)
    prepared = _Prepared(_library(0), product, told)
    first, c = prepared.multiply(0), torch.empty(m, n, dtype=a.dtype, device="cuda")
    bold = _without_margin(prepared, product, sms, gpu.name)
    launches = {
        "torch": lambda _: torch.mm(a, b), "ours": lambda _: mm(a, b, told), "told": lambda _: first(a, b, c),
        "bold": lambda _: torch.mm(a, b) if bold is None else bold(a, b, c),
    }  # fmt: skip
    found = {}
    with gpu.on(sms):
        runs = gpu.runs_of(gpu.time(launches["torch"], stream, _NEVER)[0])
        for visit in ("", "_again"):
            for name, launch in launches.items():
                found[f"{name}{visit}_s"] = gpu.time(launch, stream, _NEVER, runs)[0]
        for name, launch in launches.items():
            gpu.wait()
            begun = time.perf_counter()
            for _ in range(_LAUNCHES):
                launch(stream)
            found[f"{name}_host_s"] = (time.perf_counter() - begun) / _LAUNCHES
    gpu.wait()
    return found


def _without_margin(prepared: _Prepared, product: Product, sms: int, device: str) -> Multiply | None:
    """Return the algorithm that is expected to be the fastest; None for PyTorch's call."""
    offered = tuple(prepared.describe(i) for i in range(len(prepared.answers)))
    for choice in top(product, sms, device, offered, count=1000):
        if choice.kernel.backend == "torch":
            break
        if choice.kernel.backend == "cublaslt" and prepared.adds_in_float32(choice.kernel.position):
            return prepared.multiply(choice.kernel.position)
    return None


def summarise(rows: list[dict[str, float]]) -> dict[str, object]:
    """Return how many times as long others take, what a repeat differs by, and the host's time."""
    names = "torch", "ours", "told", "bold"
    again = [abs(np.log(row[f"{name}_again_s"] / row[f"{name}_s"])) for row in rows for name in names]
    return {
        **{f"{name}_over_ours": _ratios(rows, name) for name in ("torch", "told", "bold")},
        "again": {"median": float(np.median(again)), "p90": float(np.quantile(again, 0.9))},
        **{f"{name}_host_s": float(np.median([row[f"{name}_host_s"] for row in rows])) for name in names},
    }  # fmt: skip


def _ratios(rows: list[dict[str, float]], other: str) -> dict[str, dict[str, float]]:
    """By SMs, and of 8 to 64 together."""
    parts = {f"{sms:.0f}": (sms, sms) for sms in sorted({row["sms"] for row in rows})} | {"8-64": (8, 64)}
    found = {}
    for name, (low, high) in parts.items():
        here = [row[f"{other}_s"] / row["ours_s"] for row in rows if low <= row["sms"] <= high]
        if here:
            worst, tenth = np.quantile(here, (0.0, 0.1)).tolist()
            mean = float(np.exp(np.log(here).mean()))
            found[name] = {"geometric_mean": mean, "p10": tenth, "worst": worst}
    return found


if __name__ == "__main__":
    main()
