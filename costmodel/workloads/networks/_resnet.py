"""ResNet-50 (He et al., CVPR 2016, arXiv:1512.03385, table 1), with the stride in the 3 x 3 convolution."""

from typing import Any

from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from costmodel.workloads.networks._layers import Conv, Layer, Layout, Linear, max_pool, mean_of_pixels

_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block


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
        for width, count, stride in _STAGES:
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
