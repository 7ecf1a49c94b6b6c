"""DLRM (Naumov et al., 2019, arXiv:1906.00091) as MLPerf trains it, behind its 26 embedding tables."""

from itertools import pairwise
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from costmodel.workloads.networks._layers import Layer, Linear

TABLES, WIDTH = 26, 128


class _Perceptron(Layer):
    def __init__(self, *sizes: int) -> None:
        self.layers = nn.ModuleList([Linear(a, b) for a, b in pairwise(sizes)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = op.relu(layer(x))
        return x


class Dlrm(Layer):
    """13 numbers and 26 embeddings a sample to one score."""

    def __init__(self) -> None:
        self.bottom = _Perceptron(13, 512, 256, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = _Perceptron(pairs + WIDTH, 1024, 1024, 512, 256)
        self.score = Linear(256, 1)

    def forward(self, numbers: Any, embeddings: Any) -> Any:
        """``(n, 13)`` and ``(n, 26, 128)`` to ``(n, 1)`` scores."""
        n, count = int(numbers.shape[0]), TABLES + 1
        dense = self.bottom(numbers)
        vectors = op.concat([op.reshape(dense, (n, 1, WIDTH)), embeddings], dim=1)
        products = op.matmul(vectors, op.permute_dims(vectors, (0, 2, 1)))
        rows, columns = np.tril_indices(count, -1)
        lower = relax.const((rows * count + columns).astype("int32"))
        pairs = relax.op.take(op.reshape(products, (n, count * count))._expr, lower, axis=1, mode="clip")
        return self.score(self.top(op.concat([op.wrap_nested(pairs, "pairs"), dense], dim=1)))
