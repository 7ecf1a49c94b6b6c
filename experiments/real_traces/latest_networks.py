"""Networks that were written after every rule of the planner had been made with all others in sight.

ShuffleNet, Inception, DeepLab, R(2+1)D, HiFi-GAN, RetNet, Perceiver, FNet, gMLP, Longformer, decoding
by Falcon, DeepFM, SchNet, VQ-VAE, RAFT, StyleGAN2, N-BEATS, Glow, GraphSAGE, capsules, FT-Transformer;
three of them are trained, too.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from networks import Network
from torch import Tensor, nn
from torch.nn import functional
from unseen_networks import Residual, _built, _drawn, _head


class Branches(nn.Module):
    """Joins what several modules make of the same input."""

    def __init__(self, *bodies: nn.Module) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(bodies)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([body(x) for body in self.bodies], 1)


def _convolved(channels: int, outputs: int, kernel: int, **how: int) -> nn.Sequential:
    around = how.get("dilation", 1) * (kernel // 2)
    convolution = nn.Conv2d(channels, outputs, kernel, padding=around, bias=False, **how)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def shufflenet(width: int, blocks: int) -> nn.Module:
    """Zhang et al., CVPR 2018: products in groups, whose channels are shuffled, and one of each channel."""

    def block() -> nn.Module:
        each = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        last = nn.Conv2d(width, width, 1, groups=4, bias=False)
        inner = (_convolved(width, width, 1, groups=4), nn.ChannelShuffle(4), each, nn.BatchNorm2d(width))
        return nn.Sequential(Residual(*inner, last, nn.BatchNorm2d(width)), nn.ReLU())

    stem = (_convolved(3, width, 3, stride=2), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, *(block() for _ in range(blocks)), *_head(width))


def inception(width: int, blocks: int) -> nn.Module:
    """Szegedy et al., CVPR 2016: convolutions of several sizes beside each other."""

    def block() -> nn.Module:
        wide = nn.Sequential(_convolved(4 * width, width, 1), _convolved(width, width, 3))
        wider = nn.Sequential(
            _convolved(4 * width, width, 1), _convolved(width, width, 3), _convolved(width, width, 3)
        )
        pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1), _convolved(4 * width, width, 1))
        return Branches(_convolved(4 * width, width, 1), wide, wider, pooled)

    return nn.Sequential(
        _convolved(3, 4 * width, 7, stride=8), *(block() for _ in range(blocks)), *_head(4 * width)
    )


class Pooled(nn.Module):
    """The mean of a picture, at each of its places."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, outputs, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).expand(-1, -1, *x.shape[-2:])


def deeplab(width: int, layers: int) -> nn.Module:
    """Chen et al., 2017: convolutions that look far, beside each other, and a picture's size again."""
    body = (
        _convolved(3, width, 7, stride=4),
        *(_convolved(width, width, 3, dilation=2) for _ in range(layers)),
    )
    far = (_convolved(width, width // 4, 3, dilation=each) for each in (6, 12, 18))
    pyramid = Branches(_convolved(width, width // 4, 1), *far, Pooled(width, width // 4))
    last = (
        _convolved(width // 4 * 5, width, 1),
        nn.Conv2d(width, 21, 1),
        nn.UpsamplingBilinear2d(scale_factor=4),
    )
    return nn.Sequential(*body, pyramid, *last)


def video(width: int, blocks: int) -> nn.Module:
    """R(2+1)D (Tran et al., CVPR 2018): convolutions over places, then over time."""

    def block() -> nn.Module:
        places = nn.Conv3d(width, 2 * width, (1, 3, 3), padding=(0, 1, 1), bias=False)
        time = nn.Conv3d(2 * width, width, (3, 1, 1), padding=(1, 0, 0), bias=False)
        inner = (places, nn.BatchNorm3d(2 * width), nn.ReLU(), time, nn.BatchNorm3d(width))
        return nn.Sequential(Residual(*inner), nn.ReLU())

    stem = nn.Conv3d(3, width, (1, 7, 7), (1, 4, 4), (0, 3, 3))
    head = (nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(width, 400))
    return nn.Sequential(stem, *(block() for _ in range(blocks)), *head)


def vocoder(width: int) -> nn.Module:
    """HiFi-GAN (Kong et al., NeurIPS 2020): from a spectrum to samples, by steps of longer sequences."""
    layers: list[nn.Module] = [nn.Conv1d(80, width, 7, padding=3)]
    channels = width
    for factor in (8, 8, 2, 2):
        half = channels // 2
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(channels, half, 2 * factor, factor, factor // 2)]
        for dilation in (1, 3, 5):
            convolution = nn.Conv1d(half, half, 3, padding=dilation, dilation=dilation)
            layers.append(Residual(nn.LeakyReLU(0.1), convolution))
        channels = half
    return nn.Sequential(*layers, nn.LeakyReLU(0.1), nn.Conv1d(channels, 1, 7, padding=3), nn.Tanh())


class Retention(nn.Module):
    """Sun et al., 2023: attention whose weights fall with distance, without a softmax, and a gate."""

    def __init__(self, size: int, tokens: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.inputs, self.output = nn.Linear(size, 4 * size, bias=False), nn.Linear(size, size, bias=False)
        self.norm = nn.GroupNorm(self.heads, size)
        falls = 1 - 2.0 ** (-5 - torch.arange(self.heads).float())
        apart = (torch.arange(tokens)[:, None] - torch.arange(tokens)).clamp(min=0)
        self.register_buffer("decay", (falls[:, None, None] ** apart).tril())

    def forward(self, x: Tensor) -> Tensor:
        gate, *parts = self.inputs(x).chunk(4, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = (q @ k.transpose(-2, -1) * self.decay) @ v
        normed = self.norm(mixed.transpose(1, 2).flatten(0, 1).flatten(1)).view_as(x)
        return self.output(functional.silu(gate) * normed)


def retnet(size: int, tokens: int, layers: int) -> nn.Module:
    """Layers of retention and an MLP."""
    return _layers(layers, lambda: (nn.LayerNorm(size), Retention(size, tokens)), size)


def _layers(count: int, mixing: Callable[[], tuple[nn.Module, ...]], size: int) -> nn.Sequential:
    def layer() -> nn.Module:
        products = nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size)
        return nn.Sequential(Residual(*mixing()), Residual(*products))

    return nn.Sequential(*(layer() for _ in range(count)))


class Perceiver(nn.Module):
    """Jaegle et al., ICML 2021: few latents read very many inputs, then each other."""

    def __init__(self, size: int, latents: int, layers: int) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, size))
        self.read, self.think = (
            nn.ModuleList([nn.MultiheadAttention(size, heads, batch_first=True) for _ in range(layers)])
            for heads in (1, max(size // 64, 1))
        )
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(2 * layers)])
        self.mlps = nn.ModuleList(
            [nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, size)) for _ in range(layers)]
        )

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.latents.expand(len(inputs), -1, -1)
        for place, (read, think, mlp) in enumerate(zip(self.read, self.think, self.mlps, strict=True)):
            x = x + read(self.norms[2 * place](x), inputs, inputs, need_weights=False)[0]
            y = self.norms[2 * place + 1](x)
            x = x + think(y, y, y, need_weights=False)[0]
            x = x + mlp(x)
        return x.mean(1)


class FourierMix(nn.Module):
    """FNet (Lee-Thorp et al., NAACL 2022): a Fourier transform in place of attention."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft2(x.float(), norm="ortho").real.to(x.dtype)


def fnet(size: int, layers: int) -> nn.Module:
    """Layers of Fourier transforms and an MLP."""
    return _layers(layers, lambda: (nn.LayerNorm(size), FourierMix()), size)


class SpatialGate(nn.Module):
    """gMLP (Liu et al., NeurIPS 2021): half of the channels weigh the others, by a product over tokens."""

    def __init__(self, size: int, tokens: int) -> None:
        super().__init__()
        self.norm, self.product = nn.LayerNorm(size), nn.Conv1d(tokens, tokens, 1)

    def forward(self, x: Tensor) -> Tensor:
        one, other = x.chunk(2, -1)
        return one * self.product(self.norm(other))


def gmlp(size: int, tokens: int, layers: int) -> nn.Module:
    """Layers of gMLP."""

    def layer() -> nn.Module:
        gated = (
            nn.Linear(size, 4 * size),
            nn.GELU(),
            SpatialGate(2 * size, tokens),
            nn.Linear(2 * size, size),
        )
        return Residual(nn.LayerNorm(size), *gated)

    return nn.Sequential(*(layer() for _ in range(layers)))


class NearAttention(nn.Module):
    """Longformer (Beltagy et al., 2020): each block of tokens reads itself and its two neighbours."""

    def __init__(self, size: int, near: int) -> None:
        super().__init__()
        self.heads, self.near = max(size // 64, 1), near
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        blocks = self.inputs(x).unflatten(1, (-1, self.near)).unflatten(-1, (3, self.heads, -1))
        q, k, v = blocks.permute(3, 0, 1, 4, 2, 5)
        k, v = (torch.cat([each.roll(1, 1), each, each.roll(-1, 1)], 3) for each in (k, v))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.output((weights @ v).transpose(2, 3).flatten(3).flatten(1, 2))


def longformer(size: int, near: int, layers: int) -> nn.Module:
    """Layers of attention to what is near, and an MLP."""
    return _layers(layers, lambda: (nn.LayerNorm(size), NearAttention(size, near)), size)


class Falcon(nn.Module):
    """Almazrouei et al., 2023: heads share a key and a value, attention is beside the MLP; one token."""

    def __init__(self, size: int, batch: int, tokens: int, layers: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        width = size // self.heads
        self.inputs = nn.ModuleList([nn.Linear(size, size + 2 * width, bias=False) for _ in range(layers)])
        self.outputs = nn.ModuleList([nn.Linear(size, size, bias=False) for _ in range(layers)])
        mlps = [
            nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
            for _ in range(layers)
        ]
        self.mlps, self.norms = (
            nn.ModuleList(mlps),
            nn.ModuleList([nn.LayerNorm(size) for _ in range(layers)]),
        )
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(layers, batch, tokens, width))

    def forward(self, x: Tensor) -> Tensor:
        width = self.keys.shape[-1]
        for place, (norm, mlp) in enumerate(zip(self.norms, self.mlps, strict=True)):
            y = norm(x)
            q, k, v = self.inputs[place](y).split([x.shape[-1], width, width], -1)
            self.keys[place, :, -1:], self.values[place, :, -1:] = k, v
            weights = q.unflatten(-1, (self.heads, -1)).squeeze(1) @ self.keys[place].transpose(1, 2)
            mixed = (weights * width**-0.5).softmax(-1) @ self.values[place]
            x = x + self.outputs[place](mixed.flatten(1).unsqueeze(1)) + mlp(y)
        return x


class FactorMachine(nn.Module):
    """DeepFM (Guo et al., IJCAI 2017): products of all pairs of features, by sums, beside an MLP."""

    def __init__(self, size: int, features: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(40000 * features, size)
        self.register_buffer("first", 40000 * torch.arange(features))
        widths = (size * features, 400, 400, 400)
        layers = [each for a, b in pairwise(widths) for each in (nn.Linear(a, b), nn.ReLU())]
        self.mlp = nn.Sequential(*layers, nn.Linear(400, 1))

    def forward(self, ids: Tensor) -> Tensor:
        found = self.rows(ids + self.first)
        pairs = (found.sum(1).square() - found.square().sum(1)).sum(1, keepdim=True) / 2
        return (self.mlp(found.flatten(1)) + pairs).sigmoid()


class SchNet(nn.Module):
    """Schuett et al., NeurIPS 2017: atoms weigh each other by filters of their distances."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        filters = [
            nn.Sequential(nn.Linear(64, size), nn.Softplus(), nn.Linear(size, size)) for _ in range(layers)
        ]
        after = [
            nn.Sequential(nn.Linear(size, size), nn.Softplus(), nn.Linear(size, size)) for _ in range(layers)
        ]
        self.filters, self.after = nn.ModuleList(filters), nn.ModuleList(after)
        self.before = nn.ModuleList([nn.Linear(size, size, bias=False) for _ in range(layers)])
        self.register_buffer("centres", torch.linspace(0, 4, 64))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        apart = (places[:, :, None] - places[:, None]).square().sum(-1).add(1e-3).sqrt()
        waves = torch.exp(-10 * (apart[..., None] - self.centres).square())
        for of_distance, before, after in zip(self.filters, self.before, self.after, strict=True):
            x = x + after((before(x)[:, None] * of_distance(waves)).sum(2))
        return x.sum(1)


class Quantized(nn.Module):
    """VQ-VAE (van den Oord et al., NeurIPS 2017): each place becomes the nearest of some vectors."""

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.codes = nn.Embedding(codes, width)
        narrow = (nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1))
        wide = (nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1))

        def inner() -> nn.Module:
            return Residual(
                nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 1)
            )

        self.encode, self.decode = (
            nn.Sequential(*narrow, inner(), inner()),
            nn.Sequential(inner(), inner(), *wide),
        )

    def forward(self, x: Tensor) -> Tensor:
        found = self.encode(x).permute(0, 2, 3, 1)
        codes = self.codes.weight
        nearest = (codes.square().sum(1) - 2 * found @ codes.T).argmin(-1)
        return self.decode(self.codes(nearest).permute(0, 3, 1, 2))


class OpticalFlow(nn.Module):
    """RAFT (Teed and Deng, ECCV 2020): places of two pictures are compared, a GRU reads that."""

    def __init__(self, width: int, steps: int, places: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 7, 4, 3),
            nn.InstanceNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 2, 1),
        )
        self.steps, self.look = steps, nn.Conv2d(places, width, 1)
        self.update, self.reset, self.new = (nn.Conv2d(2 * width, width, 3, padding=1) for _ in range(3))

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        a, b = self.features(one), self.features(other)
        alike = (b.flatten(2).transpose(1, 2) @ a.flatten(2) * a.shape[1] ** -0.5).unflatten(2, a.shape[2:])
        state, seen = a.tanh(), self.look(alike).relu()
        for _ in range(self.steps):
            both = torch.cat([state, seen], 1)
            update, reset = self.update(both).sigmoid(), self.reset(both).sigmoid()
            new = self.new(torch.cat([reset * state, seen], 1)).tanh()
            state = (1 - update) * state + update * new
        return state


class ModulatedConvolution(nn.Module):
    """StyleGAN2 (Karras et al., CVPR 2020): each picture has weights of its own, which its style scales."""

    def __init__(self, channels: int, outputs: int, style: int, *, larger: bool) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(outputs, channels, 3, 3) / channels**0.5 / 3)
        self.style, self.larger = nn.Linear(style, channels), larger

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        if self.larger:
            x = functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        n, _, h, w = x.shape
        weights = self.weights * self.style(style)[:, None, :, None, None]
        weights = weights * torch.rsqrt(weights.square().sum((2, 3, 4), keepdim=True) + 1e-4)
        found = functional.conv2d(x.reshape(1, -1, h, w), weights.flatten(0, 1), padding=1, groups=n)
        return functional.leaky_relu(found.view(n, -1, h, w), 0.2)


class StyleGan(nn.Module):
    """A mapping of styles, and convolutions that double a picture's edge."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        mapping = [each for _ in range(4) for each in (nn.Linear(width, width), nn.LeakyReLU(0.2))]
        self.mapping, self.start = nn.Sequential(*mapping), nn.Parameter(torch.randn(width, 8, 8))
        widths = [width >> max(stage - 1, 0) for stage in range(stages + 1)]
        layers = [
            ModulatedConvolution(a, b, width, larger=larger)
            for a, b in pairwise(widths)
            for a, larger in ((a, True), (b, False))
        ]
        self.layers, self.last = nn.ModuleList(layers), nn.Conv2d(widths[-1], 3, 1)

    def forward(self, noise: Tensor) -> Tensor:
        style = self.mapping(noise)
        x = self.start.expand(len(noise), -1, -1, -1)
        for layer in self.layers:
            x = layer(x, style)
        return self.last(x)


class NBeats(nn.Module):
    """Oreshkin et al., ICLR 2020: MLPs, each of which explains a part of a series and foretells."""

    def __init__(self, past: int, future: int, width: int, blocks: int) -> None:
        super().__init__()
        self.past = past
        widths = (past, width, width, width, width)
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(
                    *(each for a, b in pairwise(widths) for each in (nn.Linear(a, b), nn.ReLU())),
                    nn.Linear(width, past + future),
                )
                for _ in range(blocks)
            ]
        )

    def forward(self, series: Tensor) -> Tensor:
        told = 0.0
        for block in self.blocks:
            found = block(series)
            series, told = series - found[:, : self.past], told + found[:, self.past :]
        return told


class Coupling(nn.Module):
    """Glow (Kingma and Dhariwal, NeurIPS 2018): channels are mixed, half of them scale the others."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 1, bias=False)
        self.scale, self.shift = (nn.Parameter(torch.ones(1, channels, 1, 1)) for _ in range(2))
        inner = (nn.Conv2d(channels // 2, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 1), nn.ReLU())
        self.body = nn.Sequential(*inner, nn.Conv2d(width, channels, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        one, other = self.mix((x + self.shift) * self.scale).chunk(2, 1)
        shift, scale = self.body(one).chunk(2, 1)
        return torch.cat([one, (other + shift) * (scale + 2).sigmoid()], 1)


def glow(width: int, layers: int) -> nn.Module:
    """Pixels of 4 x 4 as channels, and layers of couplings."""
    return nn.Sequential(nn.PixelUnshuffle(4), *(Coupling(48, width) for _ in range(layers)))


class Sage(nn.Module):
    """GraphSAGE (Hamilton et al., NeurIPS 2017): the most that 16 neighbours say, beside a node's own."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.say = nn.ModuleList([nn.Linear(size, size) for _ in range(layers)])
        self.join = nn.ModuleList([nn.Linear(2 * size, size) for _ in range(layers)])

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        for say, join in zip(self.say, self.join, strict=True):
            most = say(x).relu()[neighbours].amax(1)
            x = functional.normalize(join(torch.cat([x, most], 1)).relu(), dim=-1)
        return x


class Capsules(nn.Module):
    """Sabour et al., NeurIPS 2017: parts vote for wholes, and are routed to those that agree."""

    def __init__(self, width: int, wholes: int, parts: int) -> None:
        super().__init__()
        self.convolve = nn.Sequential(nn.Conv2d(1, width, 9), nn.ReLU(), nn.Conv2d(width, 32 * 8, 9, 2))
        self.votes = nn.Parameter(torch.randn(parts, 8, 16 * wholes) / 16)
        self.wholes = wholes

    def forward(self, x: Tensor) -> Tensor:
        parts = squashed(self.convolve(x).unflatten(1, (-1, 8)).permute(1, 3, 4, 0, 2).flatten(0, 2))
        votes = (parts @ self.votes).unflatten(-1, (self.wholes, 16))
        agreed = torch.zeros_like(votes[..., :1])
        for _ in range(3):
            whole = squashed((agreed.softmax(2) * votes).sum(0, keepdim=True))
            agreed = agreed + (votes * whole).sum(-1, keepdim=True)
        return whole.norm(dim=-1)


def squashed(x: Tensor) -> Tensor:
    """Vectors of the same direction, shorter than 1."""
    square = x.square().sum(-1, keepdim=True)
    return x * square.sqrt() / (1 + square)


class TabularTransformer(nn.Module):
    """FT-Transformer (Gorishniy et al., NeurIPS 2021): each column is a token."""

    def __init__(self, size: int, columns: int, layers: int) -> None:
        super().__init__()
        self.weights, self.biases = (nn.Parameter(torch.randn(columns, size)) for _ in range(2))
        layer = nn.TransformerEncoderLayer(size, 8, 2 * size, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.last = nn.Linear(size, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x.unsqueeze(-1) * self.weights + self.biases)[:, 0])


def networks(*, tiny: bool) -> dict[str, Network]:
    """All by name, those that are trained last; tiny ones for a rehearsal."""
    edge, size, tokens, batch, layers = (32, 32, 16, 2, 1) if tiny else (224, 512, 512, 8, 4)
    picture, sentences = _drawn(batch, 3, edge, edge), _drawn(batch, tokens, size)
    film = (
        _built(video, *((8, 1) if tiny else (48, layers))),
        _drawn(2, 3, *((4, 16, 16) if tiny else (8, 112, 112))),
    )
    a_retnet, series = _built(retnet, size, tokens, layers), _drawn(4 * tokens, size)
    an_nbeats = _built(NBeats, size, size // 4, size, 2 * layers)
    places = (edge // 8) ** 2
    return {
        "shufflenet": Network(_built(shufflenet, size // 2, 2 * layers), picture),
        "inception": Network(_built(inception, size // 4, layers), _drawn(2 * batch, 3, edge, edge)),
        "deeplab": Network(_built(deeplab, size // 2, layers), picture),
        "video": Network(*film),
        "vocoder": Network(_built(vocoder, size), _drawn(batch, 80, tokens // 8)),
        "retnet": Network(a_retnet, sentences),
        "perceiver": Network(
            _built(Perceiver, size, tokens // 2, layers), _drawn(batch // 2, 16 * tokens, size)
        ),
        "fnet": Network(_built(fnet, size, layers), sentences),
        "gmlp": Network(_built(gmlp, size, tokens, layers), sentences),
        "longformer": Network(
            _built(longformer, size, tokens // 4, layers), _drawn(batch // 2, 4 * tokens, size)
        ),
        "falcon-decode": Network(
            _built(Falcon, 2 * size, 2 * batch, 4 * tokens, layers), _drawn(2 * batch, 1, 2 * size)
        ),
        "deepfm": Network(_built(FactorMachine, size // 16, 26), partial(_ids, 8 * tokens, 26)),
        "schnet": Network(
            _built(SchNet, size // 4, layers), partial(_molecules, 8 * batch, 4 * batch, size // 4)
        ),
        "vq-vae": Network(_built(Quantized, size // 4, size), picture),
        "raft": Network(_built(OpticalFlow, size // 4, 2 * layers, places), partial(_pair, batch // 2, edge)),
        "stylegan": Network(_built(StyleGan, size, layers), _drawn(batch, size)),
        "n-beats": Network(an_nbeats, series),
        "glow": Network(_built(glow, size, 2 * layers), picture),
        "graphsage": Network(_built(Sage, size // 4, 3), partial(_neighbours, 32 * tokens, size // 4)),
        "capsules": Network(_built(Capsules, size // 2, 10, 32 * 36), _drawn(4 * batch, 1, 28, 28)),
        "ft-transformer": Network(_built(TabularTransformer, size // 2, 24, layers), _drawn(tokens, 24)),
        "video-train": Network(*film, "SGD"),
        "retnet-train": Network(a_retnet, sentences, "AdamW"),
        "n-beats-train": Network(an_nbeats, series, "AdamW"),
    }


def _ids(rows: int, features: int) -> tuple[Tensor]:
    return (torch.randint(40000, (rows, features)),)


def _molecules(batch: int, atoms: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, atoms, size), torch.randn(batch, atoms, 3)


def _pair(batch: int, edge: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 3, edge, edge), torch.randn(batch, 3, edge, edge)


def _neighbours(nodes: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(nodes, size), torch.randint(nodes, (nodes, 16))
