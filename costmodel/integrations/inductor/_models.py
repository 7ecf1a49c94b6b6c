"""Models that rank candidates of matrix products."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.products._predict import predict_seconds
from costmodel.products._product import Kernel, Product


class RanksProducts(Protocol):
    """Predicts how long kernels of a matrix product take.

    Attributes:
        identity: Changes whenever predictions do; part of the keys of Inductor's caches.
    """

    identity: str

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        """Return the latency of each kernel, nan where nothing is known of it."""
        ...


class _Shipped:
    """The model of products that comes with this package."""

    identity = "products-1"

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        return predict_seconds(product, kernels, sms, device)


class _InductorsOrder:
    """Knows nothing, which keeps Inductor's order."""

    identity = "none"

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        del product, sms, device
        return np.full(len(kernels), np.nan)


def open_ranking(model: RanksProducts | str | None) -> RanksProducts:
    """Return the model that is asked for.

    Raises:
        CostModelError: There is none of this name.
    """
    if model is None:
        return _InductorsOrder()
    if not isinstance(model, str):
        return model
    if model != "default":
        raise CostModelError(f"model must be 'default', None or an object that predicts, but got {model!r}.")
    return _Shipped()
