"""What is asked of each kernel: sizes, operands, the list that comes with it, and a wider space."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import kernels
import torch
import triton

SHARED_BYTES, REGISTERS = 220 * 1024, 192
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A kernel and what is asked of it.

    Attributes:
        kernel: The ``@triton.jit`` function.
        key: Arguments that tell the sizes.
        shapes: Their values: the first two are asked for, the others only learned from.
        operands: Arguments of a call for a shape, on a device; the last tensor is the result.
        grid: Programs for a shape and a config's parameters.
        expected: The result from the other tensors, by PyTorch.
        listed: The list of configs that such a kernel comes with.
        parameters: Values of all parameters, of which the wider space is made.
        allowed: Which of them can work.
    """

    kernel: Any
    key: tuple[str, ...]
    shapes: tuple[Shape, ...]
    operands: Callable[[Shape, str], tuple[Any, ...]]
    grid: Callable[[Shape, Mapping[str, int]], tuple[int, ...]]
    expected: Callable[..., Any]
    listed: Sequence[Mapping[str, int]]
    parameters: Mapping[str, Sequence[int]]
    allowed: Callable[[Mapping[str, int]], bool]

    def configs(self, size: int) -> list[triton.Config]:
        """So many configs of the space: the whole list first, then others drawn alike."""
        names = list(self.parameters)
        every = [dict(zip(names, values, strict=True)) for values in product(*self.parameters.values())]
        others = [each for each in every if self.allowed(each) and each not in self.listed]
        drawn = random.Random(0).sample(others, size - len(self.listed))
        return [_config(each) for each in (*self.listed, *drawn)]


def _config(parameters: Mapping[str, int]) -> triton.Config:
    own = dict(parameters)
    return triton.Config(own, num_warps=own.pop("num_warps"), num_stages=own.pop("num_stages"))


def _tiles(
    *rows: tuple[int, ...], names: tuple[str, ...] = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
) -> list[dict[str, int]]:
    return [dict(zip((*names, "num_stages", "num_warps"), row, strict=True)) for row in rows]


def _random(*shape: int, device: str) -> Any:
    return torch.randn(*shape, device=device, dtype=torch.float16)


def _missing(*shape: int, device: str) -> Any:
    return torch.full(shape, float("nan"), device=device, dtype=torch.float16)


def _matmul_operands(shape: Shape, device: str) -> tuple[Any, ...]:
    *batch, m, n, k = shape
    inputs = _random(*batch, m, k, device=device), _random(*batch, k, n, device=device)
    return (*inputs, _missing(*batch, m, n, device=device), *shape)


def _attention_operands(shape: Shape, device: str) -> tuple[Any, ...]:
    heads, length = shape
    inputs = [_random(heads, length, 64, device=device) for _ in range(3)]
    return (
        *inputs,
        _missing(heads, length, 64, device=device),
        heads,
        length,
        64**-0.5 * 1.4426950408889634,
        64,
    )


def _row_operands(vectors: int) -> Callable[[Shape, str], tuple[Any, ...]]:
    def operands(shape: Shape, device: str) -> tuple[Any, ...]:
        along = [_random(shape[1], device=device) for _ in range(vectors)]
        return (_random(*shape, device=device), *along, _missing(*shape, device=device), *shape)

    return operands


def _tile_fits(config: Mapping[str, int]) -> bool:
    m, n, k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    per_thread = m * n // (32 * config["num_warps"])
    return 2 * (m + n) * k * config["num_stages"] <= SHARED_BYTES and 8 <= per_thread <= REGISTERS


def _attention_fits(config: Mapping[str, int]) -> bool:
    m, n = config["BLOCK_M"], config["BLOCK_N"]
    shared = 2 * 64 * (m + 2 * n * config["num_stages"])
    return shared <= SHARED_BYTES and m * (n + 64) // (32 * config["num_warps"]) <= REGISTERS


def _tile_grid(shape: Shape, meta: Mapping[str, int]) -> tuple[int, ...]:
    *batch, m, n, _ = shape
    return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]), *batch)


# Of Triton's tutorial on matrix products.
_LISTED_TILES = _tiles(
    (128, 256, 64, 3, 8), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 5, 2), (32, 64, 32, 5, 2),
)  # fmt: skip
_TILES = {
    "BLOCK_M": (16, 32, 64, 128, 256),
    "BLOCK_N": (32, 64, 128, 256),
    "BLOCK_K": (32, 64, 128),
    "num_stages": (2, 3, 4, 5),
    "num_warps": (2, 4, 8),
}
_LISTED_ROWS = _tiles(
    (512, 2, 2), (1024, 2, 2), (1024, 2, 4), (2048, 2, 4),
    (2048, 2, 8), (4096, 2, 8), (4096, 2, 16), (8192, 2, 16), names=("BLOCK",),
)  # fmt: skip
_ROWS = {
    "BLOCK": (256, 512, 1024, 2048, 4096, 8192),
    "num_stages": (1, 2, 3, 4),
    "num_warps": (1, 2, 4, 8, 16),
}


def _row_fits(config: Mapping[str, int]) -> bool:
    return 4 <= config["BLOCK"] * config.get("ROWS", 1) // (32 * config["num_warps"]) <= 64


CASES = {
    "matmul": Case(
        kernels.matmul, ("M", "N", "K"), ((1024, 1024, 1024), (256, 4096, 2048), (512, 2048, 1024)),
        _matmul_operands, _tile_grid, torch.matmul,
        [{**each, "GROUP_M": 8} for each in _LISTED_TILES], {**_TILES, "GROUP_M": (1, 8)}, _tile_fits,
    ),
    "attention": Case(
        kernels.attention, ("H", "S"), ((32, 1024), (8, 4096), (16, 2048)),
        _attention_operands, lambda shape, meta: (triton.cdiv(shape[1], meta["BLOCK_M"]), shape[0]),
        torch.nn.functional.scaled_dot_product_attention,
        _tiles(
            (64, 32, 3, 4), (64, 64, 3, 4), (128, 32, 3, 4), (128, 64, 3, 4),
            (128, 64, 4, 4), (128, 64, 3, 8), (128, 128, 3, 8), (128, 128, 4, 8),
            names=("BLOCK_M", "BLOCK_N"),
        ),
        {
            "BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128), "num_stages": (2, 3, 4),
            "num_warps": (2, 4, 8),
        },
        _attention_fits,
    ),
    "layer_norm": Case(
        kernels.layer_norm, ("M", "N"), ((4096, 1024), (2048, 8192), (4096, 4096)),
        _row_operands(2), lambda shape, _: (shape[0],),
        lambda x, gain, bias: torch.nn.functional.layer_norm(x, x.shape[1:], gain, bias),
        _LISTED_ROWS, _ROWS, _row_fits,
    ),
    "softmax": Case(
        kernels.softmax, ("M", "N"), ((4096, 2048), (1024, 16384), (2048, 8192)),
        _row_operands(0), lambda shape, _: (shape[0],), lambda x: torch.softmax(x, 1),
        _LISTED_ROWS, _ROWS, _row_fits,
    ),
    "batched_matmul": Case(
        kernels.batched_matmul, ("B", "M", "N", "K"),
        ((16, 512, 512, 512), (64, 128, 1024, 128), (32, 256, 512, 256)),
        _matmul_operands, _tile_grid, torch.matmul, _LISTED_TILES, _TILES, _tile_fits,
    ),
    "bias_gelu": Case(
        kernels.bias_gelu, ("M", "N"), ((4096, 4096), (512, 3072), (2048, 4096)),
        _row_operands(1),
        lambda shape, meta: (triton.cdiv(shape[1], meta["BLOCK"]), triton.cdiv(shape[0], meta["ROWS"])),
        lambda x, bias: torch.nn.functional.gelu(x + bias),
        _tiles(
            (256, 1, 1, 2), (512, 1, 1, 2), (1024, 1, 1, 4), (1024, 4, 1, 4),
            (2048, 1, 1, 4), (2048, 4, 1, 8), (4096, 1, 1, 8), (4096, 4, 1, 8), names=("BLOCK", "ROWS"),
        ),
        {
            "BLOCK": (256, 512, 1024, 2048, 4096), "ROWS": (1, 2, 4, 8, 16), "num_stages": (1, 2, 3),
            "num_warps": (1, 2, 4, 8, 16),
        },
        _row_fits,
    ),
}  # fmt: skip
