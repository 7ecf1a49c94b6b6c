"""The networks that are recorded, in plain PyTorch: ResNet-50, BERT, GPT at prefill and decode, DLRM.

What a variant may fuse is written in parts, each in an annotation of its name: ``gelu`` and ``attention``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import record_function


class Bottleneck(nn.Module):
    """A residual block of He et al., Deep residual learning for image recognition, CVPR 2016."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(channels, width, 1),
            nn.ReLU(),
            *_convolution(width, width, 3, stride),
            nn.ReLU(),
            *_convolution(width, 4 * width, 1),
        )
        changes = stride > 1 or channels != 4 * width
        self.shortcut = nn.Sequential(*(_convolution(channels, 4 * width, 1, stride) if changes else ()))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def _convolution(channels: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    found = nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, bias=False)
    return [found, nn.BatchNorm2d(outputs)]


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> nn.Module:
    """ResNet-50 unless told otherwise."""
    layers = [*_convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
            channels = 4 * width << stage
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return nn.Sequential(*layers, *head).to(memory_format=torch.channels_last)


class Attention(nn.Module):
    """Attention of several heads, in parts or as one call; with a cache, one token follows what is in it."""

    def __init__(self, size: int, heads: int, *, causal: bool, fused: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.fused = heads, causal, fused
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        batch, tokens, size = x.shape
        parts = self.inputs(x).view(batch, tokens, 3, self.heads, size // self.heads)
        q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
        if cache is not None:
            for kept, new in zip(cache, (k, v), strict=True):
                kept[:, :, -1:] = new
            k, v = cache
        with record_function("attention"):
            mixed = self.mix(q, k, v)
        return self.output(mixed.transpose(1, 2).reshape(batch, tokens, size))

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        tokens = q.shape[2]
        causal = self.causal and tokens > 1
        if self.fused:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        scores = q @ k.transpose(2, 3) / sqrt(q.shape[3])
        if causal:
            scores = scores + torch.full((tokens, tokens), -1e4, dtype=q.dtype, device=q.device).triu(1)
        return scores.softmax(-1) @ v


class Gelu(nn.Module):
    """GELU by tanh, in parts as many models write it, or as one call."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        with record_function("gelu"):
            if self.fused:
                return functional.gelu(x, approximate="tanh")
            return 0.5 * x * (1.0 + torch.tanh(sqrt(2 / torch.pi) * (x + 0.044715 * x * x * x)))


class Layer(nn.Module):
    """A layer of a transformer, norms first."""

    def __init__(self, size: int, heads: int, *, causal: bool, fused: str) -> None:
        super().__init__()
        self.attention = Attention(size, heads, causal=causal, fused=fused == "attention")
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        gelu = Gelu(fused=fused == "gelu")
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), gelu, nn.Linear(4 * size, size))

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attention(self.norms[0](x), cache)
        return x + self.mlp(self.norms[1](x))


@dataclass(frozen=True)
class Shape:
    """Of a transformer.

    Attributes:
        size: Of an embedding.
        heads: Of attention.
        layers: How many.
        causal: Whether a token sees only those before it.
        cached: Batch and tokens of what precedes its one input token; None if nothing does.
    """

    size: int
    heads: int
    layers: int
    causal: bool = False
    cached: tuple[int, int] | None = None


class Transformer(nn.Module):
    """Layers of a transformer on embeddings."""

    def __init__(self, shape: Shape, fused: str) -> None:
        super().__init__()
        layer = partial(Layer, shape.size, shape.heads, causal=shape.causal, fused=fused)
        self.layers = nn.ModuleList([layer() for _ in range(shape.layers)])
        self.cached = shape.cached is not None
        if shape.cached:
            batch, tokens = shape.cached
            for name in ("keys", "values"):
                kept = torch.randn(shape.layers, batch, shape.heads, tokens, shape.size // shape.heads)
                self.register_buffer(name, kept)

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x, (self.keys[number], self.values[number]) if self.cached else None)
        return x


class Dlrm(nn.Module):
    """Naumov et al., Deep learning recommendation model, arXiv:1906.00091: bags, two MLPs, products."""

    def __init__(self, *, tables: int = 8, rows: int = 50_000, size: int = 64, dense: int = 13) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, size, mode="sum") for _ in range(tables)])
        self.bottom = _mlp(dense, 512, 256, size)
        self.top = _mlp(size + tables * (tables + 1) // 2, 512, 256, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [table(rows) for table, rows in zip(self.tables, indices.unbind(0), strict=True)]
        features = torch.stack([x, *(bag.to(x.dtype) for bag in bags)], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))


def _mlp(*sizes: int) -> nn.Sequential:
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class TinyKernels(nn.Module):
    """Kernels that do next to nothing: what a launch and a gap between kernels cost."""

    def __init__(self, *, kernels: int, queued: bool) -> None:
        super().__init__()
        self.kernels, self.queued = kernels, queued

    def forward(self, x: Tensor) -> Tensor:
        if self.queued and x.is_cuda:
            torch.cuda._sleep(4_000_000)  # 2 ms, in which all of them are launched
        for _ in range(self.kernels):
            x.add_(1)
        return x


class Views(nn.Module):
    """Calls that launch nothing: what a call costs."""

    def __init__(self, *, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.calls):
            x.view(-1)
        return x


@dataclass(frozen=True)
class Network:
    """What is recorded.

    Attributes:
        build: Makes the module, with what of it is fused: nothing, ``gelu`` or ``attention``.
        inputs: Makes its inputs, in float32.
        optimizer: ``SGD`` or ``AdamW`` if it is trained; else empty.
        fusions: What of it can be fused.
        calibrates: Whether it is no network: it tells what launches and calls cost.
    """

    build: Callable[[str], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    optimizer: str = ""
    fusions: tuple[str, ...] = ()
    calibrates: bool = False


def networks(*, tiny: bool) -> dict[str, Network]:
    """All by name, those that are trained last; tiny ones for a rehearsal."""
    calls = 10 if tiny else 300
    found = {
        "tiny-kernels": Network(_tiny(calls, queued=False), partial(_randn, 1), calibrates=True),
        "queued-kernels": Network(_tiny(calls, queued=True), partial(_randn, 1), calibrates=True),
        "views": Network(lambda fused: Views(calls=calls), partial(_randn, 1), calibrates=True),
    }
    found |= _of_images(tiny) | _of_texts(tiny) | _of_clicks(tiny)
    return dict(sorted(found.items(), key=lambda item: bool(item[1].optimizer)))


def _of_images(tiny: bool) -> dict[str, Network]:
    edge, width, depths = (32, 8, (1, 1)) if tiny else (224, 64, (3, 4, 6, 3))

    def build(fused: str) -> nn.Module:
        return resnet(depths, width)

    def images(n: int) -> tuple[Tensor]:
        return (torch.randn(n, 3, edge, edge).contiguous(memory_format=torch.channels_last),)

    several = partial(images, 2 if tiny else 16)
    return {
        "resnet50": Network(build, partial(images, 1)),
        "resnet50-batch16": Network(build, several),
        "resnet50-train": Network(build, several, "SGD"),
    }


def _of_texts(tiny: bool) -> dict[str, Network]:
    parts = ("gelu", "attention")
    batch, tokens, bert = (2, 16, Shape(32, 2, 2)) if tiny else (8, 128, Shape(768, 12, 4))
    length, gpt = (32, Shape(32, 2, 2, causal=True)) if tiny else (1024, Shape(1024, 16, 4, causal=True))
    a_bert, texts = partial(Transformer, bert), partial(_randn, batch, tokens, bert.size)
    decode = replace(gpt, cached=(8, length))
    return {
        "bert": Network(a_bert, texts, fusions=parts),
        "gpt-prefill": Network(partial(Transformer, gpt), partial(_randn, 1, length, gpt.size), "", parts),
        "gpt-decode": Network(partial(Transformer, decode), partial(_randn, 8, 1, gpt.size), "", parts),
        "bert-train": Network(a_bert, texts, "AdamW", parts),
    }


def _of_clicks(tiny: bool) -> dict[str, Network]:
    tables, rows, batch = (3, 50, 16) if tiny else (8, 50_000, 2048)

    def build(fused: str) -> nn.Module:
        return Dlrm(tables=tables, rows=rows)

    def clicks() -> tuple[Tensor, Tensor]:
        return torch.randn(batch, 13), torch.randint(rows, (tables, batch, 8))

    return {"dlrm": Network(build, clicks), "dlrm-train": Network(build, clicks, "SGD")}


def _tiny(kernels: int, *, queued: bool) -> Callable[[str], nn.Module]:
    return lambda fused: TinyKernels(kernels=kernels, queued=queued)


def _randn(*shape: int) -> tuple[Tensor]:
    return (torch.randn(*shape),)
