"""Networks with branches, in plain PyTorch, as they are run at batch 1.

References:
    C. Szegedy et al., Rethinking the Inception architecture for computer vision, CVPR 2016: Inception-v3.
    B. Zoph et al., Learning transferable architectures for scalable image recognition, CVPR 2018: NASNet-A.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def convolution(inputs: int, outputs: int, kernel: int | tuple[int, int], **options: int) -> nn.Sequential:
    """A convolution that keeps the size unless ``padding`` or ``stride`` is given, its norm and its ReLU."""
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = options.pop("padding", None)
    around = tuple(size // 2 for size in sizes) if padding is None else padding
    layer = nn.Conv2d(inputs, outputs, sizes, padding=around, bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs, eps=0.001), nn.ReLU(inplace=True))


class Branches(nn.Module):
    """Branches of the same input, side by side in the result."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def pooled(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), convolution(inputs, outputs, 1))


def inception_a(inputs: int, pool: int) -> nn.Module:
    """Inputs at 35 x 35."""
    return Branches(
        convolution(inputs, 64, 1),
        nn.Sequential(convolution(inputs, 48, 1), convolution(48, 64, 5)),
        nn.Sequential(convolution(inputs, 64, 1), convolution(64, 96, 3), convolution(96, 96, 3)),
        pooled(inputs, pool),
    )


def inception_b(inputs: int) -> nn.Module:
    """From 35 x 35 to 17 x 17."""
    double = [convolution(inputs, 64, 1), convolution(64, 96, 3), convolution(96, 96, 3, stride=2, padding=0)]
    return Branches(
        convolution(inputs, 384, 3, stride=2, padding=0), nn.Sequential(*double), nn.MaxPool2d(3, 2)
    )


def inception_c(width: int) -> nn.Module:
    """768 channels at 17 x 17."""
    wide, high = (1, 7), (7, 1)
    return Branches(
        convolution(768, 192, 1),
        nn.Sequential(
            convolution(768, width, 1), convolution(width, width, wide), convolution(width, 192, high)
        ),
        nn.Sequential(
            convolution(768, width, 1),
            convolution(width, width, high),
            convolution(width, width, wide),
            convolution(width, width, high),
            convolution(width, 192, wide),
        ),
        pooled(768, 192),
    )


def inception_d() -> nn.Module:
    """From 17 x 17 to 8 x 8."""
    return Branches(
        nn.Sequential(convolution(768, 192, 1), convolution(192, 320, 3, stride=2, padding=0)),
        nn.Sequential(
            convolution(768, 192, 1),
            convolution(192, 192, (1, 7)),
            convolution(192, 192, (7, 1)),
            convolution(192, 192, 3, stride=2, padding=0),
        ),
        nn.MaxPool2d(3, 2),
    )


def inception_e(inputs: int) -> nn.Module:
    """At 8 x 8."""
    return Branches(
        convolution(inputs, 320, 1),
        nn.Sequential(
            convolution(inputs, 384, 1),
            Branches(convolution(384, 384, (1, 3)), convolution(384, 384, (3, 1))),
        ),
        nn.Sequential(
            convolution(inputs, 448, 1),
            convolution(448, 384, 3),
            Branches(convolution(384, 384, (1, 3)), convolution(384, 384, (3, 1))),
        ),
        pooled(inputs, 192),
    )


def inception_v3() -> nn.Module:
    """Inception-v3 without its auxiliary classifier."""
    return nn.Sequential(
        convolution(3, 32, 3, stride=2, padding=0),
        convolution(32, 32, 3, padding=0),
        convolution(32, 64, 3),
        nn.MaxPool2d(3, 2),
        convolution(64, 80, 1),
        convolution(80, 192, 3, padding=0),
        nn.MaxPool2d(3, 2),
        inception_a(192, 32),
        inception_a(256, 64),
        inception_a(288, 64),
        inception_b(288),
        *(inception_c(width) for width in (128, 160, 160, 192)),
        inception_d(),
        inception_e(1280),
        inception_e(2048),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, 1000),
    )


class Separable(nn.Sequential):
    """Twice a ReLU, a convolution of each channel, one of all channels, and a norm."""

    def __init__(self, channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__(*self._half(channels, kernel, stride), *self._half(channels, kernel, 1))

    @staticmethod
    def _half(channels: int, kernel: int, stride: int) -> list[nn.Module]:
        each = nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels, bias=False)
        return [
            nn.ReLU(),
            each,
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels, eps=0.001),
        ]


def squeezed(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    layers = [
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, 1, stride, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001),
    ]
    return nn.Sequential(*layers)


class Cell(nn.Module):
    """A normal or a reduction cell of NASNet-A, of the result before and the one before that."""

    def __init__(self, before: int, last: int, width: int, *, shrinks: bool, shrank: bool) -> None:
        super().__init__()
        self.shrinks = shrinks
        self.before, self.last = squeezed(before, width, 2 if shrank else 1), squeezed(last, width)
        kernels = (5, 7, 7, 5, 3) if shrinks else (5, 3, 5, 3, 3)
        strides = (2, 2, 2, 2, 1) if shrinks else (1,) * 5
        self.separable = nn.ModuleList(
            Separable(width, kernel, stride) for kernel, stride in zip(kernels, strides, strict=True)
        )
        stride = 2 if shrinks else 1
        self.largest, self.mean = nn.MaxPool2d(3, stride, 1), nn.AvgPool2d(3, stride, 1)
        self.mean_of_size = nn.AvgPool2d(3, 1, 1)

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        before, last = self.before(before), self.last(last)
        a, b, c, d, e = self.separable
        if self.shrinks:
            first = a(last) + b(before)
            second = self.largest(last) + c(before)
            third = self.mean(last) + d(before)
            fourth = second + self.mean_of_size(first)
            fifth = e(first) + self.largest(last)
            return torch.cat([second, third, fourth, fifth], 1)
        first = a(last) + b(before)
        second = c(before) + d(before)
        third = self.mean(last) + before
        fourth = self.mean(before) + self.mean(before)
        fifth = e(last) + last
        return torch.cat([before, first, second, third, fourth, fifth], 1)


class NasNet(nn.Module):
    """NASNet-A mobile: two cells that shrink, then three times four normal ones of one width."""

    def __init__(self, cells: int = 4, width: int = 44) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, bias=False), nn.BatchNorm2d(32, eps=0.001))
        plan = [(width // 4, True), (width // 2, True)]
        for stage in range(3):
            plan += [(width << stage, True)] * (stage > 0) + [(width << stage, False)] * cells
        found, before, last, shrank = [], 32, 32, False
        for size, shrinks in plan:
            found.append(Cell(before, last, size, shrinks=shrinks, shrank=shrank))
            before, last, shrank = last, (4 if shrinks else 6) * size, shrinks
        self.cells = nn.ModuleList(found)
        self.head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000))

    def forward(self, x: Tensor) -> Tensor:
        before = last = self.stem(x)
        for cell in self.cells:
            before, last = last, cell(before, last)
        return self.head(last)


class NasNetCell(nn.Module):
    """One normal cell of 44 channels at 28 x 28, whose two inputs are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell(264, 264, 44, shrinks=False, shrank=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x, x)


# Each with the shape of its input.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "inception-a": (lambda: inception_a(288, 64), (1, 288, 35, 35)),
    "inception-c": (lambda: inception_c(192), (1, 768, 17, 17)),
    "inception-e": (lambda: inception_e(2048), (1, 2048, 8, 8)),
    "inception-v3": (inception_v3, (1, 3, 299, 299)),
    "nasnet-cell": (NasNetCell, (1, 264, 28, 28)),
    "nasnet-mobile": (NasNet, (1, 3, 224, 224)),
}
