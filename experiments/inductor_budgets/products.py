"""The distinct matrix products of networks, found by running them on no device."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from networks import Network
from torch.utils._python_dispatch import TorchDispatchMode

from costmodel.products import Product

_CALLS = ("mm", "addmm", "bmm", "baddbmm")
SCALED = "_scaled_mm"


class Call(NamedTuple):
    """A product as PyTorch calls it.

    Attributes:
        operator: ``mm``, ``addmm``, ``bmm``, ``baddbmm`` or ``_scaled_mm``.
        sizes: Of each input.
        strides: Of each input.
        dtype: Of the inputs, as ``float16``.
    """

    operator: str
    sizes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    dtype: str

    @property
    def name(self) -> str:
        """Short name, such as ``addmm-128x768x3072-float16``."""
        a, b = self.sizes[-2:]
        return "-".join((self.operator, "x".join(map(str, (*a[:-1], b[-1], a[-1]))), self.dtype))

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        a, b = self.sizes[-2:]
        return 2 * a[-1] * b[-1] * a[-2] * (a[0] if len(a) == 3 else 1)

    def inputs(self, device: str) -> list[torch.Tensor]:
        """Return random inputs of these sizes and strides."""
        if self.operator == SCALED:  # each row of A and column of B has a scale
            (m, k), (_, n) = self.sizes
            a, b_transposed = (torch.randn(rows, k, device=device).to(torch.float8_e4m3fn) for rows in (m, n))
            return [a, b_transposed.t(), torch.ones(m, 1, device=device), torch.ones(1, n, device=device)]
        dtype = getattr(torch, self.dtype)
        made = []
        for size, stride in zip(self.sizes, self.strides, strict=True):
            tensor = torch.empty_strided(size, stride, device=device, dtype=dtype)
            made.append(tensor.normal_())
        return made

    @property
    def function(self) -> Callable[..., torch.Tensor]:
        """What computes it, of the inputs."""
        made: Callable[..., torch.Tensor] = getattr(torch, self.operator)
        return partial(made, out_dtype=torch.bfloat16) if self.operator == SCALED else made

    @property
    def product(self) -> Product | None:
        """A scaled product in our terms; None for others, which Inductor describes."""
        if self.operator != SCALED:
            return None
        (m, k), (_, n) = self.sizes
        return Product(m, n, k, dtype="float8_e4m3", layout="nt")


def scaled_calls(calls: Iterable[Call]) -> list[Call]:
    """Return products by weights in bfloat16 as they would be in 8 bits, with a scale for each row."""
    scaled = []
    for each in calls:
        if each.operator == "mm" and each.dtype == "bfloat16" and each.strides[1][0] == 1:
            (_, k), (_, n) = each.sizes
            if k % 16 == n % 16 == 0:
                scaled.append(Call(SCALED, each.sizes, ((k, 1), (1, k)), "float8_e4m3fn"))
    return scaled


def distinct_calls(networks: Iterable[Network]) -> list[Call]:
    """Return each product of the networks once, in order, but those of a vector."""
    found: dict[Call, None] = {}
    for network in networks:
        with _Recorder(network.dtype) as recorder:
            network.module("meta")(*network.inputs("meta"))
        found |= dict.fromkeys(recorder.calls)
    return [each for each in found if min(each.sizes[-2][-2], each.sizes[-1][-1]) > 1]


class _Recorder(TorchDispatchMode):
    """Without a device, attention is two products in float32; they are taken in the dtype of the network."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._dtype = str(dtype).removeprefix("torch.")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in _CALLS:
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            sizes = tuple(tuple(each.shape) for each in tensors)
            strides = tuple(tuple(each.stride()) for each in tensors)
            self.calls.append(Call(name, sizes, strides, self._dtype))
        return func(*args, **(kwargs or {}))
