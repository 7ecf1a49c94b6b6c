"""Rotary embedding in PyTorch, as models write it: kernels for each operation."""

from collections.abc import Mapping
from typing import Any

import torch

Tensors = Mapping[str, Any]


def eager(tensors: Tensors) -> Any:
    """Both halves, turned."""
    x, cosines, sines = tensors["x"], tensors["cosines"][:, None], tensors["sines"][:, None]
    left, right = x.chunk(2, dim=-1)
    turned = torch.cat([left * cosines - right * sines, right * cosines + left * sines], dim=-1)
    return turned.to(x.dtype)
