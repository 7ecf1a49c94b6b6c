"""BERT (Devlin et al., NAACL 2019, arXiv:1810.04805): the encoder on one sequence, behind its embeddings."""

from typing import Any

from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from costmodel.workloads.networks._layers import Layer, Linear, attend, merge_heads, split_heads


class _LayerNorm(Layer):
    def __init__(self, size: int) -> None:
        self.size = size
        self.gain = nn.Parameter((size,))
        self.bias = nn.Parameter((size,))

    def forward(self, x: Any) -> Any:
        return op.layer_norm(x, [self.size], self.gain, self.bias)


class _Encoder(Layer):
    def __init__(self, size: int, heads: int) -> None:
        self.heads = heads
        self.query, self.key, self.value, self.out = (Linear(size, size) for _ in range(4))
        self.norm_attention, self.norm = _LayerNorm(size), _LayerNorm(size)
        self.up, self.down = Linear(size, 4 * size), Linear(4 * size, size)

    def forward(self, x: Any) -> Any:
        query, key, value = (split_heads(made(x), self.heads) for made in (self.query, self.key, self.value))
        x = self.norm_attention(op.add(self.out(merge_heads(attend(query, key, value))), x))
        return self.norm(op.add(self.down(op.gelu(self.up(x))), x))


class Bert(Layer):
    """``(tokens, size)`` embeddings to ``(tokens, size)`` encodings."""

    def __init__(self, size: int, heads: int, layers: int) -> None:
        self.layers = nn.ModuleList([_Encoder(size, heads) for _ in range(layers)])

    def forward(self, x: Any) -> Any:
        """Encodings of the tokens."""
        for layer in self.layers:
            x = layer(x)
        return x
