"""Attention in PyTorch, which chooses among flash attention, cuDNN and others by itself."""

from collections.abc import Mapping
from typing import Any

from torch.nn import functional
from torch.nn.attention import bias

Tensors = Mapping[str, Any]


def eager(tensors: Tensors) -> Any:
    """All keys."""
    query, key, value = (tensors[name][None] for name in ("query", "key", "value"))
    return functional.scaled_dot_product_attention(query, key, value)[0]


def causal(tensors: Tensors) -> Any:
    """Keys up to each query's place, where the last query has the place of the last key."""
    query, key, value = (tensors[name][None] for name in ("query", "key", "value"))
    mask = bias.causal_lower_right(query.shape[-2], key.shape[-2])
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)[0]
