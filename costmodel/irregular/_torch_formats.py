"""A pruned layer in the formats of PyTorch, to compare kernels with what it does itself."""

import math
from collections.abc import Mapping
from typing import Any

from costmodel.errors import InvalidConfigError

_SIDES = (128, 64, 32, 16)  # of blocks that PyTorch's kernels for BSR take, which must be square


def torch_formats(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as a matrix, and the weights in each of PyTorch's formats that holds just what is kept.

    Args:
        tensors: The layer's flat arrays by name: ``x``, ``W``, ``values``, ``indices`` and ``y``, and where
            sparse Tensor Cores can run it ``metadata`` of more than one word.

    Returns:
        ``x`` ``(m, k)`` and weights ``(n, k)``: ``dense``; ``csr`` with 32-bit indices; ``semi_structured``
        where the weights are two of four and have metadata; ``bsr`` where square blocks of 16 x 16 or more
        are kept.
    """
    x, weights = tensors["x"], tensors["W"]
    columns = math.isqrt(x.numel() * weights.numel() // tensors["y"].numel())
    dense = weights.view(-1, columns)
    formats = {"x": x.view(-1, columns), "dense": dense, "csr": _csr(dense)}
    if "metadata" in tensors and tensors["metadata"].numel() > 1:
        formats["semi_structured"] = _semi_structured(dense)
    bsr = _bsr(dense, tensors["values"].numel())
    return formats if bsr is None else {**formats, "bsr": bsr}


def torch_linear(formats: Mapping[str, Any], name: str) -> Any:
    """Return ``(m, n)`` the layer's output with weights in one of ``torch_formats``.

    Raises:
        InvalidConfigError: They are not in this format.
    """
    from torch.nn import functional

    if name not in formats:
        raise InvalidConfigError(f"The weights must have a pattern that {name} can hold, but they do not.")
    return functional.linear(formats["x"], formats[name]).contiguous()


def _csr(dense: Any) -> Any:
    import torch

    csr = dense.to_sparse_csr()
    rows, columns = csr.crow_indices().int(), csr.col_indices().int()
    return torch.sparse_csr_tensor(rows, columns, csr.values(), dense.shape, check_invariants=False)


def _semi_structured(dense: Any) -> Any:
    import torch

    return torch.sparse.to_sparse_semi_structured(dense)


def _bsr(dense: Any, kept: int) -> Any:
    """Return the weights in the largest square blocks that have no other zeros; None where there are none."""
    for side in _SIDES:
        if dense.shape[0] % side == 0 and dense.shape[1] % side == 0:
            bsr = dense.to_sparse_bsr((side, side))
            if bsr.values().numel() == kept:
                return bsr
    return None
