"""Models that rank candidates of matrix products."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.products._model import SHIPPED, shipped_products
from costmodel.products._predict import predict_seconds
from costmodel.products._product import Kernel, Product

_TWINS = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")  # 132 SMs each, with other memories
_SUM_S, _SUM_BYTES = 2.5e-6, 2.2e10  # a small kernel, and bytes/s of one SM, of an H100


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
    """The model of products that comes with this package; it knows nothing of kernels on other devices."""

    def __init__(self) -> None:
        self.identity = sha256(SHIPPED.read_bytes()).hexdigest()[:12]

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        seconds = np.full(len(kernels), np.nan)
        split = [i for i, each in enumerate(kernels) if each.kind == "decompose-k"]
        whole = [i for i in range(len(kernels)) if i not in split]
        known = _known(device)
        if known:
            seconds[whole] = predict_seconds(product, [kernels[i] for i in whole], sms, known)
            seconds[split] = [_decomposed(product, kernels[i].splits, sms, known) for i in split]
        return seconds


def _known(device: str) -> str | None:
    """The device that the shipped model knows: this one, or its twin, which ranks kernels almost alike."""
    known = shipped_products().devices.tolist()
    alike = [device, *(_TWINS if device in _TWINS else ())]
    return next((each for each in alike if each in known), None)


def _decomposed(product: Product, splits: int, sms: int, device: str) -> float:
    """A batched product of parts of k, then a kernel that sums them."""
    parts = product._replace(k=product.k // splits, batch=product.batch * splits, epilogue="")
    (multiplied,) = predict_seconds(parts, [Kernel("torch")], sms, device)
    summed_bytes = 4.0 * splits * product.m * product.n
    return float(multiplied) + _SUM_S + summed_bytes / (_SUM_BYTES * sms)


class _InductorsOrder:
    """Knows nothing but the order in which Inductor has its candidates."""

    identity = "inductor"

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        del product, sms, device
        return np.arange(len(kernels), dtype=np.float64)


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
