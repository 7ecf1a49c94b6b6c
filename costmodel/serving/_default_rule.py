"""What frameworks run where they have no table for the GPU.

Sources: ``get_default_config`` of vLLM (``model_executor/layers/fused_moe/fused_moe.py``, 2026) and of SGLang
(``srt/layers/moe/fused_moe_triton/fused_moe_triton_config.py``), and their calls of block-scaled products
(``w8a8_block_fp8_matmul``). On NVIDIA's GPUs. What they leave to Triton is told: 4 warps, 3 stages.
"""

from typing import Literal

from costmodel.serving._kernel import PARAMETERS, ExpertProducts, Kernel, Row, ScaledProduct

Framework = Literal["vllm", "sglang"]

_MUCH_SHARED = 128 * 1024


def default_row(framework: Framework, kernel: Kernel, tokens: int, shared_bytes: int = _MUCH_SHARED) -> Row:
    """Return the config that a framework runs for a number of tokens.

    Args:
        framework: Which.
        kernel: What for.
        tokens: How many.
        shared_bytes: Shared memory that a block of the GPU can have.
    """
    if isinstance(kernel, ScaledProduct):
        return _row((64, *kernel.block), 32, stages=2 if framework == "vllm" else 3)
    if kernel.precision.startswith("int") and kernel.block is not None:
        rows = 16 if tokens <= 20 else 32 if tokens <= 40 else 64
        return _row((rows, 32, 64) if tokens == 1 else (rows, 64, 32), 1)
    if framework == "sglang":
        return _default_of_sglang(kernel, tokens, shared_bytes)
    if kernel.precision == "fp8_w8a8" and kernel.block is not None:
        return _blocks_of_vllm(kernel.block, tokens)
    return _default_of_vllm(kernel, tokens)


def _blocks_of_vllm(block: tuple[int, int], tokens: int) -> Row:
    rows, group = 16 if tokens <= 64 else 64, 1 if tokens <= 16 else 32
    if tokens <= 8 and block[0] % 64 == 0:
        return _row((rows, 64, block[1]), group, stages=4 if tokens <= 4 else 3)
    return _row((rows, *block), group)


def _default_of_vllm(kernel: ExpertProducts, tokens: int) -> Row:
    rows = next((rows for most, rows in ((32, 16), (96, 32), (512, 64)) if tokens <= most), 128)
    depth = 128 if kernel.precision == "fp8_w8a8" or tokens <= 64 else 64
    group = 16 if tokens // kernel.experts > 128 else 1
    warps, stages = 4 if tokens <= 128 else 8, 4 if tokens <= 32 else 3
    return _row((rows, 64 if tokens <= 64 else 128, depth), group, warps, stages)


def _default_of_sglang(kernel: ExpertProducts, tokens: int, shared_bytes: int) -> Row:
    few = tokens <= kernel.experts
    if kernel.precision != "fp8_w8a8":
        return _row((16, 32, 64), 1) if few else _row((64, 64, 32), 8)
    if kernel.block is not None:
        return _row((64, *kernel.block), 32)
    if shared_bytes < _MUCH_SHARED:
        return _row((32, 64, 256), 1, stages=4) if few else _row((64, 128, 256), 64, stages=2)
    return _row((64, 128, 128), 1, stages=4) if few else _row((128, 256, 128), 32, warps=8, stages=4)


def _row(tile: tuple[int, int, int], group: int, warps: int = 4, stages: int = 3) -> Row:
    return dict(zip(PARAMETERS, (*tile, group, warps, stages), strict=True))
