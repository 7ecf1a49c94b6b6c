"""Embedding bags in PyTorch: its own, and as a product with a sparse matrix by cuSPARSE."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

Tensors = Mapping[str, Any]


def prepare(tensors: Tensors) -> dict[str, Any]:
    """The table as a matrix, and the lookups as a sparse one."""
    bags = tensors["offsets"].numel() - 1
    width = tensors["y"].numel() // bags
    table = tensors["table"].view(-1, width)
    lookups = torch.sparse_csr_tensor(
        tensors["offsets"],
        tensors["indices"],
        tensors["weights"],
        (bags, table.shape[0]),
        check_invariants=False,
    )
    return {**tensors, "table": table, "lookups": lookups}


def eager(tensors: Tensors) -> Any:
    """``torch.nn.EmbeddingBag`` of sums with a weight a lookup."""
    return functional.embedding_bag(
        tensors["indices"],
        tensors["table"],
        tensors["offsets"],
        mode="sum",
        per_sample_weights=tensors["weights"],
        include_last_offset=True,
    )


def sparse(tensors: Tensors) -> Any:
    """A matrix in compressed sparse rows times the table."""
    return tensors["lookups"] @ tensors["table"]
