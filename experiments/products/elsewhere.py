"""How well does the shipped model choose among configs of another Triton kernel, timed on an H100 in 2026-11?

It has seen neither: the products and kernels are those of ``triton-sm-budgets``.
"""

import json
from collections import defaultdict

import numpy as np

from costmodel import load_dataset
from costmodel.products import Kernel, Product, predict_seconds
from costmodel.products._workload import find_kernel, find_product
from costmodel.records import Candidate

_H100 = "NVIDIA H100 80GB HBM3"
_WHOLE = 132
_FEWEST = 5  # configs of a task


def main() -> None:
    data = load_dataset("triton-sm-budgets")
    rows, tasks = data.measurements, defaultdict(list)
    for i, j, seconds in zip(rows["candidate"], rows["platform"], rows["latency_s"], strict=True):
        platform, candidate = data.platforms[j], data.candidates[i]
        product, kernel = known_kernel(candidate, platform.sms_granted)
        if (
            product
            and kernel
            and candidate.source == "triton"
            and platform.device.name == _H100
            and np.isfinite(seconds)
        ):
            tasks[product, platform.sms_granted].append((kernel, float(seconds)))
    first, four, random, errors = [], [], [], []
    for (product, sms), measured in tasks.items():
        if len(measured) >= _FEWEST:
            seconds = np.array([each for _, each in measured])
            expected = predict_seconds(
                product, [kernel for kernel, _ in measured], sms, _H100, sizes_known=True
            )
            ranked = seconds[np.argsort(expected, kind="stable")]
            first.append(seconds.min() / ranked[0])
            four.append(seconds.min() / ranked[:4].min())
            random.append(np.mean(seconds.min() / seconds))
            errors.append(np.abs(np.log(expected / seconds)))
    found = {
        "tasks": len(first),
        "kernels": sum(map(len, errors)),
        "first choice, median": np.median(first),
        "first choice, 10th percentile": np.quantile(first, 0.1),
        "best of four, median": np.median(four),
        "best of four, 10th percentile": np.quantile(four, 0.1),
        "random, median": np.median(random),
        "latency error, median": np.expm1(np.median(np.concatenate(errors))),
    }
    print(json.dumps({name: round(float(value), 3) for name, value in found.items()}, indent=1))


def known_kernel(candidate: Candidate, sms: int) -> tuple[Product | None, Kernel | None]:
    """Return a config in the words of products; None for what is none, or persistent on other SMs."""
    product = find_product(candidate.workload)
    if product is None or not set(candidate.workload.operator.epilogue) <= {"bias", "gelu"}:
        return None, None
    return product, find_kernel(candidate.source, candidate.config, sms, _WHOLE)


if __name__ == "__main__":
    main()
