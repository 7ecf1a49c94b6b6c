"""Networks that were recorded after the planner's rules had been made with all others in sight.

DenseNet, ResNeXt, VGG, Swin, T5, ALBERT, GRU, Conformer, a radiance field, crossed features, EDSR, PointNet,
attention over the edges of a graph, linear attention, DiT; two of them are trained, too.
"""

from functools import partial
from itertools import pairwise

import torch
from networks import Network
from torch import Tensor, nn
from torch.nn import functional
from unseen_networks import Permuted, Residual, _built, _drawn, _graph, _head


def densenet(growth: int, layers: int) -> nn.Module:
    """A block of DenseNet (Huang et al., CVPR 2017): each layer reads what all before it made."""
    found: list[nn.Module] = [nn.Conv2d(3, 2 * growth, 7, 4, 3, bias=False)]
    for layer in range(layers):
        channels = (2 + layer) * growth
        found.append(Joined(*_normed(channels, 4 * growth, 1), *_normed(4 * growth, growth, 3)))
    return nn.Sequential(*found, *_head((2 + layers) * growth))


def _normed(channels: int, outputs: int, kernel: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, outputs, kernel, padding=kernel // 2, bias=False)
    return nn.BatchNorm2d(channels), nn.ReLU(), convolution


class Joined(nn.Module):
    """Appends what layers make of an input's channels to them."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def resnext(width: int, blocks: int) -> nn.Module:
    """Blocks of ResNeXt (Xie et al., CVPR 2017): convolutions of 32 groups."""

    def block() -> nn.Module:
        grouped = nn.Conv2d(width, width, 3, padding=1, groups=32, bias=False)
        layers = [nn.Conv2d(2 * width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [grouped, nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 2 * width, 1, bias=False)]
        return nn.Sequential(Residual(*layers, nn.BatchNorm2d(2 * width)), nn.ReLU())

    return nn.Sequential(
        nn.Conv2d(3, 2 * width, 7, 8, 3), *(block() for _ in range(blocks)), *_head(2 * width)
    )


def vgg(width: int, edge: int) -> nn.Module:
    """Simonyan and Zisserman, ICLR 2015: convolutions of 3 x 3, and products with large weights."""
    layers: list[nn.Module] = []
    channels, stages = 3, (1, 2, 4, 8)
    for stage in stages:
        for _ in range(2):
            layers += [nn.Conv2d(channels, stage * width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = stage * width
        layers.append(nn.MaxPool2d(2))
    size = channels * (edge >> len(stages)) ** 2
    products = (nn.Linear(size, 32 * width), nn.ReLU(), nn.Linear(32 * width, 1000))
    return nn.Sequential(*layers, nn.Flatten(), *products)


class WindowAttention(nn.Module):
    """Attention within windows, shifted or not (Swin, Liu et al., ICCV 2021), of ``(n, h, w, c)``."""

    def __init__(self, size: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.bias = nn.Parameter(torch.randn(heads, window * window, window * window))

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        if self.shift:
            x = x.roll((-self.shift, -self.shift), (1, 2))
        windows = x.view(n, h // self.window, self.window, w // self.window, self.window, c).transpose(2, 3)
        parts = self.inputs(windows.reshape(-1, self.window**2, c)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + self.bias).softmax(-1)
        mixed = self.output((weights @ v).transpose(1, 2).flatten(2))
        mixed = mixed.view(n, h // self.window, w // self.window, self.window, self.window, c)
        x = mixed.transpose(2, 3).reshape(n, h, w, c)
        return x.roll((self.shift, self.shift), (1, 2)) if self.shift else x


def swin(size: int, layers: int) -> nn.Module:
    """Two layers of Swin at a time, the second with shifted windows of 7 x 7."""
    found: list[nn.Module] = [nn.Conv2d(3, size, 4, 4), Permuted(0, 2, 3, 1)]
    for layer in range(layers):
        attention = WindowAttention(size, max(size // 32, 1), 7, 3 * (layer % 2))
        found.append(Residual(nn.LayerNorm(size), attention))
        found.append(Residual(nn.LayerNorm(size), *_mlp(size)))
    return nn.Sequential(*found, Permuted(0, 3, 1, 2), *_head(size))


def _mlp(size: int) -> tuple[nn.Module, ...]:
    return nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size)


class CrossAttention(nn.Module):
    """Attention over another sequence, or itself, with a bias for each distance, as T5 has it."""

    def __init__(self, size: int, heads: int, *, biased: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.distances = nn.Embedding(64, heads) if biased else None

    def forward(self, x: Tensor, others: Tensor) -> Tensor:
        q, k, v = (
            layer(each).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, each in ((self.query, x), (self.key, others), (self.value, others))
        )
        scores = q @ k.transpose(-2, -1)
        if self.distances is not None:
            places = torch.arange(x.shape[1], device=x.device)
            apart = (places[:, None] - places).clamp(-31, 32) + 31
            scores = scores + self.distances(apart).permute(2, 0, 1)
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderDecoder(nn.Module):
    """Raffel et al., JMLR 2020: RMS norms, no biases, a decoder that reads the encoder."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        heads = max(size // 64, 1)
        self.words = nn.Embedding(32128, size)
        self.encode = nn.ModuleList([CrossAttention(size, heads, biased=True) for _ in range(layers)])
        self.decode = nn.ModuleList([CrossAttention(size, heads, biased=True) for _ in range(layers)])
        self.cross = nn.ModuleList([CrossAttention(size, heads, biased=False) for _ in range(layers)])
        self.mlps = nn.ModuleList(
            [
                Residual(
                    nn.RMSNorm(size),
                    nn.Linear(size, 4 * size, bias=False),
                    nn.ReLU(),
                    nn.Linear(4 * size, size, bias=False),
                )
                for _ in range(2 * layers)
            ]
        )
        self.norm = nn.RMSNorm(size)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.words(source), self.words(target)
        for attention, mlp in zip(self.encode, self.mlps, strict=False):
            normed = self.norm(x)
            x = mlp(x + attention(normed, normed))
        for itself, cross, mlp in zip(self.decode, self.cross, reversed(self.mlps), strict=False):
            normed = self.norm(y)
            y = y + itself(normed, normed)
            y = mlp(y + cross(self.norm(y), x))
        return self.norm(y) @ self.words.weight.T


class Albert(nn.Module):
    """Lan et al., ICLR 2020: one layer many times, and a product with all words."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.words, self.widen = nn.Embedding(30000, size // 4), nn.Linear(size // 4, size)
        self.attend = nn.MultiheadAttention(size, max(size // 64, 1), batch_first=True)
        self.norms, self.mlp = (
            nn.ModuleList([nn.LayerNorm(size) for _ in range(2)]),
            nn.Sequential(*_mlp(size)),
        )
        self.narrow, self.layers = nn.Linear(size, size // 4), layers

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.widen(self.words(tokens))
        for _ in range(self.layers):
            x = self.norms[0](x + self.attend(x, x, x, need_weights=False)[0])
            x = self.norms[1](x + self.mlp(x))
        return self.narrow(x) @ self.words.weight.T


class BothWays(nn.Module):
    """GRU in both directions by cuDNN, and a product."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gru = nn.GRU(size, size, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * size, 512)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.gru(x)[0]).log_softmax(-1)


def conformer(size: int, layers: int) -> nn.Module:
    """Gulati et al., Interspeech 2020: half an MLP, attention, a convolution of each channel, half an MLP."""

    def mlp() -> nn.Module:
        products = nn.Linear(size, 4 * size), nn.SiLU(), nn.Linear(4 * size, size)
        return Residual(nn.LayerNorm(size), *products)

    def layer() -> nn.Module:
        convolution = (nn.Conv1d(size, 2 * size, 1), nn.GLU(1))
        convolution += (nn.Conv1d(size, size, 15, padding=7, groups=size), nn.BatchNorm1d(size), nn.SiLU())
        turned = Permuted(0, 2, 1)
        convolved = Residual(nn.LayerNorm(size), turned, *convolution, nn.Conv1d(size, size, 1), turned)
        return nn.Sequential(mlp(), Residual(nn.LayerNorm(size), SelfAttention(size)), convolved, mlp())

    return nn.Sequential(*(layer() for _ in range(layers)), nn.LayerNorm(size))


class SelfAttention(nn.Module):
    """Attention by PyTorch's one call."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.output(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class RadianceField(nn.Module):
    """NeRF (Mildenhall et al., ECCV 2020): waves of places, and a narrow MLP for very many of them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        widths = [60, *(7 * [size])]
        layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        self.mlp = nn.Sequential(*(each for pair in layers for each in pair), nn.Linear(size, 4))
        self.register_buffer("octaves", 2.0 ** torch.arange(10) / 64)

    def forward(self, places: Tensor) -> Tensor:
        angles = (places.unsqueeze(-1) * self.octaves).flatten(1)
        colour = self.mlp(torch.cat([angles.sin(), angles.cos()], -1))
        return torch.cat([colour[:, :3].sigmoid(), colour[:, 3:].relu()], -1)


class CrossedFeatures(nn.Module):
    """DCN-v2 (Wang et al., WWW 2021): looked-up features, crossed with each other, and an MLP."""

    def __init__(self, size: int, features: int) -> None:
        super().__init__()
        wide = size * features
        self.tables = nn.ModuleList([nn.Embedding(50000, size) for _ in range(features)])
        self.crosses = nn.ModuleList([nn.Linear(wide, wide) for _ in range(3)])
        self.mlp = nn.Sequential(nn.Linear(wide, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, ids: Tensor) -> Tensor:
        found = torch.cat([table(ids[:, i]) for i, table in enumerate(self.tables)], -1)
        x = found
        for cross in self.crosses:
            x = found * cross(x) + x
        return self.mlp(x).sigmoid()


def edsr(width: int, blocks: int) -> nn.Module:
    """Lim et al., CVPRW 2017: convolutions at full size, then four pixels for each."""
    body = (
        Residual(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))
        for _ in range(blocks)
    )
    larger = (nn.Conv2d(width, 4 * width, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, 1, 1))
    return nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), *body, *larger)


class PointNet(nn.Module):
    """Qi et al., CVPR 2017: the same MLP for each point, then the most of all points."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = (3, width, 2 * width, 16 * width)
        layers = [(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()) for a, b in pairwise(widths)]
        self.each = nn.Sequential(*(part for layer in layers for part in layer))
        self.all = nn.Sequential(nn.Linear(16 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 40))

    def forward(self, points: Tensor) -> Tensor:
        return self.all(self.each(points).amax(-1))


class EdgeAttention(nn.Module):
    """GAT (Velickovic et al., ICLR 2018): neighbours are weighed by both ends of an edge."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(size, size) for _ in range(layers)])
        self.ends = nn.ModuleList([nn.Linear(size, 2, bias=False) for _ in range(layers)])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        for layer, ends in zip(self.layers, self.ends, strict=True):
            y = layer(x)
            scores = ends(y)
            weights = functional.leaky_relu(scores[source, 0] + scores[target, 1]).clamp(max=8.0).exp()
            total = torch.zeros_like(x[:, 0]).index_add(0, target, weights)
            sent = y.index_select(0, source) * (weights / total[target]).unsqueeze(-1)
            x = functional.elu(torch.zeros_like(x).index_add(0, target, sent))
        return x


class LinearAttention(nn.Module):
    """Katharopoulos et al., ICML 2020: keys times values first, so that no two tokens meet."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = functional.elu(q) + 1, (functional.elu(k) + 1) / x.shape[1]
        share = torch.einsum("nhtc,nhc->nht", q, k.sum(2)).unsqueeze(-1)
        mixed = torch.einsum("nhtc,nhcd->nhtd", q, torch.einsum("nhtc,nhtd->nhcd", k, v)) / share
        return self.output(mixed.transpose(1, 2).flatten(2))


def linear_transformer(size: int, layers: int) -> nn.Module:
    """Layers of linear attention and an MLP."""
    return nn.Sequential(
        *(
            nn.Sequential(
                Residual(nn.LayerNorm(size), LinearAttention(size)), Residual(nn.LayerNorm(size), *_mlp(size))
            )
            for _ in range(layers)
        )
    )


class Modulated(nn.Module):
    """A layer of DiT (Peebles and Xie, ICCV 2023): norms scaled and shifted by what is asked for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size, elementwise_affine=False)
        self.asked = nn.Sequential(nn.SiLU(), nn.Linear(size, 6 * size))
        self.attend, self.mlp = SelfAttention(size), nn.Sequential(*_mlp(size))

    def forward(self, x: Tensor, asked: Tensor) -> Tensor:
        shift, scale, gate, shift_2, scale_2, gate_2 = self.asked(asked).unsqueeze(1).chunk(6, -1)
        x = x + gate * self.attend(self.norm(x) * (1 + scale) + shift)
        return x + gate_2 * self.mlp(self.norm(x) * (1 + scale_2) + shift_2)


class Diffusion(nn.Module):
    """Layers of DiT."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Modulated(size) for _ in range(layers)])

    def forward(self, x: Tensor, asked: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, asked)
        return x


def networks(*, tiny: bool) -> dict[str, Network]:
    """All by name, those that are trained last; tiny ones for a rehearsal."""
    edge, size, tokens, batch = (32, 32, 16, 2) if tiny else (224, 512, 256, 8)
    layers = 1 if tiny else 4
    picture = _drawn(batch, 3, edge, edge)
    a_densenet = _built(densenet, 8 if tiny else 32, 3 * layers)
    a_conformer, speech = _built(conformer, size, layers), _drawn(batch, tokens, size)
    window = _drawn(batch, 3, 56 if tiny else edge, 56 if tiny else edge)
    return {
        "densenet": Network(a_densenet, picture),
        "resnext": Network(
            _built(resnext, 32 if tiny else 256, 2 * layers), _drawn(2 * batch, 3, edge, edge)
        ),
        "vgg": Network(_built(vgg, 4 if tiny else 64, edge), picture),
        "swin": Network(_built(swin, 32 if tiny else 192, layers), window),
        "t5": Network(_built(EncoderDecoder, size, layers), partial(_sentences, batch, tokens)),
        "albert": Network(_built(Albert, size, 2 * layers), lambda: _sentences(batch, tokens)[:1]),
        "gru": Network(_built(BothWays, size // 2), _drawn(4 * batch, tokens // 4, size // 2)),
        "conformer": Network(a_conformer, speech),
        "radiance-field": Network(_built(RadianceField, size // 2), _drawn(256 * tokens, 3)),
        "crossed-features": Network(_built(CrossedFeatures, size // 8, 16), partial(_ids, 8 * tokens, 16)),
        "edsr": Network(
            _built(edsr, size // 8, 2 * layers), _drawn(batch // 2, 3, 4 * size // 16, 4 * size // 16)
        ),
        "pointnet": Network(_built(PointNet, size // 8), _drawn(4 * batch, 3, 8 * tokens)),
        "edge-attention": Network(
            _built(EdgeAttention, size // 4, 2), partial(_graph, 64 * tokens, size // 4)
        ),
        "linear-attention": Network(
            _built(linear_transformer, size, layers), _drawn(batch // 2, 8 * tokens, size)
        ),
        "diffusion": Network(_built(Diffusion, size, layers), partial(_asked, batch, tokens, size)),
        "densenet-train": Network(a_densenet, picture, "SGD"),
        "conformer-train": Network(a_conformer, speech, "AdamW"),
    }


def _sentences(batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    return torch.randint(30000, (batch, tokens)), torch.randint(30000, (batch, tokens))


def _ids(rows: int, features: int) -> tuple[Tensor]:
    return (torch.randint(50000, (rows, features)),)


def _asked(batch: int, tokens: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, tokens, size), torch.randn(batch, size)
