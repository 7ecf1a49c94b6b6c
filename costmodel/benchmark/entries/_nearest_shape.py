"""What was best for the nearest shape, as tables of tuned configs are read."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.products._product import Kernel, Product


class NearestShape:
    """What was best for the nearest product that was measured, of the same operands on as many SMs.

    Near is by the sum of the differences of the logarithms of the sizes.

    Args:
        products: Products that were measured.
        sms: SMs of each task.
        ranked: Kernels of each task, the fastest first.
    """

    def __init__(
        self, products: Sequence[Product], sms: Sequence[int], ranked: Sequence[Sequence[Kernel]]
    ) -> None:
        self._known: dict[Any, list[tuple[FloatArray, Sequence[Kernel]]]] = {}
        for product, count, kernels in zip(products, sms, ranked, strict=True):
            self._known.setdefault((product[4:6], count), []).append((_sizes(product), kernels))

    def __call__(self, product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
        near = self._known.get((product[4:6], sms), [])
        if not near:
            return np.full(len(kernels), math.nan)
        distances = [float(np.abs(_sizes(product) - sizes).sum()) for sizes, _ in near]
        best = near[int(np.argmin(distances))][1]
        places = {kernel: -float(i) for i, kernel in reversed(list(enumerate(best)))}
        return np.array([places.get(kernel, math.nan) for kernel in kernels])


def _sizes(product: Product) -> FloatArray:
    return np.log2(np.array(product[:4], np.float64))
