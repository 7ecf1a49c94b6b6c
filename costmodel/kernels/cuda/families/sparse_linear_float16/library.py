"""The layer in PyTorch: the same product with the weights in each of its formats."""

from collections.abc import Mapping
from typing import Any

from costmodel.irregular._torch_formats import torch_formats, torch_linear

Tensors = Mapping[str, Any]

prepare = torch_formats


def dense(formats: Tensors) -> Any:
    """With the zeros, by cuBLAS."""
    return torch_linear(formats, "dense")


def csr(formats: Tensors) -> Any:
    """Without the zeros, by cuSPARSE."""
    return torch_linear(formats, "csr")


def semi_structured(formats: Tensors) -> Any:
    """Two of four, by cuSPARSELt, or by CUTLASS where PyTorch has none."""
    return torch_linear(formats, "semi_structured")


def bsr(formats: Tensors) -> Any:
    """Blocks of 16 x 16 or more, by PyTorch's own kernels."""
    return torch_linear(formats, "bsr")
