"""GoogLeNet (Szegedy et al., CVPR 2015, arXiv:1409.4842, table 1), without its side classifiers."""

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
)

# Filters of a block's 1 x 1; 1 x 1 and 3 x 3; 1 x 1 and 5 x 5; 1 x 1 behind the pool. Stages end in a pool.
_STAGES = (
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
        for stage in _STAGES:
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
