"""Well-known networks, in ``tvm.relax.frontend.nn``.

- GoogLeNet (Szegedy et al., CVPR 2015, arXiv:1409.4842, table 1), without its side classifiers
- MobileNetV2 (Sandler et al., CVPR 2018, arXiv:1801.04381, table 2)
- ResNet-50 (He et al., CVPR 2016, arXiv:1512.03385, table 1), with the stride in the 3 x 3 convolution
- BERT (Devlin et al., NAACL 2019, arXiv:1810.04805): the encoder on one sequence, behind its embeddings
- a decoder as LLaMA has it (Touvron et al., 2023, arXiv:2302.13971): RMSNorm, rotary positions, SwiGLU; with
  fewer key heads than heads, queries are grouped (Ainslie et al., 2023, arXiv:2305.13245)
- DLRM (Naumov et al., 2019, arXiv:1906.00091) as MLPerf trains it, behind its 26 embedding tables
"""

from itertools import pairwise
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from costmodel.workloads._network_layers import (
    Conv,
    Layer,
    Layout,
    Linear,
    attend,
    concat_channels,
    max_pool,
    mean_of_pixels,
    merge_heads,
    relu6,
    split_heads,
)

# Filters of a block's 1 x 1; 1 x 1 and 3 x 3; 1 x 1 and 5 x 5; 1 x 1 behind the pool. Stages end in a pool.
_GOOGLENET_STAGES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


class Inception(Layer):
    def __init__(self, layout: Layout, channels: int, filters: tuple[int, ...]) -> None:
        one, before_three, three, before_five, five, behind_pool = filters
        self.layout = layout
        self.one = Conv(layout, channels, one, 1)
        self.before_three = Conv(layout, channels, before_three, 1)
        self.three = Conv(layout, before_three, three, 3)
        self.before_five = Conv(layout, channels, before_five, 1)
        self.five = Conv(layout, before_five, five, 5)
        self.behind_pool = Conv(layout, channels, behind_pool, 1)

    def forward(self, x: Any) -> Any:
        branches = [
            op.relu(self.one(x)),
            op.relu(self.three(op.relu(self.before_three(x)))),
            op.relu(self.five(op.relu(self.before_five(x)))),
            op.relu(self.behind_pool(max_pool(x, self.layout, 1))),
        ]
        return concat_channels(branches, self.layout)


class GoogLeNet(Layer):
    """Images of 224 x 224 pixels to 1000 classes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.stem = Conv(layout, 3, 64, 7, 2)
        self.narrow = Conv(layout, 64, 64, 1)
        self.widen = Conv(layout, 64, 192, 3)
        stages, channels = [], 192
        for stage in _GOOGLENET_STAGES:
            blocks = []
            for filters in stage:
                blocks.append(Inception(layout, channels, filters))
                channels = filters[0] + filters[2] + filters[4] + filters[5]
            stages.append(nn.ModuleList(blocks))
        self.stages = nn.ModuleList(stages)
        self.classify = Linear(channels, 1000)

    def forward(self, image: Any) -> Any:
        """Scores of the classes."""
        x = max_pool(op.relu(self.stem(image)), self.layout, 2)
        x = op.relu(self.widen(op.relu(self.narrow(x))))
        for stage in self.stages:
            x = max_pool(x, self.layout, 2)
            for block in stage:
                x = block(x)
        return self.classify(mean_of_pixels(x, self.layout))


# Expansion, channels, blocks, stride of the first block.
_MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(Layer):
    def __init__(self, layout: Layout, channels: int, filters: int, expansion: int, stride: int) -> None:
        width = expansion * channels
        self.expand = Conv(layout, channels, width, 1) if expansion > 1 else None
        self.depthwise = Conv(layout, width, width, 3, stride, depthwise=True)
        self.project = Conv(layout, width, filters, 1)
        self.same = stride == 1 and channels == filters

    def forward(self, x: Any) -> Any:
        wide = x if self.expand is None else relu6(self.expand(x))
        result = self.project(relu6(self.depthwise(wide)))
        return op.add(result, x) if self.same else result


class MobileNetV2(Layer):
    """Images of 224 x 224 pixels to 1000 classes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.stem = Conv(layout, 3, 32, 3, 2)
        blocks, channels = [], 32
        for expansion, filters, count, stride in _MOBILENET_STAGES:
            for i in range(count):
                first = stride if i == 0 else 1
                blocks.append(InvertedResidual(layout, channels, filters, expansion, first))
                channels = filters
        self.blocks = nn.ModuleList(blocks)
        self.head = Conv(layout, channels, 1280, 1)
        self.classify = Linear(1280, 1000)

    def forward(self, image: Any) -> Any:
        """Scores of the classes."""
        x = relu6(self.stem(image))
        for block in self.blocks:
            x = block(x)
        return self.classify(mean_of_pixels(relu6(self.head(x)), self.layout))


_RESNET_STAGES = (
    (64, 3, 1),
    (128, 4, 2),
    (256, 6, 2),
    (512, 3, 2),
)  # width, blocks, stride of the first block


class Bottleneck(Layer):
    def __init__(self, layout: Layout, channels: int, width: int, stride: int) -> None:
        self.reduce = Conv(layout, channels, width, 1)
        self.conv = Conv(layout, width, width, 3, stride)
        self.expand = Conv(layout, width, 4 * width, 1)
        same = stride == 1 and channels == 4 * width
        self.shortcut = None if same else Conv(layout, channels, 4 * width, 1, stride)

    def forward(self, x: Any) -> Any:
        inner = op.relu(self.conv(op.relu(self.reduce(x))))
        skipped = x if self.shortcut is None else self.shortcut(x)
        return op.relu(op.add(self.expand(inner), skipped))


class ResNet50(Layer):
    """Images of 224 x 224 pixels to 1000 classes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.stem = Conv(layout, 3, 64, 7, 2)
        blocks, channels = [], 64
        for width, count, stride in _RESNET_STAGES:
            for i in range(count):
                blocks.append(Bottleneck(layout, channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.blocks = nn.ModuleList(blocks)
        self.classify = Linear(channels, 1000)

    def forward(self, image: Any) -> Any:
        """Scores of the classes."""
        x = max_pool(op.relu(self.stem(image)), self.layout, 2)
        for block in self.blocks:
            x = block(x)
        return self.classify(mean_of_pixels(x, self.layout))


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


TABLES, WIDTH = 26, 128


class _Perceptron(Layer):
    def __init__(self, *sizes: int) -> None:
        self.layers = nn.ModuleList([Linear(a, b) for a, b in pairwise(sizes)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = op.relu(layer(x))
        return x


class Dlrm(Layer):
    """13 numbers and 26 embeddings a sample to one score."""

    def __init__(self) -> None:
        self.bottom = _Perceptron(13, 512, 256, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = _Perceptron(pairs + WIDTH, 1024, 1024, 512, 256)
        self.score = Linear(256, 1)

    def forward(self, numbers: Any, embeddings: Any) -> Any:
        """``(n, 13)`` and ``(n, 26, 128)`` to ``(n, 1)`` scores."""
        n, count = int(numbers.shape[0]), TABLES + 1
        dense = self.bottom(numbers)
        vectors = op.concat([op.reshape(dense, (n, 1, WIDTH)), embeddings], dim=1)
        products = op.matmul(vectors, op.permute_dims(vectors, (0, 2, 1)))
        rows, columns = np.tril_indices(count, -1)
        lower = relax.const((rows * count + columns).astype("int32"))
        pairs = relax.op.take(op.reshape(products, (n, count * count))._expr, lower, axis=1, mode="clip")
        return self.score(self.top(op.concat([op.wrap_nested(pairs, "pairs"), dense], dim=1)))
