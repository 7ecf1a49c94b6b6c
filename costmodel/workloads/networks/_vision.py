"""Networks for images.

- GoogLeNet (Szegedy et al., CVPR 2015, arXiv:1409.4842, table 1), without its side classifiers
- MobileNetV2 (Sandler et al., CVPR 2018, arXiv:1801.04381, table 2)
- ResNet-50 (He et al., CVPR 2016, arXiv:1512.03385, table 1), with the stride in the 3 x 3 convolution
"""

from typing import Any

from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from costmodel.workloads.networks._layers import (
    Conv,
    Layer,
    Layout,
    Linear,
    concat_channels,
    max_pool,
    mean_of_pixels,
    relu6,
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
