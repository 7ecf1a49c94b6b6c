"""Three kernels as Helion's examples write them, with operands of two shapes each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import helion.language as hl
import torch


def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        total = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            total = torch.addmm(total, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = total.to(x.dtype)
    return out


def softmax(x: torch.Tensor) -> torch.Tensor:
    m, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(m):
        out[tile, :] = torch.nn.functional.softmax(x[tile, :].to(torch.float32), dim=1).to(x.dtype)
    return out


def layer_norm(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    m, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(m):
        values = x[tile, :].to(torch.float32)
        centred = values - torch.mean(values, dim=-1)[:, None]
        scale = torch.rsqrt(torch.mean(centred * centred, dim=-1) + 1e-5)
        normal = centred * scale[:, None]
        out[tile, :] = (normal * gain[:].to(torch.float32) + bias[:].to(torch.float32)).to(x.dtype)
    return out


@dataclass(frozen=True)
class Case:
    """A kernel and what is asked of it.

    Attributes:
        kernel: The function.
        shapes: Sizes that are asked for; each is what the model knows when the other is asked.
        operands: Shapes of the operands of a call.
        expected: The result, by PyTorch.
    """

    kernel: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    operands: Callable[..., tuple[tuple[int, ...], ...]]
    expected: Callable[..., torch.Tensor]

    def inputs(self, shape: tuple[int, ...], device: str) -> tuple[Any, ...]:
        """Random operands in float16."""
        return tuple(torch.randn(*each, device=device, dtype=torch.float16) for each in self.operands(*shape))


CASES: Mapping[str, Case] = {
    "matmul": Case(
        matmul,
        ((1024, 1024, 1024), (256, 4096, 2048)),
        lambda m, n, k: ((m, k), (k, n)),
        torch.matmul,
    ),
    "softmax": Case(
        softmax,
        ((4096, 2048), (8192, 1024)),
        lambda m, n: ((m, n),),
        lambda x: torch.softmax(x.float(), 1),
    ),
    "layer_norm": Case(
        layer_norm,
        ((4096, 1024), (2048, 4096)),
        lambda m, n: ((m, n), (n,), (n,)),
        lambda x, gain, bias: torch.nn.functional.layer_norm(
            x.float(), x.shape[1:], gain.float(), bias.float()
        ),
    ),
}
