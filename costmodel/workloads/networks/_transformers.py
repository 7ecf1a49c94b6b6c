"""Transformers.

- BERT (Devlin et al., NAACL 2019, arXiv:1810.04805): the encoder on one sequence, behind its embeddings
- a decoder as LLaMA has it (Touvron et al., 2023, arXiv:2302.13971): RMSNorm, rotary positions, SwiGLU; with
  fewer key heads than heads, queries are grouped (Ainslie et al., 2023, arXiv:2305.13245)
"""

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


_VOCABULARY = 32000


class _RMSNorm(Layer):
    def __init__(self, size: int) -> None:
        self.gain = nn.Parameter((size,))

    def forward(self, x: Any) -> Any:
        return op.rms_norm(x, self.gain, axes=[-1], epsilon=1e-5)


class _Block(Layer):
    def __init__(self, size: int, heads: int, key_heads: int, inner: int) -> None:
        self.heads, self.key_heads = heads, key_heads
        key_size = size // heads * key_heads
        self.query, self.out = Linear(size, size, bias=False), Linear(size, size, bias=False)
        self.key, self.value = Linear(size, key_size, bias=False), Linear(size, key_size, bias=False)
        self.norm_attention, self.norm = _RMSNorm(size), _RMSNorm(size)
        self.gate, self.up = Linear(size, inner, bias=False), Linear(size, inner, bias=False)
        self.down = Linear(inner, size, bias=False)

    def forward(self, x: Any, turn: Any, mask: Any, cache: Any) -> Any:
        normed = self.norm_attention(x)
        query = turn(split_heads(self.query(normed), self.heads))
        key = turn(split_heads(self.key(normed), self.key_heads))
        value = split_heads(self.value(normed), self.key_heads)
        if cache is not None:
            key, value = (op.concat([old, new], dim=1) for old, new in zip(cache, (key, value), strict=True))
        x = op.add(self.out(merge_heads(attend(query, key, value, mask))), x)
        normed = self.norm(x)
        return op.add(self.down(op.multiply(op.silu(self.gate(normed)), self.up(normed))), x)


class _Decoder(Layer):
    """The layers, and the projection of the last token to the vocabulary."""

    def __init__(self, size: int, heads: int, key_heads: int, inner: int, layers: int) -> None:
        self.layers = nn.ModuleList([_Block(size, heads, key_heads, inner) for _ in range(layers)])
        self.norm = _RMSNorm(size)
        self.head = Linear(size, _VOCABULARY, bias=False)

    def run(self, x: Any, cosine: Any, sine: Any, mask: Any = None, cache: Any = None) -> Any:
        def turn(heads: Any) -> Any:
            first, second = op.split(heads, 2, axis=-1)
            turned = op.concat([op.negative(second), first], dim=-1)
            return op.add(op.multiply(heads, cosine), op.multiply(turned, sine))

        for layer in self.layers:
            x = layer(x, turn, mask, cache)
        tokens, size = (int(extent) for extent in x.shape)
        last = op.reshape(op.split(x, [tokens - 1], axis=0)[1], (1, size)) if tokens > 1 else x
        return self.head(self.norm(last))


class Prefill(_Decoder):
    """All tokens of a prompt at once; ``mask`` hides from each token those behind it."""

    def forward(self, x: Any, cosine: Any, sine: Any, mask: Any) -> Any:
        """Scores of the next token."""
        return self.run(x, cosine, sine, mask)


class Decode(_Decoder):
    """One token, with keys and values of those before it (the same in every layer: only shapes matter)."""

    def forward(self, x: Any, cosine: Any, sine: Any, keys: Any, values: Any) -> Any:
        """Scores of the next token."""
        return self.run(x, cosine, sine, cache=(keys, values))
