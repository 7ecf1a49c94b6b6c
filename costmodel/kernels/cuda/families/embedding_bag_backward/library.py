"""The gradient of an embedding bag's table in PyTorch: its own, and by adding rows to those of an index.

Both begin with a gradient of zeros, as large as the table, where the kernels add to one that is there.
"""

from collections.abc import Mapping
from typing import Any

import torch

Tensors = Mapping[str, Any]

_SUM = 0  # mode of an embedding bag


def prepare(tensors: Tensors) -> dict[str, Any]:
    """Matrices, what the forward pass leaves, and indices in the type that PyTorch takes."""
    width = int(tensors["width"])
    of_bags = tensors["of_bags"].view(-1, width)
    bags = tensors["bags"].long()
    return {
        "of_bags": of_bags,
        "gradient": tensors["gradient"].view(-1, width),
        "indices": tensors["indices"].long(),
        "bags": bags,
        "weights": tensors["weights"],
        "lengths": torch.bincount(bags, minlength=len(of_bags)),
    }


def eager(tensors: Tensors) -> Any:
    """What autograd calls for ``torch.nn.EmbeddingBag`` of sums with a weight a lookup; it sorts by row."""
    return torch.ops.aten._embedding_bag_dense_backward(
        tensors["of_bags"],
        tensors["indices"],
        tensors["bags"],
        tensors["lengths"],
        tensors["lengths"],  # of maxima, which a sum has none of
        len(tensors["gradient"]),
        False,
        _SUM,
        tensors["weights"],
    )


def index_add(tensors: Tensors) -> Any:
    """The gradient of each lookup, added by atomics."""
    of_lookups = tensors["of_bags"][tensors["bags"]] * tensors["weights"][:, None]
    return torch.zeros_like(tensors["gradient"]).index_add_(0, tensors["indices"], of_lookups)
