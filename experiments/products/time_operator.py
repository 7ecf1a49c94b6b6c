"""Time ``costmodel::mm`` beside ``torch.mm`` on parts of a GPU, for layers of families never measured."""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from gpu import Gpu

from costmodel.products._operator import mm

BUDGETS = (8, 16, 32, 64, 96, 132)
# Inputs and outputs of linear layers: Gemma 2 of 2 and 9 billion parameters, Phi-3 mini, Falcon of 7 billion,
# and Whisper large.
LAYERS = (
    (2304, 9216), (9216, 2304), (2304, 4096), (3584, 14336), (14336, 3584), (3072, 9216), (3072, 16384),
    (4544, 18176), (18176, 4544), (4544, 4672), (1280, 5120), (1280, 1280),
)  # fmt: skip
TOKENS = (1, 8, 20, 64, 150, 512, 2000)
_NEVER = float("inf")


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
        k, n, tokens = cases[place]
        dtype = (torch.float16, torch.bfloat16)[place % 2]
        a = torch.randn(tokens, k, device="cuda").to(dtype)
        b = torch.randn(n, k, device="cuda").to(dtype).t()
        torch.cuda.synchronize()
        for sms in gpu.streams:
            if time.monotonic() - started > options.seconds:
                break
            row = {"m": tokens, "n": n, "k": k, "dtype": str(dtype).removeprefix("torch."), "sms": sms}
            rows.append({**row, **_time(gpu, a, b, sms)})
    found = {"device": gpu.name, "torch": torch.__version__, "cases": len(rows), **summarise(rows)}
    options.out.write_text(json.dumps({**found, "rows": rows}), encoding="utf-8")
    print(json.dumps(found, indent=1))


def _time(gpu: Gpu, a: torch.Tensor, b: torch.Tensor, sms: int) -> dict[str, float]:
    """Time PyTorch's call, ours, and both again; and what the host takes to launch ours."""
    stream, told = gpu.streams[sms], 0 if sms == gpu.whole else sms
    launches = {"torch": lambda _: torch.mm(a, b), "ours": lambda _: mm(a, b, told)}
    found = {}
    with gpu.on(sms):
        for visit in ("", "_again"):
            for name, launch in launches.items():
                found[f"{name}{visit}_s"] = gpu.time(launch, stream, _NEVER)[0]
        for name, launch in launches.items():
            begun = time.perf_counter()
            for _ in range(10):
                launch(stream)
            found[f"{name}_host_s"] = (time.perf_counter() - begun) / 10
            gpu.wait()
    return found


def summarise(rows: list[dict[str, float]]) -> dict[str, object]:
    """Return how many times as long PyTorch's call takes, what a repeat differs by, and the host's time."""
    by_sms = {}
    for sms in sorted({row["sms"] for row in rows}):
        here = np.array([row["torch_s"] / row["ours_s"] for row in rows if row["sms"] == sms])
        mean, (low, tenth) = np.exp(np.log(here).mean()), np.quantile(here, (0.0, 0.1))
        by_sms[str(sms)] = {"geometric_mean": mean, "p10": tenth, "worst": low}
    again = [
        abs(np.log(row[f"{name}_again_s"] / row[f"{name}_s"])) for row in rows for name in ("torch", "ours")
    ]
    host = {
        f"{name}_host_s": float(np.median([row[f"{name}_host_s"] for row in rows]))
        for name in ("torch", "ours")
    }
    repeat = {"median": float(np.median(again)), "p90": float(np.quantile(again, 0.9))}
    return {"torch_over_ours": by_sms, "again": repeat, **host}


if __name__ == "__main__":
    main()
