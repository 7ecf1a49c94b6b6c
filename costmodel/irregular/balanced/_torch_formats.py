"""A pruned layer in the formats of PyTorch, to compare kernels with what it does itself."""

import math
from collections.abc import Mapping
from typing import Any

_SMALLEST_SIDE = 16  # of blocks that PyTorch's kernels for BSR take, whose sides are powers of two


def torch_formats(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as a matrix, and the weights in each of PyTorch's formats that holds just what is kept.

    Args:
        tensors: The layer's flat arrays by name: ``x``, ``W``, ``values``, ``indices`` and ``y``, and where
            sparse Tensor Cores can run it ``metadata`` of more than one word.

    Returns:
        ``x`` ``(m, k)`` and weights ``(n, k)``: ``dense``; ``csr`` with 32-bit indices; ``semi_structured``
        where the weights are two of four and have metadata; ``bsr`` where blocks of 16 x 16 or more are kept.
    """
    x, weights = tensors["x"], tensors["W"]
    columns = math.isqrt(x.numel() * weights.numel() // tensors["y"].numel())
    dense = weights.view(-1, columns)
    formats = {"x": x.view(-1, columns), "dense": dense, "csr": _csr(dense)}
    if "metadata" in tensors and tensors["metadata"].numel() > 1:
        formats["semi_structured"] = _semi_structured(dense)
    kept_together = tensors["values"].numel() // tensors["indices"].numel()
    bsr = _bsr(dense, kept_together, tensors["values"].numel())
    return formats if bsr is None else {**formats, "bsr": bsr}


def torch_linear(formats: Mapping[str, Any], name: str) -> Any:
    """``(m, n)`` the layer's output with weights in one of ``torch_formats``.

    Raises:
        ValueError: They are not in this format.
    """
    from torch.nn import functional

    if name not in formats:
        raise ValueError(f"The pattern of the weights must be one that {name} holds, but it holds them not.")
    return functional.linear(formats["x"], formats[name]).contiguous()


def _csr(dense: Any) -> Any:
    import torch

    csr = dense.to_sparse_csr()
    rows, columns = csr.crow_indices().int(), csr.col_indices().int()
    return torch.sparse_csr_tensor(rows, columns, csr.values(), dense.shape, check_invariants=False)


def _semi_structured(dense: Any) -> Any:
    import torch

    return torch.sparse.to_sparse_semi_structured(dense)


def _bsr(dense: Any, kept_together: int, kept: int) -> Any:
    """The weights in blocks of a size that has no other zeros; None where PyTorch has no kernel for them."""
    rows = _SMALLEST_SIDE
    while kept_together % rows == 0 and kept_together // rows >= _SMALLEST_SIDE:
        columns = kept_together // rows
        if dense.shape[0] % rows == 0 and dense.shape[1] % columns == 0 and columns & (columns - 1) == 0:
            bsr = dense.to_sparse_bsr((rows, columns))
            if bsr.values().numel() == kept:
                return bsr
        rows *= 2
    return None
