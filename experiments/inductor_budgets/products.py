"""The distinct matrix products of networks, found by running them on no device."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from networks import Network
from torch.utils._python_dispatch import TorchDispatchMode

_CALLS = ("mm", "addmm", "bmm", "baddbmm")


class Call(NamedTuple):
    """A product as PyTorch calls it.

    Attributes:
        operator: ``mm``, ``addmm``, ``bmm`` or ``baddbmm``.
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
        dtype = getattr(torch, self.dtype)
        made = []
        for size, stride in zip(self.sizes, self.strides, strict=True):
            tensor = torch.empty_strided(size, stride, device=device, dtype=dtype)
            made.append(tensor.normal_())
        return made


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
