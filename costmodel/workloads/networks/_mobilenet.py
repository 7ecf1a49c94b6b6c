"""MobileNetV2 (Sandler et al., CVPR 2018, arXiv:1801.04381, table 2)."""

from typing import Any

from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from costmodel.workloads.networks._layers import Conv, Layer, Layout, Linear, mean_of_pixels, relu6

# Expansion, channels, blocks, stride of the first block.
_STAGES = (
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
        for expansion, filters, count, stride in _STAGES:
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
