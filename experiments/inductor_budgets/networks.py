"""Blocks of well-known networks with random weights, small enough to compile in seconds."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (everybody's name for it)


class Network(NamedTuple):
    """A block, the shapes of its inputs, and what it computes in.

    Attributes:
        make: Makes the module; its sizes are bound.
        shapes: Shape of each input.
        dtype: Of inputs and weights.
        channels_last: Whether images are stored by channels last, as is fastest on Tensor Cores.
    """

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype
    channels_last: bool = False

    def module(self, device: str) -> nn.Module:
        """Return the module, ready for inference, with the same weights each time."""
        torch.manual_seed(0)
        with torch.device(device):
            module = self.make().to(self.dtype).eval().requires_grad_(False)
        return module.to(memory_format=torch.channels_last) if self.channels_last else module

    def inputs(self, device: str) -> list[torch.Tensor]:
        """Return inputs of order one."""
        made = [torch.randn(shape, device=device, dtype=self.dtype) for shape in self.shapes]
        if self.channels_last:
            made = [each.to(memory_format=torch.channels_last) if each.ndim == 4 else each for each in made]
        return made


class Attention(nn.Module):
    """Multi-head attention over tokens, with fewer heads of keys and values if asked."""

    def __init__(self, size: int, heads: int, kv_heads: int | None = None, *, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads or heads, size // heads
        self.q = nn.Linear(size, size, bias=bias)
        self.kv = nn.Linear(size, 2 * self.kv_heads * self.head, bias=bias)
        self.out = nn.Linear(size, size, bias=bias)

    def forward(self, x: torch.Tensor, cached: torch.Tensor | None = None) -> torch.Tensor:
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, self.head).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, self.kv_heads, self.head).permute(2, 0, 3, 1, 4)
        if cached is not None:
            k, v = torch.cat((cached[0], k), 2), torch.cat((cached[1], v), 2)
        attended = F.scaled_dot_product_attention(q, k, v, enable_gqa=self.kv_heads != self.heads)
        return self.out(attended.transpose(1, 2).reshape(b, t, -1))


class Encoder(nn.Module):
    """A layer of BERT, ViT or Whisper's encoder; norms come first unless told."""

    def __init__(self, size: int, heads: int, *, norm_first: bool = True) -> None:
        super().__init__()
        self.attention, self.norm_first = Attention(size, heads), norm_first
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.norms
        if self.norm_first:
            x = x + self.attention(first(x))
            return x + self.down(F.gelu(self.up(second(x))))
        x = first(x + self.attention(x))
        return second(x + self.down(F.gelu(self.up(x))))


class Llama(nn.Module):
    """A decoder layer with grouped heads and a gated network; with cached keys and values if given."""

    def __init__(self, size: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(size, heads, kv_heads, bias=False)
        self.gate_up = nn.Linear(size, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, size, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(size) for _ in range(2))

    def forward(self, x: torch.Tensor, cached: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), cached)
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Mixture(nn.Module):
    """Experts that each get as many tokens: a mixture with capacity, as batched products."""

    def __init__(self, size: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(size, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, size, 2 * hidden) * size**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, size) * hidden**-0.5)
        self.experts = experts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        scores = self.router(tokens).softmax(-1)
        weight, chosen = scores.t().topk(2 * len(tokens) // self.experts)  # tokens of each expert
        gate, up = torch.bmm(tokens[chosen], self.up).chunk(2, -1)
        made = torch.bmm(F.silu(gate) * up, self.down) * weight.unsqueeze(-1)
        return torch.zeros_like(tokens).index_add_(0, chosen.flatten(), made.flatten(0, 1)).view_as(x)


class Bottleneck(nn.Module):
    """A block of ResNet-50 with its norms folded in."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.into, self.out = nn.Conv2d(size, inner, 1), nn.Conv2d(inner, size, 1)
        self.middle = nn.Conv2d(inner, inner, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.out(F.relu(self.middle(F.relu(self.into(x))))))


class ConvNeXt(nn.Module):
    """A block of ConvNeXt: a convolution of each channel, then two products."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(size, size, 7, padding=3, groups=size)
        self.norm, self.up, self.down = (
            nn.LayerNorm(size),
            nn.Linear(size, 4 * size),
            nn.Linear(4 * size, size),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.down(F.gelu(self.up(made))).permute(0, 3, 1, 2)


class UNet(nn.Module):
    """A block of a diffusion model: two convolutions between norms, then attention over pixels."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, size) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1) for _ in range(2))
        self.encoder = Encoder(size, heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            made = convolution(F.silu(norm(made)))
        pixels = (x + made).flatten(2).transpose(1, 2)
        return self.encoder(pixels).transpose(1, 2).view_as(x)


class Dlrm(nn.Module):
    """Dense parts of a recommender: two networks, and products of all pairs of vectors between them."""

    def __init__(self, tables: int, size: int) -> None:
        super().__init__()
        self.bottom = _layers(13, 512, 256, size)
        self.top = _layers(size + (tables + 1) ** 2, 1024, 1024, 512, 256, 1)

    def forward(self, dense: torch.Tensor, looked_up: torch.Tensor) -> torch.Tensor:
        made = self.bottom(dense)
        vectors = torch.cat((made.unsqueeze(1), looked_up), 1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat((made, pairs), 1)))


class Mamba(nn.Module):
    """A block of Mamba-2, whose scan is products within chunks of tokens and a short one over chunks.

    Inductor 2.11 cannot compile a cumulative sum over many tokens of few channels: it splits the sum among
    programs, and fails as it writes their code.

    Source: Dao and Gu, "Transformers are SSMs" (2024, arXiv:2405.21060), listing 1.
    """

    head, chunk = 64, 64

    def __init__(self, size: int, state: int) -> None:
        super().__init__()
        self.inner, self.state = 2 * size, state
        self.heads, self.mixed = self.inner // self.head, self.inner + 2 * state
        self.into = nn.Linear(size, self.inner + self.mixed + self.heads, bias=False)
        self.mix = nn.Parameter(torch.randn(4, self.mixed) / 2)  # a convolution of each channel
        self.rate = nn.Parameter(torch.rand(self.heads))
        self.norm, self.out = nn.RMSNorm(self.inner), nn.Linear(self.inner, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        gate, mixed, step = self.into(x).split((self.inner, self.mixed, self.heads), -1)
        past = F.pad(mixed, (0, 0, 3, 0))
        mixed = F.silu(torch.stack([past[:, i : i + t] * self.mix[i] for i in range(4)]).sum(0))
        x, into, out = mixed.split((self.inner, self.state, self.state), -1)
        step = F.softplus(step.float())
        x = (x.view(b, t, self.heads, self.head) * step.unsqueeze(-1)).to(mixed.dtype)
        x = x.view(b, -1, self.chunk, self.heads, self.head)
        into, out = (each.reshape(b, -1, self.chunk, self.state) for each in (into, out))
        log_decay = (-step * self.rate.exp()).view(b, -1, self.chunk, self.heads).permute(0, 3, 1, 2)
        y = self._scan(x, into, out, log_decay.cumsum(-1)).reshape(b, t, self.inner)
        return self.out(self.norm(y * F.silu(gate)))

    def _scan(
        self, x: torch.Tensor, into: torch.Tensor, out: torch.Tensor, decayed: torch.Tensor
    ) -> torch.Tensor:
        """Sum states within chunks, then carry them from chunk to chunk.

        Args:
            x: ``(batch, chunks, tokens, heads, head)``.
            into: ``(batch, chunks, tokens, state)``.
            out: As ``into``.
            decayed: ``(batch, heads, chunks, tokens)`` logarithms, summed over the tokens of a chunk.
        """
        scores = (out @ into.transpose(-1, -2)).unsqueeze(1) * _between(decayed).to(x.dtype)
        y = torch.einsum("bhcls,bcshp->bclhp", scores, x)
        left = torch.exp(decayed[..., -1:] - decayed).to(x.dtype)  # of each token at its chunk's end
        states = torch.einsum("bcln,bclhp->bchpn", into, x * left.permute(0, 2, 3, 1).unsqueeze(-1))
        carried = _between(F.pad(decayed[..., -1], (1, 0)).cumsum(-1)).to(x.dtype)
        states = torch.einsum("bhzc,bchpn->bzhpn", carried[..., 1:], states)[:, :-1]
        from_before = torch.einsum("bcln,bchpn->bclhp", out, states)
        return y + from_before * torch.exp(decayed).to(x.dtype).permute(0, 2, 3, 1).unsqueeze(-1)


def _between(summed: torch.Tensor) -> torch.Tensor:
    """What is left of each earlier place at each later one; 0 of later ones. ``(..., places, places)``."""
    apart = summed.unsqueeze(-1) - summed.unsqueeze(-2)
    return torch.exp(apart.masked_fill(apart.new_ones(apart.shape[-2:]).triu(1).bool(), -torch.inf))


def _layers(*sizes: int) -> nn.Sequential:
    return nn.Sequential(*(each for a, b in pairwise(sizes) for each in (nn.Linear(a, b), nn.ReLU())))


_HALF, _BRAIN, _FLOAT = torch.float16, torch.bfloat16, torch.float32


def bert(tokens: int, size: int, dtype: torch.dtype = _HALF, batch: int = 1) -> Network:
    return Network(lambda: Encoder(size, size // 64, norm_first=False), ((batch, tokens, size),), dtype)


def vit(images: int, size: int, tokens: int = 197) -> Network:
    return Network(lambda: Encoder(size, size // 64), ((images, tokens, size),), _HALF)


_LLAMA_8B, _LLAMA_3B = (4096, 32, 8, 14336), (3072, 24, 8, 8192)  # size, heads, those of keys, hidden size
_LLAMA_1B, _QWEN = (2048, 32, 8, 8192), (896, 14, 2, 4864)


def llama(tokens: int, sizes: tuple[int, int, int, int], *, batch: int = 1, cached: int = 0) -> Network:
    size, heads, kv_heads, _ = sizes
    shapes: tuple[tuple[int, ...], ...] = ((batch, tokens, size),)
    if cached:
        shapes += ((2, batch, kv_heads, cached, size // heads),)
    return Network(lambda: Llama(*sizes), shapes, _BRAIN)


def mixture(tokens: int, size: int, hidden: int, experts: int) -> Network:
    return Network(lambda: Mixture(size, hidden, experts), ((1, tokens, size),), _BRAIN)


def resnet(images: int, size: int, inner: int, pixels: int) -> Network:
    shape = (images, size, pixels, pixels)
    return Network(lambda: Bottleneck(size, inner), (shape,), _HALF, channels_last=True)


def convnext(images: int, size: int, pixels: int) -> Network:
    return Network(lambda: ConvNeXt(size), ((images, size, pixels, pixels),), _HALF, channels_last=True)


def unet(images: int, size: int, pixels: int) -> Network:
    return Network(
        lambda: UNet(size, size // 64), ((images, size, pixels, pixels),), _HALF, channels_last=True
    )


def dlrm(rows: int, tables: int = 26, size: int = 128) -> Network:
    return Network(lambda: Dlrm(tables, size), ((rows, 13), (rows, tables, size)), _HALF)


def mamba(tokens: int, size: int, batch: int = 1) -> Network:
    return Network(lambda: Mamba(size, 128), ((batch, tokens, size),), _BRAIN)


# The networks of the figures.
JUDGED: dict[str, Network] = {
    "bert-128x768": bert(128, 768),
    "llama-8b-decode-16": llama(1, _LLAMA_8B, batch=16, cached=1024),
    "vit-b-8": vit(8, 768),
    "mamba-1024": mamba(1024, 1024),
    "dlrm-2048": dlrm(2048),
    "convnext-t-8": convnext(8, 384, 14),
    "mixtral-moe-64": mixture(64, 4096, 14336 // 4, 8),
    "llama-8b-prefill-512": llama(512, _LLAMA_8B),
    "whisper-small": bert(1500, 768),
    "resnet50-stage3-8": resnet(8, 1024, 256, 14),
    "unet-640": unet(2, 640, 32),
    "bert-128x512-float32": bert(128, 512, _FLOAT),
}
# Sizes of these and of other networks, whose products are learned from.
MORE: dict[str, Network] = {
    **{f"bert-{t}x{s}": bert(t, s) for t in (32, 64, 256, 384, 512) for s in (512, 768, 1024)},
    **{f"bert-{t}x{s}-float32": bert(t, s, _FLOAT) for t in (64, 256, 512) for s in (512, 768)},
    **{f"llama-8b-{t}": llama(t, _LLAMA_8B) for t in (16, 48, 128, 1024)},
    **{f"llama-3b-{t}": llama(t, _LLAMA_3B) for t in (8, 32, 96, 256, 768)},
    **{f"llama-1b-{t}": llama(t, _LLAMA_1B) for t in (4, 16, 64, 200, 512)},
    **{f"qwen-05b-{t}": llama(t, _QWEN) for t in (16, 64, 256, 1000)},
    **{f"mixture-{t}": mixture(t, 2048, 1408, 8) for t in (32, 128, 512)},
    **{f"mixtral-moe-{t}": mixture(t, 4096, 14336 // 4, 8) for t in (16, 256)},
    **{f"vit-s-{i}": vit(i, 384) for i in (1, 4, 16)},
    **{f"vit-b-{i}": vit(i, 768) for i in (1, 32)},
    "vit-l-4": vit(4, 1024),
    **{f"vit-l14-{i}": vit(i, 1024, 257) for i in (1, 8)},
    **{f"vit-b32-{i}": vit(i, 768, 50) for i in (1, 16)},
    "vit-b-384-2": vit(2, 768, 577),
    **{f"clip-text-{i}": bert(77, 512, batch=i) for i in (1, 16)},
    **{f"wav2vec2-{t}": bert(t, 768) for t in (149, 499)},
    **{f"bert-{t}x{s}-4": bert(t, s, batch=4) for t, s in ((100, 768), (300, 1024), (20, 384))},
    **{f"convnext-{s}": convnext(8, s, p) for s, p in ((96, 56), (192, 28), (768, 7))},
    **{f"unet-{s}": unet(2, s, p) for s, p in ((320, 64), (1280, 16))},
    **{f"whisper-{s}": bert(1500, s) for s in (384, 512, 1024)},
    **{f"dlrm-{r}": dlrm(r) for r in (256, 8192)},
    **{f"mamba-{t}x{s}": mamba(t, s) for t, s in ((256, 768), (2048, 768), (64, 2048), (512, 2048))},
}
