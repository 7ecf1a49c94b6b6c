"""Networks of further kinds, written when the planner's rules had met the 62 of the other modules.

AlexNet, SqueezeNet, a feature pyramid, a text CNN, Transformer-XL, Performer, two towers, Set Transformer,
message passing, pix2pix, SIREN, Mamba-2, PixelCNN, Tacotron's CBHG, GPT-NeoX; two of them are trained, too.
"""

from functools import partial

import torch
from latest_networks import Branches, _layers
from networks import Network
from torch import Tensor, nn
from torch.nn import functional
from unseen_networks import Residual, _built, _drawn, _head


def alexnet(width: int, edge: int) -> nn.Module:
    """Krizhevsky et al., NeurIPS 2012: large filters, and large products."""
    first = (nn.Conv2d(3, width, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2))
    second = (nn.Conv2d(width, 4 * width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2))
    third = (nn.Conv2d(4 * width, 6 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(edge // 37 or 1))
    size = 6 * width * (edge // 37 or 1) ** 2
    return nn.Sequential(
        *first, *second, *third, nn.Flatten(), nn.Linear(size, 4096), nn.ReLU(), nn.Linear(4096, 1000)
    )


def squeezenet(width: int, blocks: int) -> nn.Module:
    """Iandola et al., 2016: few channels, then two sizes of filters of many."""

    def block() -> nn.Module:
        one, three = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, 2 * width, 3, padding=1)
        return nn.Sequential(nn.Conv2d(4 * width, width, 1), nn.ReLU(), Branches(one, three), nn.ReLU())

    return nn.Sequential(
        nn.Conv2d(3, 4 * width, 7, 4), nn.ReLU(), *(block() for _ in range(blocks)), *_head(4 * width)
    )


class Pyramid(nn.Module):
    """Lin et al., CVPR 2017: coarse features are added to finer ones."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 4, 3)
        widths = [width << stage for stage in range(stages)]
        self.down = nn.ModuleList([nn.Conv2d(a, 2 * a, 3, 2, 1) for a in widths[:-1]])
        self.side = nn.ModuleList([nn.Conv2d(a, 4 * width, 1) for a in widths])
        self.smooth = nn.ModuleList([nn.Conv2d(4 * width, 4 * width, 3, padding=1) for _ in widths])

    def forward(self, x: Tensor) -> Tensor:
        found = [self.stem(x).relu()]
        for down in self.down:
            found.append(down(found[-1]).relu())
        summed, told = 0.0, 0.0
        for side, smooth, each in zip(reversed(self.side), self.smooth, reversed(found), strict=True):
            larger = functional.interpolate(summed, scale_factor=2.0) if isinstance(summed, Tensor) else 0.0
            summed = side(each) + larger
            told = told + smooth(summed).mean((2, 3))
        return told


class TextConvolutions(nn.Module):
    """Kim, EMNLP 2014: filters of three, four and five words, and the most of each."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(30000, size)
        self.filters = nn.ModuleList([nn.Conv1d(size, size, width) for width in (3, 4, 5)])
        self.last = nn.Linear(3 * size, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens).transpose(1, 2)
        return self.last(torch.cat([each(x).relu().amax(-1) for each in self.filters], -1))


class RelativeAttention(nn.Module):
    """Transformer-XL (Dai et al., ACL 2019): a score of contents and one of distances, which is shifted."""

    def __init__(self, size: int, tokens: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.distances = nn.Parameter(torch.randn(self.heads, tokens, size // self.heads))
        self.bias = nn.Parameter(torch.randn(self.heads, 1, size // self.heads))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        apart = functional.pad(q @ self.distances.transpose(1, 2), (1, 0))
        n, heads, rows, columns = apart.shape
        shifted = apart.view(n, heads, columns, rows)[:, :, 1:].reshape(n, heads, rows, columns - 1)
        weights = ((q + self.bias) @ k.transpose(-2, -1) + shifted).mul(q.shape[-1] ** -0.5).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


class RandomFeatures(nn.Module):
    """Performer (Choromanski et al., ICLR 2021): exponentials of random projections for a softmax."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.inputs, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.register_buffer("projection", torch.randn(size // self.heads, 128) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (
            torch.exp(each @ self.projection - 0.01 * each.square().sum(-1, keepdim=True)) for each in (q, k)
        )
        share = q @ k.mean(2, keepdim=True).transpose(-2, -1) + 1e-3
        mixed = q @ (k.transpose(-2, -1) @ (v / x.shape[1])) / share
        return self.output(mixed.transpose(1, 2).flatten(2))


class TwoTowers(nn.Module):
    """Yi et al., RecSys 2019: users and items as vectors, each user beside each item."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.users, self.items = (nn.EmbeddingBag(100000, size, mode="mean") for _ in range(2))
        self.towers = nn.ModuleList(
            [nn.Sequential(nn.Linear(size, 4 * size), nn.ReLU(), nn.Linear(4 * size, size)) for _ in range(2)]
        )

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        a, b = self.towers[0](self.users(users)), self.towers[1](self.items(items))
        return (functional.normalize(a, dim=-1) @ functional.normalize(b, dim=-1).T * 20).log_softmax(-1)


class Induced(nn.Module):
    """Set Transformer (Lee et al., ICML 2019): few points read a set, which reads them."""

    def __init__(self, size: int, points: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, size))
        heads = max(size // 64, 1)
        self.gather, self.spread = (nn.MultiheadAttention(size, heads, batch_first=True) for _ in range(2))
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        points = self.points.expand(len(x), -1, -1)
        seen = self.gather(points, x, x, need_weights=False)[0]
        return self.norm(x + self.spread(x, seen, seen, need_weights=False)[0])


class Messages(nn.Module):
    """Gilmer et al., ICML 2017: an MLP of both ends of an edge, and a GRU of what arrives."""

    def __init__(self, size: int, steps: int) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, size))
        self.update, self.steps = nn.GRUCell(size, size), steps

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        for _ in range(self.steps):
            sent = self.message(torch.cat([x[source], x[target]], -1))
            x = self.update(torch.zeros_like(x).index_add(0, target, sent), x)
        return x


def pix2pix(width: int, blocks: int) -> nn.Module:
    """Isola et al., CVPR 2017, with residual blocks: norms of each picture, reflected borders."""

    def normed(convolution: nn.Module, channels: int) -> tuple[nn.Module, ...]:
        return convolution, nn.InstanceNorm2d(channels), nn.ReLU()

    inner = 4 * width
    found = [nn.ReflectionPad2d(3), *normed(nn.Conv2d(3, width, 7), width)]
    for channels in (width, 2 * width):
        found += normed(nn.Conv2d(channels, 2 * channels, 3, 2, 1), 2 * channels)
    for _ in range(blocks):
        padded = (nn.ReflectionPad2d(1), nn.Conv2d(inner, inner, 3), nn.InstanceNorm2d(inner))
        found.append(Residual(*padded, nn.ReLU(), *padded[:1], nn.Conv2d(inner, inner, 3)))
    for channels in (inner, 2 * width):
        found += normed(nn.ConvTranspose2d(channels, channels // 2, 3, 2, 1, 1), channels // 2)
    return nn.Sequential(*found, nn.Conv2d(width, 3, 7, padding=3), nn.Tanh())


class Sine(nn.Module):
    """SIREN (Sitzmann et al., NeurIPS 2020): a product and a sine."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.product = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30 * self.product(x))


def siren(size: int, layers: int) -> nn.Module:
    """Layers of sines from places to colours."""
    return nn.Sequential(Sine(8, size), *(Sine(size, size) for _ in range(layers)), nn.Linear(size, 8))


class StateSpace(nn.Module):
    """Mamba-2 (Dao and Gu, ICML 2024): products within chunks of 64 tokens, and a state between them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.inputs = nn.Linear(size, 2 * size + 128 + self.heads)
        self.near = nn.Conv1d(size, size, 4, padding=3, groups=size)
        self.output, self.norm = nn.Linear(size, size), nn.RMSNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, size = x.shape
        gate, v, both, step = self.inputs(x).split([size, size, 128, self.heads], -1)
        v = functional.silu(self.near(v.transpose(1, 2))[..., :tokens].transpose(1, 2))
        chunk = min(64, tokens)
        v = v.view(n, -1, chunk, self.heads, size // self.heads).transpose(2, 3)
        b, c = both.view(n, -1, 1, chunk, 2, 64).unbind(4)
        falls = -functional.softplus(step).view(n, -1, chunk, self.heads).transpose(2, 3).cumsum(-1) / 64
        decay = (falls.unsqueeze(-1) - falls.unsqueeze(-2)).exp().tril()
        within = (c @ b.transpose(-2, -1) * decay) @ v
        states = (b * (falls[..., -1:] - falls).exp().unsqueeze(-1)).transpose(-2, -1) @ v
        before = functional.pad(states, (0, 0, 0, 0, 0, 0, 1, -1)).cumsum(1)
        mixed = within + (c * falls.exp().unsqueeze(-1)) @ before
        return self.output(self.norm(mixed.transpose(2, 3).reshape(n, tokens, size) * functional.silu(gate)))


class MaskedGate(nn.Module):
    """A layer of PixelCNN (van den Oord et al., NeurIPS 2016): filters that see what is above, and a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(2 * width, width, 5, 5) / width**0.5 / 5)
        self.project = nn.Conv2d(width, width, 1)
        mask = torch.ones(5, 5)
        mask[2, 3:], mask[3:] = 0.0, 0.0
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        one, gate = functional.conv2d(x, self.weights * self.mask, padding=2).chunk(2, 1)
        return x + self.project(one.tanh() * gate.sigmoid())


class Cbhg(nn.Module):
    """Of Tacotron (Wang et al., Interspeech 2017): filters of many widths, gated products, a GRU."""

    def __init__(self, size: int, widths: int) -> None:
        super().__init__()
        self.bank = Branches(
            *(nn.Conv1d(size, size, 2 * width + 1, padding=width) for width in range(widths))
        )
        self.project = nn.Conv1d(widths * size, size, 3, padding=1)
        self.gates = nn.ModuleList([nn.Linear(size, 2 * size) for _ in range(4)])
        self.gru = nn.GRU(size, size, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        found = functional.max_pool1d(self.bank(x.transpose(1, 2)).relu(), 3, 1, 1)
        x = x + self.project(found).transpose(1, 2)
        for layer in self.gates:
            new, gate = layer(x).chunk(2, -1)
            gate = gate.sigmoid()
            x = new.relu() * gate + x * (1 - gate)
        return self.gru(x)[0]


class NeoX(nn.Module):
    """Black et al., 2022: causal attention and MLP beside each other, and a product with all words."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.heads = max(size // 64, 1)
        self.words, self.layers = nn.Embedding(32000, size), layers
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(layers)])
        self.inputs = nn.ModuleList([nn.Linear(size, 3 * size) for _ in range(layers)])
        self.outputs = nn.ModuleList([nn.Linear(size, size) for _ in range(layers)])
        self.mlps = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
                for _ in range(layers)
            ]
        )
        self.head = nn.Linear(size, 32000, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for norm, inputs, outputs, mlp in zip(self.norms, self.inputs, self.outputs, self.mlps, strict=True):
            y = norm(x)
            q, k, v = inputs(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + outputs(mixed.transpose(1, 2).flatten(2)) + mlp(y)
        return self.head(x).log_softmax(-1)


def networks(*, tiny: bool) -> dict[str, Network]:
    """All by name, those that are trained last; tiny ones for a rehearsal."""
    edge, size, tokens, batch, layers = (64, 32, 16, 2, 1) if tiny else (224, 512, 256, 8, 4)
    picture, sentences, words = (
        _drawn(batch, 3, edge, edge),
        _drawn(batch, tokens, size),
        partial(_words, batch, tokens),
    )
    a_pix2pix = _built(pix2pix, size // 8, layers)
    relative = _built(
        lambda: _layers(layers, lambda: (nn.LayerNorm(size), RelativeAttention(size, tokens)), size)
    )
    performer = _built(lambda: _layers(layers, lambda: (nn.LayerNorm(size), RandomFeatures(size)), size))
    ssd = _built(
        lambda: nn.Sequential(*(Residual(nn.LayerNorm(size), StateSpace(size)) for _ in range(layers)))
    )
    sets = _built(lambda: nn.Sequential(*(Induced(size // 2, 32) for _ in range(layers))))
    masked = _built(
        lambda: nn.Sequential(
            nn.Conv2d(3, size // 4, 7, 2, 3), *(MaskedGate(size // 4) for _ in range(layers))
        )
    )
    return {
        "alexnet": Network(_built(alexnet, size // 8, edge), _drawn(4 * batch, 3, edge, edge)),
        "squeezenet": Network(_built(squeezenet, size // 16, 2 * layers), _drawn(2 * batch, 3, edge, edge)),
        "pyramid": Network(_built(Pyramid, size // 8, 4), picture),
        "text-cnn": Network(_built(TextConvolutions, size // 2), partial(_words, 8 * batch, tokens)),
        "transformer-xl": Network(relative, sentences),
        "performer": Network(performer, _drawn(batch // 2, 8 * tokens, size)),
        "two-towers": Network(_built(TwoTowers, size // 4), partial(_pairs, 8 * tokens)),
        "set-transformer": Network(sets, _drawn(batch, 8 * tokens, size // 2)),
        "messages": Network(_built(Messages, size // 4, 3), partial(_edges, 32 * tokens, size // 4)),
        "pix2pix": Network(a_pix2pix, _drawn(batch // 2, 3, edge, edge)),
        "siren": Network(_built(siren, size // 2, layers), _drawn(128 * tokens, 8)),
        "mamba-2": Network(ssd, _drawn(batch, 4 * tokens if not tiny else 64, size)),
        "pixelcnn": Network(masked, picture),
        "cbhg": Network(_built(Cbhg, size // 4, 8), _drawn(batch, tokens, size // 4)),
        "neox": Network(_built(NeoX, size, layers), words),
        "pix2pix-train": Network(a_pix2pix, _drawn(batch // 2, 3, edge, edge), "AdamW"),
        "neox-train": Network(_built(NeoX, size, layers), words, "AdamW"),
    }


def _words(batch: int, tokens: int) -> tuple[Tensor]:
    return (torch.randint(30000, (batch, tokens)),)


def _pairs(rows: int) -> tuple[Tensor, Tensor]:
    return torch.randint(100000, (rows, 20)), torch.randint(100000, (rows, 20))


def _edges(nodes: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(nodes, size), torch.randint(nodes, (2, 8 * nodes))
