"""Compile every variant before anything is timed: on all cores, shared between the processes of a host."""

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kernel
import torch
from candidates import Variant

OPERANDS = {
    "float16": torch.float16, "bfloat16": torch.bfloat16, "tfloat32": torch.float32, "float32": torch.float32,
    "float8_e4m3": torch.float8_e4m3fn, "int8": torch.int8,
}  # fmt: skip
RESULTS = {**OPERANDS, "float8_e4m3": torch.bfloat16, "int8": torch.int32}
EPILOGUES = ("", "bias", "bias_gelu")
_FUNCTIONS = {
    "plain": "tiles", "split-k": "tiles", "persistent": "persistent", "stream-k": "stream_k",
    "tma": "descriptors",
}  # fmt: skip


def blocks_of(variant: Variant) -> tuple[list[int], list[int]]:
    """Blocks of A and of B that descriptors copy, as they are stored."""
    m, n, k, *_ = variant.tile
    a, b = [m, k], [k, n]
    return a[::-1] if variant.layout[0] == "t" else a, b[::-1] if variant.layout[1] == "t" else b


def constants_of(variant: Variant) -> dict[str, Any]:
    """What is compiled in, in the order of the kernel's parameters."""
    import triton.language as tl

    is_whole = variant.dtype == "int8"
    named = {
        "A_T": variant.layout[0] == "t",
        "B_T": variant.layout[1] == "t",
        "EVEN_K": variant.even_k,
        "ACC": tl.int32 if is_whole else tl.float32,
        "PRECISION": "tf32" if variant.dtype == "tfloat32" else "ieee",
        "EPILOGUE": EPILOGUES.index(variant.epilogue),
        "SPLIT": variant.kind == "split-k",
        **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), variant.tile[:3], strict=True)),
    }
    names = getattr(kernel, _FUNCTIONS[variant.kind]).arg_names
    return {name: named[name] for name in names if name in named}


def compile_variant(variant: Variant) -> Any:
    """Triton's compiled kernel, from its cache on disk if it is there."""
    operands, results = OPERANDS[variant.dtype], RESULTS[variant.dtype]
    lda, ldb, ldc = (16 if each else 17 for each in variant.aligned)
    function = getattr(kernel, _FUNCTIONS[variant.kind])
    if variant.kind == "tma":
        a, b = (_descriptor(operands, block) for block in blocks_of(variant))
        arguments = a, b, results, results, 33, 33, ldc, 8, 8
    else:
        sums = torch.int32 if variant.dtype == "int8" else torch.float32
        scratch = () if variant.kind == "persistent" else (sums, torch.int32)
        arguments = operands, operands, results, results, *scratch, 33, 33, lda, ldb, ldc, 1, 8, 8
    options = {"num_warps": variant.tile[4], "num_stages": variant.tile[3]}
    return function.warmup(*arguments, grid=(1,), **constants_of(variant), **options)


def _descriptor(dtype: torch.dtype, block: list[int]) -> Any:
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(torch.empty(64, dtype=dtype), [64, 64], [64, 1], block)


class _NoGpu:
    """Stands in for Triton's driver where only a compiler is needed."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


def work_without_gpu() -> None:
    """Let Triton compile for an H100 that this process has not."""
    from triton.runtime import driver

    driver.set_active(_NoGpu())


def _fill_cache(variants: Sequence[Variant], until: float) -> int:
    """Compile until a time; how many were."""
    work_without_gpu()
    torch.set_num_threads(1)
    done = 0
    for variant in variants:
        if time.time() > until:
            break
        try:
            compile_variant(variant)
            done += 1
        except Exception as error:  # noqa: BLE001 (a compiler may give any, and the others are still wanted)
            print(f"{variant}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
    return done


def fill_cache(variants: Sequence[Variant], workers: int, until: float, shard: tuple[int, int]) -> int:
    """Compile variants in processes; where another shard is on the same host, begin elsewhere."""
    first = len(variants) * shard[0] // shard[1]
    turned = [*variants[first:], *variants[:first]]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        parts = [(turned[i::workers], until) for i in range(workers)]
        return sum(pool.starmap(_fill_cache, parts))


def load_variants(variants: Sequence[Variant], threads: int, until: float) -> dict[Variant, Any]:
    """Compiled kernels of this process, as many as there is time for."""
    found: dict[Variant, Any] = {}

    def load(variant: Variant) -> None:
        if time.time() > until:
            return
        try:
            found[variant] = compile_variant(variant)
        except Exception:  # noqa: BLE001 (told when the cache was filled)
            return

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(load, variants))
    return found
