"""The gradient of an embedding bag's table in PyTorch: its own, and by adding rows to those of an index."""

from collections.abc import Mapping
from typing import Any

import torch

Tensors = Mapping[str, Any]

_SUM = 0  # mode of an embedding bag


def prepare(tensors: Tensors) -> dict[str, Any]:
    """Matrices, and lookups in the types that PyTorch takes."""
    bags, rows, width = _sizes(tensors)
    lengths = torch.bincount(tensors["bags"], minlength=bags)
    return {
        "of_bags": tensors["of_bags"].view(bags, width),
        "gradient": tensors["gradient"].view(rows, width),
        "indices": tensors["indices"].long(),
        "bags": tensors["bags"].long(),
        "weights": tensors["weights"],
        "lengths": lengths,
        "longest": torch.zeros(bags, dtype=torch.long, device=lengths.device),
    }
