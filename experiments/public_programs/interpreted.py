"""Choose configs of three kernels of public packages in Triton's interpreter, and compare with PyTorch.

Run with TRITON_INTERPRET=1. What is timed is the interpreter.
"""

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import triton

from costmodel.integrations.triton import autotune

WARPS = [triton.Config({}, num_warps=warps) for warps in (2, 4, 8)]


def main() -> None:
    with TemporaryDirectory() as folder:
        for choose in (softmax, squared_relu, matmul):
            error, config = choose(Path(folder) / "timings.jsonl")
            print(f"{choose.__name__}: largest error {error:.2g} with {config}")


def softmax(store: Path) -> tuple[float, Any]:
    """A kernel of flash-linear-attention, without its own list."""
    x = torch.randn(8, 100)
    out = torch.empty_like(x)
    kernel = tuned("fla.ops.utils.softmax", "softmax_fwd_kernel", ["D"], store, WARPS)
    kernel[(8,)](x=x, p=out, D=100, B=128)
    return float((out - x.softmax(1)).abs().max()), kernel.best_config


def squared_relu(store: Path) -> tuple[float, Any]:
    """A kernel of Liger."""
    x = torch.randn(6, 100)
    out = torch.empty_like(x)
    kernel = tuned("liger_kernel.ops.relu_squared", "_relu_squared_forward_kernel", ["n_cols"], store, WARPS)
    kernel[(6,)](out, 100, x, 100, n_cols=100, BLOCK_SIZE=128)
    return float((out - x.relu() ** 2).abs().max()), kernel.best_config


def matmul(store: Path) -> tuple[float, Any]:
    """A kernel of flash-linear-attention with its own list."""
    a, b = torch.randn(64, 64).half(), torch.randn(64, 48).half()
    out = torch.empty(64, 48).half()
    kernel = tuned("fla.ops.utils.matmul", "matmul_kernel", ["M", "N", "K"], store)
    grid = lambda told: (triton.cdiv(64, told["BM"]) * triton.cdiv(48, told["BN"]),)  # noqa: E731
    strides = (0, 64, 1, 48, 1, 0, 48, 1)
    flags = {"ACTIVATION": None, "HAS_INPUT": False, "HAS_ALPHA": False, "HAS_BETA": False}
    kernel[grid](a, b, out, None, None, None, 64, 48, 64, *strides, **flags, ALLOW_TF32=False, X_DIM=1)
    return float((out.float() - a.float() @ b.float()).abs().max()), kernel.best_config


def tuned(
    module: str, name: str, key: Sequence[str], store: Path, configs: Sequence[Any] | None = None
) -> Any:
    """Decorate a kernel of a package as the project's README does, in place of what its author put there."""
    kernel = getattr(import_module(module), name)
    while hasattr(kernel.fn, "arg_names"):
        configs = configs or getattr(kernel, "configs", None)
        kernel = kernel.fn
    return autotune(configs, key, shortlist=2, do_bench=bench, store=store)(kernel)


def bench(call: Callable[[], object], quantiles: Sequence[float]) -> list[float]:
    """Milliseconds of one call."""
    start = time.perf_counter()
    call()
    return [1e3 * (time.perf_counter() - start)] * len(quantiles)


if __name__ == "__main__":
    main()
