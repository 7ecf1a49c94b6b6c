"""How well does the shipped model choose among configs of another Triton kernel, timed on an H100 in 2026-11?

It has seen neither: the products and kernels are those of ``triton-sm-budgets``.
"""

import json
from collections import defaultdict

import numpy as np

from costmodel import load_dataset
from costmodel.products import Kernel, Product, predict_seconds
from costmodel.records import Candidate

_H100 = "NVIDIA H100 80GB HBM3"
_FEWEST = 5  # configs of a task


def main() -> None:
    data = load_dataset("triton-sm-budgets")
    rows, tasks = data.measurements, defaultdict(list)
    for i, j, seconds in zip(rows["candidate"], rows["platform"], rows["latency_s"], strict=True):
        platform, candidate = data.platforms[j], data.candidates[i]
        kernel = kernel_of(candidate, platform.sms_granted)
        if kernel is not None and platform.device.name == _H100 and np.isfinite(seconds):
            tasks[product_of(candidate), platform.sms_granted].append((kernel, float(seconds)))
    first, random, errors = [], [], []
    for (product, sms), measured in tasks.items():
        if len(measured) >= _FEWEST:
            seconds = np.array([each for _, each in measured])
            expected = predict_seconds(product, [kernel for kernel, _ in measured], sms, _H100)
            first.append(seconds.min() / seconds[np.argmin(expected)])
            random.append(np.mean(seconds.min() / seconds))
            errors.append(np.abs(np.log(expected / seconds)))
    found = {
        "tasks": len(first),
        "kernels": sum(map(len, errors)),
        "first choice, median": np.median(first),
        "first choice, 10th percentile": np.quantile(first, 0.1),
        "random, median": np.median(random),
        "latency error, median": np.expm1(np.median(np.concatenate(errors))),
    }
    print(json.dumps({name: round(float(value), 3) for name, value in found.items()}, indent=1))


def product_of(candidate: Candidate) -> Product:
    """Return the product of a workload that is one; its operands are stored by rows."""
    workload = candidate.workload
    dims, epilogue = workload.dims, "_".join(workload.operator.epilogue)
    return Product(dims["m"], dims["n"], dims["k"], dims.get("b", 1), workload.dtype, "nn", epilogue)


def kernel_of(candidate: Candidate, sms: int) -> Kernel | None:
    """Return a config in the words of products; None for what is none, or persistent on other SMs."""
    workload = candidate.workload
    if candidate.source != "triton" or workload.is_foreign or "matmul" not in workload.operator.anchor:
        return None
    chosen = candidate.config.decisions
    if chosen["PROGRAMS"] % sms or not set(workload.operator.epilogue) <= {"bias", "gelu"}:
        return None
    kind = "persistent" if chosen["PROGRAMS"] else "split-k" if chosen["SPLIT_K"] > 1 else "plain"
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps", "GROUP_M", "SPLIT_K")
    return Kernel("triton", kind, *(int(chosen[name]) for name in names), int(chosen["PROGRAMS"]) // sms)


if __name__ == "__main__":
    main()
