"""Networks that took no part while the planner's rules were made, in plain PyTorch.

U-Net, MobileNet, ConvNeXt, ViT, LLaMA, LSTM, a graph network, WaveNet, MLP-Mixer, a generator of images, a
mixture of experts; two of them are trained.
"""

from collections.abc import Callable
from functools import partial

import torch
from networks import Network
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """Adds what a module makes of its input to the input."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Permuted(nn.Module):
    """Its input with other order of axes."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(*self.axes)


class UNet(nn.Module):
    """Ronneberger et al., MICCAI 2015, with group norms and SiLU as diffusion models have it."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width << level for level in range(depth)]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([_of_norm_and_convolution(each, each) for each in widths])
        self.shrink = nn.ModuleList([nn.Conv2d(each, 2 * each, 3, 2, 1) for each in widths[:-1]])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * each, each, 2, 2) for each in widths[:-1]])
        self.up = nn.ModuleList([_of_norm_and_convolution(2 * each, each) for each in widths[:-1]])
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, kept = self.down[0](self.first(x)), []
        for shrink, down in zip(self.shrink, list(self.down)[1:], strict=True):
            kept.append(x)
            x = down(shrink(x))
        for grow, up, before in zip(reversed(self.grow), reversed(self.up), reversed(kept), strict=True):
            x = up(torch.cat([grow(x), before], 1))
        return self.last(x)


def _of_norm_and_convolution(channels: int, outputs: int) -> nn.Sequential:
    norms = (nn.GroupNorm(8, channels), nn.GroupNorm(8, outputs))
    first, second = (nn.Conv2d(each, outputs, 3, padding=1) for each in (channels, outputs))
    return nn.Sequential(norms[0], nn.SiLU(), first, norms[1], nn.SiLU(), second)


class SqueezeAndExcite(nn.Module):
    """Weighs channels by what all of a picture says (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels // 4, 1),
            nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


def mobilenet(width: int, blocks: int) -> nn.Module:
    """Blocks of MobileNetV3 (Howard et al., ICCV 2019): expand, convolve each channel, weigh, project."""

    def block() -> nn.Module:
        wide = 4 * width
        layers = [nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish()]
        layers += [nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False), nn.BatchNorm2d(wide)]
        layers += [nn.Hardswish(), SqueezeAndExcite(wide), nn.Conv2d(wide, width, 1, bias=False)]
        return Residual(*layers, nn.BatchNorm2d(width))

    return nn.Sequential(nn.Conv2d(3, width, 3, 4, 1), *(block() for _ in range(blocks)), *_head(width))


def convnext(width: int, blocks: int) -> nn.Module:
    """Blocks of ConvNeXt (Liu et al., CVPR 2022): a convolution of each channel, norm, and two products."""

    def block() -> nn.Module:
        mlp = (nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        return Residual(
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            Permuted(0, 2, 3, 1),
            *mlp,
            Permuted(0, 3, 1, 2),
        )

    return nn.Sequential(nn.Conv2d(3, width, 4, 4), *(block() for _ in range(blocks)), *_head(width))


def _head(width: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)


def vit(size: int, layers: int) -> nn.Module:
    """Dosovitskiy et al., ICLR 2021, by PyTorch's own layers."""
    layer = nn.TransformerEncoderLayer(
        size, size // 64 or 1, 4 * size, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    patches = (nn.Conv2d(3, size, 16, 16), nn.Flatten(2), Permuted(0, 2, 1))
    return nn.Sequential(*patches, nn.TransformerEncoder(layer, layers, enable_nested_tensor=False))


class LlamaLayer(nn.Module):
    """A layer of LLaMA (Touvron et al., 2023): RMS norm, rotated queries and keys, shared keys, gated MLP."""

    def __init__(self, size: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.heads, self.shared = heads, max(heads // 4, 1)
        self.norms = nn.ModuleList([nn.RMSNorm(size), nn.RMSNorm(size)])
        self.query = nn.Linear(size, size, bias=False)
        self.key_value = nn.Linear(size, 2 * self.shared * (size // heads), bias=False)
        self.output = nn.Linear(size, size, bias=False)
        self.gate, self.value = (nn.Linear(size, 3 * size, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * size, size, bias=False)
        angles = torch.outer(torch.arange(tokens), 1e4 ** -torch.linspace(0, 1, size // heads // 2))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        queries = self.rotated(self.query(y).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        keys, values = self.key_value(y).unflatten(-1, (2, self.shared, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            queries, self.rotated(keys), values, is_causal=True, enable_gqa=True
        )
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.value(y))

    def rotated(self, x: Tensor) -> Tensor:
        one, other = x.chunk(2, -1)
        return torch.cat([one * self.cosine - other * self.sine, other * self.cosine + one * self.sine], -1)


class Recurrent(nn.Module):
    """Two layers of LSTM by cuDNN, and a product."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size, 2, batch_first=True)
        self.output = nn.Linear(size, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.lstm(x)[0])


class GraphNetwork(nn.Module):
    """Each node adds up what its neighbours send (Kipf and Welling, ICLR 2017)."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(size, size) for _ in range(layers)])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        for layer in self.layers:
            sent = layer(x).index_select(0, source)
            x = functional.relu(torch.zeros_like(x).index_add(0, target, sent))
        return x


class GatedConvolution(nn.Module):
    """A layer of WaveNet (van den Oord et al., 2016)."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.both = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.project = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        one, gate = self.both(x).chunk(2, 1)
        return x + self.project(torch.tanh(one) * torch.sigmoid(gate))


def mixer(size: int, patches: int, layers: int) -> nn.Module:
    """Tolstikhin et al., NeurIPS 2021: products over patches, then over channels."""

    def mlp(width: int) -> tuple[nn.Module, ...]:
        return nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)

    def layer() -> nn.Module:
        turned = Permuted(0, 2, 1)
        over_patches = Residual(nn.LayerNorm(size), turned, *mlp(patches), turned)
        return nn.Sequential(over_patches, Residual(nn.LayerNorm(size), *mlp(size)))

    return nn.Sequential(*(layer() for _ in range(layers)))


def generator(width: int) -> nn.Module:
    """DCGAN's (Radford et al., ICLR 2016): from 100 numbers to a picture."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 8 * width, 4), nn.BatchNorm2d(8 * width), nn.ReLU()]
    for channels in (8 * width, 4 * width, 2 * width):
        half = channels // 2
        layers += [nn.ConvTranspose2d(channels, half, 4, 2, 1), nn.BatchNorm2d(half), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


class Experts(nn.Module):
    """Experts of equal capacity, each with the tokens that score best (Zhou et al., NeurIPS 2022)."""

    def __init__(self, size: int, experts: int) -> None:
        super().__init__()
        self.route = nn.Linear(size, experts)
        self.up = nn.Parameter(torch.randn(experts, size, 4 * size) / size**0.5)
        self.down = nn.Parameter(torch.randn(experts, 4 * size, size) / (4 * size) ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.route(x).softmax(-1).T.topk(2 * len(x) // len(self.up), -1)
        found = functional.gelu(x[chosen] @ self.up) @ self.down
        sent = (found * weights.unsqueeze(-1)).flatten(0, 1)
        return x.index_add(0, chosen.flatten(), sent)


def networks(*, tiny: bool) -> dict[str, Network]:
    """All by name, those that are trained last; tiny ones for a rehearsal."""
    a_mixer = _built(mixer, *((32, 8, 1) if tiny else (512, 196, 6)))
    patches = _drawn(*((2, 8, 32) if tiny else (32, 196, 512)))
    a_unet = _built(UNet, *((8, 2) if tiny else (64, 4)))
    tokens, size = (16, 32) if tiny else (1024, 1024)
    edge = 32 if tiny else 224
    return {
        "unet": Network(a_unet, _drawn(2, 3, *(2 * [16 if tiny else 128]))),
        "mobilenet": Network(_built(mobilenet, *((8, 1) if tiny else (40, 8))), _drawn(32, 3, edge, edge)),
        "convnext": Network(_built(convnext, *((8, 1) if tiny else (192, 8))), _drawn(8, 3, edge, edge)),
        "vit": Network(_built(vit, *((32, 1) if tiny else (768, 6))), _drawn(8, 3, edge, edge)),
        "llama": Network(_llama(tokens, size, 1 if tiny else 4), _drawn(1, tokens, size)),
        "lstm": Network(
            _built(Recurrent, 16 if tiny else 512), _drawn(*((2, 4, 16) if tiny else (64, 64, 512)))
        ),
        "graph-network": Network(_built(GraphNetwork, size // 4, 3), partial(_graph, 32 * tokens, size // 4)),
        "wavenet": Network(_wavenet(8 if tiny else 128), _drawn(*((2, 8, 64) if tiny else (4, 128, 8192)))),
        "mixer": Network(a_mixer, patches),
        "generator": Network(_built(generator, 4 if tiny else 64), _drawn(32, 100, 1, 1)),
        "experts": Network(_built(Experts, size // 2, 8), _drawn(4 * tokens, size // 2)),
        "mixer-train": Network(a_mixer, patches, "AdamW"),
        "unet-train": Network(a_unet, _drawn(2, 3, *(2 * [16 if tiny else 128])), "SGD"),
    }


def _built(module: Callable[..., nn.Module], *sizes: int) -> Callable[[str], nn.Module]:
    return lambda fused: module(*sizes)


def _llama(tokens: int, size: int, layers: int) -> Callable[[str], nn.Module]:
    heads = max(size // 64, 1)
    return lambda fused: nn.Sequential(*(LlamaLayer(size, heads, tokens) for _ in range(layers)))


def _wavenet(channels: int) -> Callable[[str], nn.Module]:
    return lambda fused: nn.Sequential(*(GatedConvolution(channels, 1 << i) for i in range(8)))


def _drawn(*shape: int) -> Callable[[], tuple[Tensor]]:
    return lambda: (torch.randn(*shape),)


def _graph(nodes: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(nodes, size), torch.randint(nodes, (2, 8 * nodes))
